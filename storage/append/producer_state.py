"""Remembers the idempotent producers of one log, and judges a leader's next batch by them. Pure.

A batch of an idempotent producer carries the producer's id, its epoch, and the sequence number of its first record. The
log remembers for each producer its epoch and its newest `WINDOW` batches. A client has at most as many in flight, so a
batch that is sent again is one of these.

    the batch is one of them                 a duplicate: answered with the offsets and the time of its first append
    its epoch is below the known one         INVALID_PRODUCER_EPOCH: an attempt from before the producer's last bump
    its epoch is above                       its sequence must be 0, else OUT_OF_ORDER_SEQUENCE_NUMBER
    its epoch is the same                    its sequence must follow the last one, else OUT_OF_ORDER_SEQUENCE_NUMBER
    the producer is not known                its sequence must be 0, else UNKNOWN_PRODUCER_ID (Kafka since 2.5 takes
                                             any; here a lost state must not let a batch in twice, KIP-360)

Sequence numbers count records; after 2^31 - 1 comes 0. A batch has as many as offsets, so its header tells its last
one, even after the cleaner has taken records out. Followers and recovery take the batches of a log without these
checks, because the log is the truth. `KnownProducers` is ordered by the last append, the longest silent first.

When a producer last appended has two answers where its batch was read from a log, and not taken as it came: a bound and
a guess. The bound is a time at which the batch was surely there; after a day of it a producer expires. The guess is the
time of its records, and not before that of the batches ahead of it: it says who makes room where there are too many. So
old records, or a clock that is wrong, never make a log forget a producer that has room.

Not here: who calls it, the files, and the bounds of a node.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.errors import InvalidProducerEpochError, OutOfOrderSequenceError, UnknownProducerIdError
from penstock.record.batch import LOG_APPEND_TIME_BIT, BatchHeader
from penstock.types import NO_OFFSET, NO_TIMESTAMP

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
    """The newest of this epoch, oldest first: one to `WINDOW`."""
    last_append_ms: int
    """This node's wall time; the append was not later. The records' times do not count."""
    likely_append_ms: int = NO_TIMESTAMP
    """When it probably was, if that is earlier: the batch was read from a log. -1: `last_append_ms`."""

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
        last = self.batches[-1]
        return (last.base_sequence + last.last_offset_delta + 1) % SEQUENCES

    def goes_on_with(self, header: BatchHeader) -> bool:
        """True if the batch is the producer's next one, in the same epoch. It is no duplicate then."""
        return header.producer_epoch == self.epoch and header.base_sequence == self.next_sequence()


def must_fit(header: BatchHeader, known: ProducerEntry | None) -> None:
    """Raises unless the batch, which is no duplicate, is the producer's next one."""
    epoch, sequence = header.producer_epoch, header.base_sequence
    if known is None:
        if sequence:
            raise UnknownProducerIdError(
                f"producer id {header.producer_id} is not known here, and its batch begins with sequence {sequence}, "
                "not 0: the log has lost or forgotten it; go on with a higher epoch"
            )
    elif epoch < known.epoch:
        raise InvalidProducerEpochError(
            f"producer id {header.producer_id}: epoch {epoch} is over, epoch {known.epoch} has begun"
        )
    else:
        expected = known.next_sequence() if epoch == known.epoch else 0
        if sequence != expected:
            raise OutOfOrderSequenceError(
                f"producer id {header.producer_id}, epoch {epoch}: the batch begins with sequence {sequence}, the next "
                f"one is {expected}"
            )


class KnownProducers:
    """The producers of one log. The values are immutable, so that a copy costs little."""

    __slots__ = ("_before", "_newest_before", "_producers", "newest_offset")

    def __init__(self, producers: Mapping[int, ProducerEntry] | None = None) -> None:
        """`producers`: in the order of their last appends."""
        self._producers: dict[int, ProducerEntry] = dict(producers or {})
        self._before: dict[int, ProducerEntry | None] = {}
        """The entries that the append under way has changed: by producer id, the value before."""
        self.newest_offset = self._find_newest()
        """No producer has a batch above it."""
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
        """As of now, in the order of the last appends."""
        return self._producers.copy()

    def take_read(self, header: BatchHeader, not_after_ms: int) -> bool:
        """Like `take`, for a batch that was read from a log: it was appended at `not_after_ms` or before."""
        newest = next(reversed(self._producers.values()), None)
        likely_ms = newest.silent_since_ms if newest is not None else NO_TIMESTAMP
        if likely_ms < header.max_timestamp_ms <= not_after_ms:  # above it, a clock was ahead: that tells nothing
            likely_ms = header.max_timestamp_ms
        return self.take(header, not_after_ms, likely_ms if 0 <= likely_ms < not_after_ms else NO_TIMESTAMP)

    def take(self, header: BatchHeader, now_ms: int, likely_ms: int = NO_TIMESTAMP) -> bool:
        """The log has this batch of a producer now, at its end. True if the producer was not known."""
        producer_id, epoch, append_time_ms = header.producer_id, header.producer_epoch, NO_TIMESTAMP
        if header.attributes & LOG_APPEND_TIME_BIT:  # the cleaner leaves it there when it takes all records out
            append_time_ms = header.max_timestamp_ms if header.record_count else header.base_timestamp_ms
        batch = TakenBatch(header.base_sequence, header.base_offset, header.last_offset_delta, append_time_ms)
        known = self._producers.pop(producer_id, None)
        self._before.setdefault(producer_id, known)
        older = known.batches[1 - WINDOW :] if known is not None and known.epoch == epoch else ()
        self._producers[producer_id] = ProducerEntry(epoch, (*older, batch), now_ms, likely_ms)
        self.newest_offset = header.base_offset + header.last_offset_delta
        return known is None

    def begin_append(self) -> None:
        """From now on `take_back` returns to this state."""
        self._newest_before = self.newest_offset
        self._before.clear()

    def take_back(self) -> None:
        """The append failed: its batches were never there."""
        evicted: dict[int, ProducerEntry] = {}
        for producer_id, known in self._before.items():
            is_there = self._producers.pop(producer_id, None) is not None
            if known is not None:
                (self._producers if is_there else evicted)[producer_id] = known
        if evicted:
            self._producers = evicted | self._producers  # they were silent longest
        self._before, self.newest_offset = {}, self._newest_before

    def _find_newest(self) -> int:
        return max((known.batches[-1].last_offset for known in self._producers.values()), default=NO_OFFSET)

    def forget(self, producer_ids: Iterable[int]) -> None:
        for producer_id in producer_ids:
            del self._producers[producer_id]

    def forget_oldest(self) -> None:
        """The producer that was silent longest; a failed append brings it back."""
        producer_id = next(iter(self._producers))
        self._before.setdefault(producer_id, self._producers.pop(producer_id))

    @property
    def silent_since_ms(self) -> int | None:
        """The last append of the producer that was silent longest, as far as is known; None if there is none."""
        return next((producer.silent_since_ms for producer in self._producers.values()), None)

    @property
    def surely_silent_since_ms(self) -> int | None:
        """That producer's last append was not later, whatever the times of its records; None if there is none."""
        return next((producer.last_append_ms for producer in self._producers.values()), None)

    def silent_before(self, time_ms: int) -> list[int]:
        """The ids of those whose last append is older. All are looked at: a clock may have been set back."""
        return [producer_id for producer_id, known in self._producers.items() if known.last_append_ms < time_ms]

    def count_as_appended(self, now_ms: int) -> None:
        """Now, what was appended at a later time: the clock was ahead. Else nobody there would be silent until then."""
        for producer_id, known in self._producers.items():
            if known.last_append_ms > now_ms:
                likely_ms = known.likely_append_ms if known.likely_append_ms < now_ms else NO_TIMESTAMP
                self._producers[producer_id] = known._replace(last_append_ms=now_ms, likely_append_ms=likely_ms)

    def window_offsets(self) -> frozenset[int]:
        """The base offsets of all remembered batches."""
        return frozenset(batch.base_offset for known in self._producers.values() for batch in known.batches)

    def __repr__(self) -> str:
        return f"KnownProducers({len(self)}, up to offset {self.newest_offset})"
