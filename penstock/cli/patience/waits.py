"""How `produce` and `consume` stand, and what they wait for. Asked by the thread of watch.py, set by the command's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.cli.patience.stall import WaitProgress
from penstock.cli.patience.watch import Reasons

if TYPE_CHECKING:
    from penstock import Consumer, Producer


class ProduceWait:
    """Waits for the topic at first, then while records are not acked; not while a user types nothing."""

    def __init__(self, producer: Producer, topic: str, bootstrap: str) -> None:
        self._producer = producer
        self._topic = topic
        self._reasons = Reasons(bootstrap)
        self.is_topic_known = False

    def progress(self) -> WaitProgress:
        counts = self._producer.statistics()
        is_waiting = counts.buffered_bytes > 0 or not self.is_topic_known
        return WaitProgress(is_waiting, counts.records_acked + counts.records_failed)

    def reason(self) -> str:
        otherwise = f"no broker has described topic {self._topic} yet"
        return self._reasons.of(self._producer.waiting_for(), otherwise)


class ConsumeWait:
    """Counts as waiting, except while it prints: the reader of the pipe may be slow. A consumer that has read
    everything says so once, and not again between any two records."""

    def __init__(
        self, consumer: Consumer, bootstrap: str, otherwise: str = "no broker has described the topics yet"
    ) -> None:
        """`otherwise`: why it has no partitions."""
        self._consumer, self.otherwise = consumer, otherwise
        self._reasons = Reasons(bootstrap)
        self._has_noted_end = False
        self.is_printing = False
        self.printed = 0

    def progress(self) -> WaitProgress:
        return WaitProgress(not self.is_printing, self.printed)

    def reason(self) -> str:
        waits, count = self._consumer.waiting_for(), len(self._consumer.assignment())
        if waits or not count:
            return self._reasons.of(waits, self.otherwise)
        if not self._has_noted_end:
            self._has_noted_end = True
            note(f"penstock: {count} partitions are read to their ends; waiting for new records")
        return ""
