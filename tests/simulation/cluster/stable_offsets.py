"""I68, I69: last stable offsets, aborted transactions and decisions, as the committed batches of all logs tell them.

A transaction is open in a log from its first batch to its marker. So what is committed says which transactions are
open, and with that how far a reader of committed records may come, and which aborted ones it must leave out. The
committed records of `__transaction_state` say what was decided: a decision has one end, and no log has a marker that is
not of one, or more transactions that markers have ended than were decided so (with version 1 many have one epoch). All
of it is read from the bytes of batches, not asked of any broker.

Not here: what is committed (durable_log.py), and who is compared with it (transaction_invariants.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.transactions.transaction_metadata import TransactionMetadata
from broker.transactions.transaction_records import TransactionLogKey, decode_transaction_record
from broker.transactions.transaction_states import CLOSED, PREPARED
from penstock.messages.transactions.listing import TransactionState
from penstock.record.batch import HEADER, BatchHeader
from penstock.record.markers import Marker, read_marker
from penstock.record.reader import read_records
from storage.segment.transaction_index import AbortedRange

STATE_TOPIC = "__transaction_state-"
END_OF = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


class Span(NamedTuple):
    """A batch of a transaction."""

    first_offset: int
    last_offset: int


@dataclass(slots=True)
class Decisions:
    """The decisions that the coordinators of a cluster have committed."""

    made: Counter[tuple[int, int, bool]] = field(default_factory=Counter)
    """By producer id, epoch of the markers, and True for a commit: how many."""
    wrong: list[str] = field(default_factory=list)
    """Contradictions, in words."""
    _states: dict[str, TransactionState] = field(default_factory=dict)
    _markers: list[tuple[str, Marker, int]] = field(default_factory=list)
    """Committed in the step that has just ended, each with the transactions that its like have ended in that log: the
    decision may be committed in the same step."""

    def take(self, name: str, raw: bytes) -> None:
        """The next committed batch of a partition of the coordinators."""
        for record in read_records(raw):
            found = decode_transaction_record(record.key, record.value)
            if found is None or not isinstance(found[0], TransactionLogKey):
                continue
            transactional_id, now = found[0].transactional_id, found[1]
            before = self._states.pop(transactional_id, TransactionState.EMPTY)
            state = now.state if isinstance(now, TransactionMetadata) else None
            if before in PREPARED and state is not END_OF[before]:
                self.wrong.append(f"I69: {name}: {transactional_id!r} was {before.value}, and is {state}")
            if state is not None:
                self._states[transactional_id] = state
            if isinstance(now, TransactionMetadata) and state in PREPARED:
                self.made[now.producer_id, now.producer_epoch, state is TransactionState.PREPARE_COMMIT] += 1

    @property
    def has_news(self) -> bool:
        return bool(self._markers or self.wrong)

    def open(self) -> list[str]:
        """The transactional ids whose transaction is not whole."""
        return sorted(name for name, state in self._states.items() if state not in CLOSED)

    def marked(self, where: str, marker: Marker, ended: int) -> None:
        self._markers.append((where, marker, ended))

    def check(self, *, is_whole: bool) -> None:
        """After a step. Not `is_whole`: some of the coordinators' records could not be read in time."""
        markers, self._markers = self._markers, []
        for where, marker, ended in markers if is_whole else ():
            decided = self.made[marker[:3]]
            if not decided:
                self.wrong.append(f"I69: {where} has {marker}, and no coordinator has committed that decision")
            elif ended > decided:
                self.wrong.append(f"I69: {where} has {marker}, which ends transaction {ended} of {decided} so decided")


class CommittedTransactions:
    """The transactions of one log, up to its committed end. `decisions`: None where nobody compares them."""

    def __init__(self, name: str, decisions: Decisions | None) -> None:
        self._name, self._decisions = name, decisions
        self._is_state = name.startswith(STATE_TOPIC)
        self._open: dict[int, list[Span]] = {}
        """By producer id: its batches."""
        self._ends: Counter[tuple[int, int, bool]] = Counter()
        """By producer id, epoch and kind of the markers: the transactions that they have ended."""
        self.aborted: list[AbortedRange] = []

    def take(self, raw: bytes) -> None:
        """The next committed batch."""
        if self._is_state and self._decisions is not None:
            self._decisions.take(self._name, raw)
            return
        header = BatchHeader(*HEADER.unpack_from(raw))
        if not header.is_transactional or header.producer_id < 0:
            return
        if header.is_control:
            self._ended(header, raw)
        else:
            span = Span(header.base_offset, header.base_offset + header.last_offset_delta)
            self._open.setdefault(header.producer_id, []).append(span)

    def _ended(self, header: BatchHeader, raw: bytes) -> None:
        batches, marker = self._open.pop(header.producer_id, None), read_marker(raw)
        if marker is None:
            return
        if batches is not None and not marker.is_committed:
            self.aborted.append(AbortedRange(header.producer_id, batches[0].first_offset, header.base_offset))
        if batches is not None:
            self._ends[marker[:3]] += 1
        if self._decisions is not None:
            self._decisions.marked(f"{self._name}, offset {header.base_offset},", marker, self._ends[marker[:3]])

    def stable_end(self, end: int, log_start: int) -> int:
        """The last stable offset where all that is committed, up to `end`, is known. What is deleted keeps nobody
        waiting."""
        firsts = (
            next((span.first_offset for span in spans if span.last_offset >= log_start), end)
            for spans in self._open.values()
        )
        return max(min(firsts, default=end), log_start)

    def __repr__(self) -> str:
        return f"CommittedTransactions({self._name}, {len(self._open)} open, {len(self.aborted)} aborted)"
