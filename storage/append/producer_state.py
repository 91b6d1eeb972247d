"""Remembers the idempotent producers of one log, and their transactions. Pure.

A batch of an idempotent producer carries the producer's id, its epoch, and the sequence number of its first record. The
log remembers for each producer its epoch and its newest `WINDOW` batches. A client has at most as many in flight, so a
batch that is sent again is one of these. `producer_rules.py` judges a leader's next batch by them.

A transactional batch opens its producer's transaction, and a marker ends it (`transaction_state.py`). A producer whose
transaction is open never expires and makes no room.

Sequence numbers count records; after 2^31 - 1 comes 0. A batch has as many as offsets, so its header tells its last
one, even after the cleaner has taken records out. Followers and recovery take the batches of a log without these
checks, because the log is the truth. `KnownProducers` is ordered by the last append, the longest silent first.

When a producer last appended has two answers where its batch was read from a log, and not taken as it came: a bound and
a guess. The bound is a time at which the batch was surely there; after a day of it a producer expires. The guess is the
time of its records, and not before that of the batches ahead of it: it says which producer makes room where there are
too many. So old records, or a clock that is wrong, never make a log forget a producer that has room.

Not here: the calls (producers/producer_log.py), the files, and the bounds of a node.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.record.batch import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, BatchHeader
from penstock.record.markers import Marker
from penstock.types import NO_OFFSET, NO_TIMESTAMP
from storage.append.transaction_state import NO_TRANSACTION, EndedRange, ProducerTransaction, UndecidedTransactions

WINDOW = 5
"""Batches remembered of each producer: as many as its client may have in flight for one partition."""
SEQUENCES = 2**31


class TakenBatch(NamedTuple):
    """A batch of a producer, as it is in the log."""

    base_sequence: int
    base_offset: int
    last_offset_delta: int
    append_time_ms: int
    """The broker's time if the batch carries it, -1 otherwise."""

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.last_offset_delta) % SEQUENCES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


class ProducerEntry(NamedTuple):
    """One producer in one log."""

    epoch: int
    batches: tuple[TakenBatch, ...]
    """The newest of this epoch, oldest first: at most `WINDOW`; none if it began with a marker."""
    last_append_ms: int
    """This node's wall time; the append was not later. The records' times do not count."""
    likely_append_ms: int = NO_TIMESTAMP
    """When it probably was, if that is earlier: the batch was read from a log. -1: `last_append_ms`."""
    transaction: ProducerTransaction | None = None
    """The producer's transaction; None if nothing of it was ever transactional."""
    silent_from_ms: int | None = None
    """Its silence is sure since then, by this process's even clock; may be before the process began, where an earlier
    one has watched it. None: not known yet, because its batch is being read from a log."""

    def silence_ms(self, now_ms: int) -> int:
        """The time for which it was surely silent, by no calendar. `now_ms` is by the even clock."""
        return max(now_ms - self.silent_from_ms, 0) if self.silent_from_ms is not None else 0

    @property
    def has_open_transaction(self) -> bool:
        return self.transaction is not None and self.transaction.first_offset != NO_OFFSET

    @property
    def newest_offset(self) -> int:
        """An offset above which no batch of the producer, and no marker, begins."""
        last = self.batches[-1].last_offset if self.batches else NO_OFFSET
        if self.transaction is None:
            return last
        return max(last, self.transaction.first_offset, self.transaction.unnumbered_offset)

    @property
    def silent_since_ms(self) -> int:
        return self.last_append_ms if self.likely_append_ms == NO_TIMESTAMP else self.likely_append_ms

    def has(self, header: BatchHeader) -> TakenBatch | None:
        """The batch that this one repeats."""
        if header.producer_epoch == self.epoch:
            for batch in self.batches:
                if header.base_sequence == batch.base_sequence and header.last_offset_delta == batch.last_offset_delta:
                    return batch
        return None

    def next_sequence(self) -> int:
        if not self.batches:
            return 0
        last = self.batches[-1]
        return (last.base_sequence + last.last_offset_delta + 1) % SEQUENCES

    def goes_on_with(self, header: BatchHeader) -> bool:
        """True if the batch is the producer's next one, in the same epoch. It is no duplicate then."""
        if header.producer_epoch != self.epoch or header.base_sequence != self.next_sequence():
            return False
        return self.transaction is None or not self.has_open_transaction or header.is_transactional


class KnownProducers:
    """The producers of one log. The values are immutable, so that a copy costs little."""

    __slots__ = ("_before", "_newest_before", "_producers", "newest_offset", "undecided")

    def __init__(self, producers: Mapping[int, ProducerEntry] | None = None, ended: Iterable[EndedRange] = ()) -> None:
        """`producers`: in the order of their last appends. `ended`: their transactions that ended a short while ago."""
        self._producers: dict[int, ProducerEntry] = dict(producers or {})
        self.undecided = UndecidedTransactions(
            {
                producer_id: known.transaction.first_offset
                for producer_id, known in self._producers.items()
                if known.transaction is not None and known.has_open_transaction
            },
            ended,
        )
        self._before: dict[int, ProducerEntry | None] = {}
        """The entries that the append under way has changed: by producer id, the value before."""
        self.newest_offset = self._find_newest()
        """An offset above which no producer has a batch or marker."""
        self._newest_before = self.newest_offset

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[int]:
        """The ids; the longest silent producer first."""
        return iter(self._producers)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def items(self) -> ItemsView[int, ProducerEntry]:
        """The longest silent producer first."""
        return self._producers.items()

    def copy(self) -> dict[int, ProducerEntry]:
        """The producers as of now, in the order of the last appends."""
        return self._producers.copy()

    def likely_ms(self, header: BatchHeader, not_after_ms: int) -> int:
        """When a batch that was read from a log was probably appended, if that was before `not_after_ms`; else -1."""
        newest = next(reversed(self._producers.values()), None)
        likely_ms = newest.silent_since_ms if newest is not None else NO_TIMESTAMP
        if likely_ms < header.max_timestamp_ms <= not_after_ms:  # above it, a clock was ahead: that tells nothing
            likely_ms = header.max_timestamp_ms
        return likely_ms if 0 <= likely_ms < not_after_ms else NO_TIMESTAMP

    def take_read(self, header: BatchHeader, not_after_ms: int, silent_from_ms: int | None = None) -> bool:
        """Takes a batch that was read from a log, as `take` does: it was appended at `not_after_ms` or before."""
        return self.take(header, not_after_ms, self.likely_ms(header, not_after_ms), silent_from_ms)

    def take(
        self, header: BatchHeader, now_ms: int, likely_ms: int = NO_TIMESTAMP, silent_from_ms: int | None = None
    ) -> bool:
        """The log has this batch of a producer now, at its end. True if the producer was not known. `silent_from_ms` is
        now, by the even clock; None: not known."""
        producer_id, epoch, append_time_ms = header.producer_id, header.producer_epoch, NO_TIMESTAMP
        if header.attributes & LOG_APPEND_TIME_BIT:  # the cleaner leaves it there when it takes all records out
            append_time_ms = header.max_timestamp_ms if header.record_count else header.base_timestamp_ms
        batch = TakenBatch(header.base_sequence, header.base_offset, header.last_offset_delta, append_time_ms)
        known = self._producers.pop(producer_id, None)
        self._before.setdefault(producer_id, known)
        older = known.batches[1 - WINDOW :] if known is not None and known.epoch == epoch else ()
        transaction = known.transaction if known is not None else None
        if header.attributes & TRANSACTIONAL_BIT:
            transaction = self._opened(header, transaction or NO_TRANSACTION)
        self._producers[producer_id] = ProducerEntry(
            epoch, (*older, batch), now_ms, likely_ms, transaction, silent_from_ms
        )
        self.newest_offset = header.base_offset + header.last_offset_delta
        return known is None

    def _opened(self, header: BatchHeader, transaction: ProducerTransaction) -> ProducerTransaction:
        if transaction.first_offset != NO_OFFSET:
            return transaction
        self.undecided.open(header.producer_id, header.base_offset)
        return transaction._replace(first_offset=header.base_offset)

    def take_unnumbered(
        self, header: BatchHeader, now_ms: int, likely_ms: int = NO_TIMESTAMP, silent_from_ms: int | None = None
    ) -> bool:
        """The log has this transactional batch without a sequence now, at its end. True if the producer was not
        known."""
        known = self._producers.get(header.producer_id)
        transaction = (known.transaction if known is not None else None) or NO_TRANSACTION
        opened = self._opened(header, transaction)._replace(unnumbered_offset=header.base_offset)
        return self._put_unnumbered(
            header, known, ProducerEntry(header.producer_epoch, (), now_ms, likely_ms, opened, silent_from_ms)
        )

    def take_marker(
        self,
        header: BatchHeader,
        marker: Marker | None,
        now_ms: int,
        likely_ms: int = NO_TIMESTAMP,
        silent_from_ms: int | None = None,
    ) -> tuple[bool, int]:
        """The log has this marker now, at its end; without its record if `marker` is None. True if the producer was not
        known, and the first offset of the transaction that it ended, or -1."""
        known, first = self._producers.get(header.producer_id), NO_OFFSET
        transaction = (known.transaction if known is not None else None) or NO_TRANSACTION
        if transaction.first_offset != NO_OFFSET:
            first = self.undecided.end(header.producer_id, header.base_offset)
        coordinator_epoch = transaction.coordinator_epoch if marker is None else marker.coordinator_epoch
        ended = ProducerTransaction(NO_OFFSET, coordinator_epoch, header.base_offset)
        entry = ProducerEntry(header.producer_epoch, (), now_ms, likely_ms, ended, silent_from_ms)
        return self._put_unnumbered(header, known, entry), first

    def _put_unnumbered(self, header: BatchHeader, known: ProducerEntry | None, entry: ProducerEntry) -> bool:
        if known is not None and known.epoch == header.producer_epoch:
            entry = entry._replace(batches=known.batches)
        self._before.setdefault(header.producer_id, self._producers.pop(header.producer_id, None))
        self._producers[header.producer_id] = entry
        self.newest_offset = header.base_offset + header.last_offset_delta
        return known is None

    def begin_append(self) -> None:
        """Makes `take_back` return to this state from now on."""
        self._newest_before = self.newest_offset
        self._before.clear()
        self.undecided.begin_append()

    def take_back(self) -> None:
        """The append failed: its batches were never there."""
        self.undecided.take_back()
        evicted: dict[int, ProducerEntry] = {}
        for producer_id, known in self._before.items():
            is_there = self._producers.pop(producer_id, None) is not None
            if known is not None:
                (self._producers if is_there else evicted)[producer_id] = known
        if evicted:
            self._producers = evicted | self._producers  # they were silent longest
        self._before, self.newest_offset = {}, self._newest_before

    def _find_newest(self) -> int:
        return max((known.newest_offset for known in self._producers.values()), default=NO_OFFSET)

    def forget(self, producer_ids: Iterable[int]) -> None:
        for producer_id in producer_ids:
            del self._producers[producer_id]

    def _idle(self) -> Iterator[tuple[int, ProducerEntry]]:
        """The producers without an open transaction, the longest silent first."""
        return (one for one in self._producers.items() if not one[1].has_open_transaction)

    @property
    def longest_silent(self) -> int | None:
        """The producer that may make room first; None if no producer may. A producer with an open transaction may
        not."""
        return next((producer_id for producer_id, _ in self._idle()), None)

    def forget_oldest(self) -> bool:
        """Forgets the `longest_silent`; a failed append brings it back. False if no producer may make room."""
        producer_id = self.longest_silent
        if producer_id is None:
            return False
        self._before.setdefault(producer_id, self._producers.pop(producer_id))
        return True

    @property
    def silent_since_ms(self) -> int | None:
        """The last append of the `longest_silent`, as far as is known; None without one."""
        return next((producer.silent_since_ms for _, producer in self._idle()), None)

    @property
    def longest_silent_entry(self) -> ProducerEntry | None:
        """The entry of the `longest_silent`; None without one."""
        return next((producer for _, producer in self._idle()), None)

    @property
    def surely_silent_since_ms(self) -> int | None:
        """A time not before the last append of the `longest_silent`, whatever the times of its records; None without
        one."""
        return next((producer.last_append_ms for _, producer in self._idle()), None)

    def silent_before(self, time_ms: int) -> list[int]:
        """The ids of those whose last append is older, and whose transactions are over. All are looked at: a clock may
        have been set back."""
        return [producer_id for producer_id, known in self._idle() if known.last_append_ms < time_ms]

    def count_as_appended(self, now_ms: int) -> None:
        """Counts as appended now what was appended at a later time, when the clock was ahead: those producers would not
        be silent until then."""
        for producer_id, known in self._producers.items():
            if known.last_append_ms > now_ms:
                likely_ms = known.likely_append_ms if known.likely_append_ms < now_ms else NO_TIMESTAMP
                self._producers[producer_id] = known._replace(last_append_ms=now_ms, likely_append_ms=likely_ms)

    def times(self) -> dict[int, tuple[int, int]]:
        """`last_append_ms` and `likely_append_ms` of each, by its id."""
        return {producer_id: (one.last_append_ms, one.likely_append_ms) for producer_id, one in self._producers.items()}

    def count_no_sooner(self, times: Mapping[int, tuple[int, int]]) -> None:
        """Earlier times than these count no more. They were known before the log was read again; its files have the
        times of a calendar that may have jumped."""
        for producer_id, known in self._producers.items():
            last_ms, likely_ms = times.get(producer_id, (NO_TIMESTAMP, NO_TIMESTAMP))
            since_ms = last_ms if likely_ms == NO_TIMESTAMP else likely_ms
            if last_ms > known.last_append_ms or since_ms > known.silent_since_ms:
                self._producers[producer_id] = known._replace(last_append_ms=last_ms, likely_append_ms=likely_ms)

    def were_silent(self, silences: Mapping[int, int], now_ms: int) -> None:
        """Earlier processes have watched these producers be silent, each for the time under its id; others they have
        not watched. `now_ms` is by the even clock."""
        for producer_id, known in self._producers.items():
            self._producers[producer_id] = known._replace(silent_from_ms=now_ms - silences.get(producer_id, 0))

    def watch_read(self, now_ms: int) -> None:
        """The silence of those whose batches were read from a log begins now."""
        for producer_id, known in self._producers.items():
            if known.silent_from_ms is None:
                self._producers[producer_id] = known._replace(silent_from_ms=now_ms)

    def window_offsets(self) -> frozenset[int]:
        """The base offsets of all remembered batches, and of the newest marker of each producer."""
        numbered = {batch.base_offset for known in self._producers.values() for batch in known.batches}
        transactions = (known.transaction for known in self._producers.values())
        return frozenset(numbered.union(one.unnumbered_offset for one in transactions if one is not None) - {NO_OFFSET})

    def __repr__(self) -> str:
        return f"KnownProducers({len(self)}, up to offset {self.newest_offset})"
