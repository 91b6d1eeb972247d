"""Promises about quotas: writers have sent no more than theirs, counted by what their producers say.

Judged where no fault makes a broker forget what it counted, or a request be sent again. That nothing is lost is judged
with everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.client.producer.producer_statistics import ProducerStatistics
from tests.simulation.cluster.plan import Plan

TOLERANCE = 0.05


class QuotaInvariants:
    """The writers of one plan. They have one client id, so they share a quota at each broker."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._writers: list[Callable[[], ProducerStatistics]] = []
        self.per_second = 0.0
        """The bytes of records that all writers have sent."""

    def watch(self, statistics: Callable[[], ProducerStatistics]) -> None:
        self._writers.append(statistics)

    def _sent_bytes(self) -> int:
        return sum(statistics().bytes_sent for statistics in self._writers)

    def broken(self) -> Iterable[str]:
        """I81, when writers have written for the plan's seconds. What is on its way may be above the quota: five full
        batches of each writer."""
        plan, sent = self._plan, self._sent_bytes()
        self.per_second = sent / plan.seconds
        if plan.byte_rate is None or plan.faults or plan.operators:
            return
        on_its_way = sum(5 * writer.batch_bytes for writer in plan.writers)
        most = plan.byte_rate * plan.seconds * (1 + TOLERANCE) * len(plan.brokers) + on_its_way
        if sent > most:
            yield f"I81: writers sent {sent} bytes in {plan.seconds:.0f} s, and might {most:.0f}"
