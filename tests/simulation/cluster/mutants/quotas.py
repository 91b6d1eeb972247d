"""Mistakes of quotas."""

from __future__ import annotations

from broker.quotas.sampled_rate import SampledRate
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import Plan, WriterPlan

QUOTA = 20_000
BUSY = WriterPlan("topic-0", 0, 0.02, 20, is_keyed=False, batch_bytes=2_000)
"""It has more than twice of that to send."""


def throttled(tellings: int = 1) -> tuple[Plan, ...]:
    """One node for 30 s, and a writer that wants more than it may."""
    story = directed(tellings=tellings, copies=1, roles=((True, True),), seconds=30.0, writers=(BUSY,))
    return with_parts(story, byte_rate=QUOTA)


QUOTAS = (
    Mutant(
        "a rate counts as if all of its windows had been there from the start",
        "Kafka's Rate: ten seconds' quota at once",
        (
            Edit(
                SampledRate._window_ms,
                "max(self._windows.size_ms, now_ms - self._samples[0].start_ms if self._samples else 0)",
                "self._windows.whole_ms",
            ),
        ),
        is_replicated=None,
        stories=throttled(),
    ),
)
