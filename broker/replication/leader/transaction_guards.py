"""Guards of one led partition: each stands for a producer whose transaction the coordinator is being asked about.

A guard is set BEFORE the question. A marker of the producer ends it, and so does the end of the lead. Only while it
stands does the answer count: after a marker, a batch that waited for the answer may belong to a transaction that is
over, and it would begin one here that nobody ever ends. Costs nothing while no question is open. Not here: the
questions (`broker/transactions/verification/`).
"""

from __future__ import annotations

from penstock.record.batch import Buffer, iter_headers


class TransactionGuard:
    """One question about one producer."""

    __slots__ = ("has_marker", "is_lead_over", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.has_marker = self.is_lead_over = False

    @property
    def stands(self) -> bool:
        return not (self.has_marker or self.is_lead_over)

    def __repr__(self) -> str:
        return f"TransactionGuard({self.producer_id}, {'stands' if self.stands else 'ended'})"


class TransactionGuards:
    """The guards of one partition. On the event loop."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, list[TransactionGuard]] = {}

    def set(self, producer_id: int) -> TransactionGuard:
        """A new one. One producer may have several: each group whose offsets a transaction commits asks for itself."""
        guard = TransactionGuard(producer_id)
        self._guards.setdefault(producer_id, []).append(guard)
        return guard

    def drop(self, guard: TransactionGuard) -> None:
        """It is needed no more; one that has ended is gone already."""
        guards = self._guards.get(guard.producer_id)
        if guards is not None and guard in guards:
            guards.remove(guard)
            if not guards:
                del self._guards[guard.producer_id]

    def marked(self, producer_id: int) -> None:
        """A transaction of the producer has ended here."""
        for guard in self._guards.pop(producer_id, ()):
            guard.has_marker = True

    def appended(self, records: Buffer) -> None:
        """A coordinator's batches are in the log: markers may be among them."""
        if self._guards:
            for _, header in iter_headers(records):
                if header.is_control and header.producer_id in self._guards:
                    self.marked(header.producer_id)

    def end_all(self) -> None:
        """The partition is led no more, or in another epoch: others may have written markers meanwhile."""
        guards, self._guards = self._guards, {}
        for of_producer in guards.values():
            for guard in of_producer:
                guard.is_lead_over = True

    def __len__(self) -> int:
        return sum(map(len, self._guards.values()))

    def __repr__(self) -> str:
        return f"TransactionGuards({len(self)})"
