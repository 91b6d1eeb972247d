"""Guards of one led partition: each stands for a producer whose transaction the coordinator is being asked about.

A guard is set BEFORE the question. A marker of the producer ends it, and so does the end of the lead. Only while it
stands does the answer count: after a marker, a batch that waited for the answer may belong to a transaction that is
over, and it would begin one here that nobody ever ends. With transaction version 2 each transaction has an epoch of its
own, and its marker the one above: a marker of the guard's own epoch is that of the transaction before, and leaves it.

With version 1 a call that writes a marker, and comes late, could end the producer's next transaction, which has the
same epoch. So the newest end that was told here is kept, of the newest ENDS_MAX producers, as long as the lead lasts; a
call of another lead names another leader epoch. The stamps of two ends are compared only if one lead of the coordinator
made both: the next coordinator's calendar may be behind.

Costs nothing while no question is open. Not here: the questions (`broker/transactions/verification/`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.record.batch import Buffer, iter_headers

ENDS_MAX: Final = 1_000


class TransactionGuard:
    """One question about one producer. `epoch` is that of its transaction with version 2, else None."""

    __slots__ = ("epoch", "has_marker", "is_lead_over", "producer_id")

    def __init__(self, producer_id: int, epoch: int | None) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.has_marker = self.is_lead_over = False

    @property
    def stands(self) -> bool:
        return not (self.has_marker or self.is_lead_over)

    def __repr__(self) -> str:
        return f"TransactionGuard({self.producer_id}, {'stands' if self.stands else 'ended'})"


class DecidedEnd(NamedTuple):
    """A decision of a coordinator. Its stamps rise while its leader epoch lasts, and not from one epoch to the next."""

    coordinator_epoch: int
    decided_ms: int
    """0: it is not known."""


class TransactionGuards:
    """The guards of one partition. On the event loop."""

    __slots__ = ("_ends", "_guards")

    def __init__(self) -> None:
        self._guards: dict[int, list[TransactionGuard]] = {}
        self._ends: dict[int, DecidedEnd] = {}
        """The newest end of a transaction of version 1 that was told here, by the producer's id."""

    def set(self, producer_id: int, epoch: int | None = None) -> TransactionGuard:
        """A new one; with `epoch`, of a transaction of version 2. One producer may have several: each group whose
        offsets a transaction commits asks for itself."""
        guard = TransactionGuard(producer_id, epoch)
        self._guards.setdefault(producer_id, []).append(guard)
        return guard

    def drop(self, guard: TransactionGuard) -> None:
        """Forgets a guard that is needed no more; one that has ended is gone already."""
        guards = self._guards.get(guard.producer_id)
        if guards is not None and guard in guards:
            guards.remove(guard)
            if not guards:
                del self._guards[guard.producer_id]

    def marked(self, producer_id: int) -> None:
        """A transaction of the producer has ended here, with version 1, or nobody knows which."""
        for guard in self._guards.pop(producer_id, ()):
            guard.has_marker = True

    def appended(self, records: Buffer) -> None:
        """A coordinator's batches are in the log: markers may be among them. Markers of version 1 are passed to
        `marked`, too."""
        if self._guards:
            for _, header in iter_headers(records):
                if header.is_control and header.producer_id in self._guards:
                    self._marked_by(header.producer_id, header.producer_epoch)

    def _marked_by(self, producer_id: int, marker_epoch: int) -> None:
        guards = self._guards.pop(producer_id)
        left = [guard for guard in guards if guard.epoch is not None and marker_epoch <= guard.epoch]
        if left:
            self._guards[producer_id] = left
        for guard in guards:
            guard.has_marker = guard not in left

    def is_late(self, producer_id: int, end: DecidedEnd) -> bool:
        """True for the end of a transaction of version 1 that was told here before, or of an earlier one. A newer
        coordinator's is not: the log is to know its epoch."""
        newest = self._ends.get(producer_id)
        return (
            newest is not None
            and newest.coordinator_epoch == end.coordinator_epoch
            and 0 < end.decided_ms <= newest.decided_ms
        )

    def note_end(self, producer_id: int, end: DecidedEnd) -> None:
        """The end of a transaction of version 1 is committed here."""
        if end.decided_ms > 0:
            before = self._ends.pop(producer_id, end)
            self._ends[producer_id] = max(before, end)
            if len(self._ends) > ENDS_MAX:
                del self._ends[next(iter(self._ends))]

    def end_all(self) -> None:
        """The partition is led no more, or in another epoch: others may have written markers meanwhile."""
        self._ends = {}
        guards, self._guards = self._guards, {}
        for of_producer in guards.values():
            for guard in of_producer:
                guard.is_lead_over = True

    def __len__(self) -> int:
        return sum(map(len, self._guards.values()))

    def __repr__(self) -> str:
        return f"TransactionGuards({len(self)})"
