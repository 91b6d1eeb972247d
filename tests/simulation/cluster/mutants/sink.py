"""Mistakes of atomic batches, and the stories that bring them out: a driver, its tasks, and one decision for all."""

from __future__ import annotations

from broker.transactions.atomic_batches import batch_checks
from broker.transactions.atomic_batches.decisions import AtomicBatchDecisions
from tests.simulation.cluster.half_turns import HALF
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.processing import CONFIG
from tests.simulation.cluster.mutants.stories import directed, with_parts
from tests.simulation.cluster.plan import Fault, Kind, Plan, SinkPlan, TopicKind, TopicPlan

LARGE = {"max.message.bytes": 1_000_000}
"""The configuration of topics where the broker takes only small messages."""
ONE_BY_ONE = {"message_max_bytes": 300, "replica_fetch_max_bytes": 300}
"""A decision over some writers takes some batches, and a follower fetches them one by one."""


def sunk(
    *faults: Fault, tellings: int = 4, timeout_ms: int = 1_500, pause_s: float = 0.05, **config: object
) -> tuple[Plan, ...]:
    """A topic of three partitions, into which one application writes."""
    topics = (TopicPlan("made", 3, 3, LARGE, TopicKind.TRANSACTED),)
    sink = SinkPlan("sink", "made", 6, pause_s, 6, timeout_ms)
    story = directed(*faults, topics=topics, tellings=tellings, **config)
    return with_parts(story, CONFIG, writers=(), readers=(), seconds=8.0, sinks=(sink,))


SUNK = sunk()
HALF_TURNS = tuple(Fault(1.0 + 1.7 * n, Kind.HALF_TURN, 1, 0, 1.0, HALF) for n in range(4))
SUNK_WITH_HALF_TURNS = sunk(*HALF_TURNS, timeout_ms=700, **ONE_BY_ONE)
SINK = (
    Mutant(
        "the decision of an application comes after those of its writers",
        "seam: one record decides",
        (
            Edit(
                AtomicBatchDecisions._decide,
                "turn.write(BatchApplicationKey(application=name), application)\n    self.settle(turn, name)",
                "turn.state.replay(BatchApplicationKey(application=name), application)\n    self.settle(turn, name)\n"
                "    turn.write(BatchApplicationKey(application=name), application)",
            ),
        ),
        stories=SUNK_WITH_HALF_TURNS,
    ),
    Mutant(
        "a new coordinator does not end what was decided",
        "seam: one record decides",
        (Edit(AtomicBatchDecisions.loaded, "self.settle(turn, name)", "pass"),),
        stories=SUNK_WITH_HALF_TURNS,
    ),
    Mutant(
        "a run that was replaced decides",
        "seam: two drivers of one checkpoint",
        (Edit(batch_checks.check_run, "if found is not None and run and run in found.fenced_runs:", "if False:"),),
        stories=SUNK,
    ),
    Mutant(
        "writers that were not accepted are committed too",
        "this project's own: attempts of one task",
        (
            Edit(
                AtomicBatchDecisions.settle,
                "is_committed=transaction.producer_id in accepted",
                "is_committed=bool(accepted)",
            ),
        ),
        stories=SUNK,
    ),
)
