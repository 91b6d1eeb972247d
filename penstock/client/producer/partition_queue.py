"""PartitionQueue: one partition's batches from the open one to those that its broker has.

    open ──full or due──► ready ──sent──► in_flight ──answered──► done
                            ▲                 │
                            └──to be tried again, in its place

`open` and the end of `ready` belong to the thread that closes batches (accumulator.py), all the rest to the sender's
thread. Not here: which batch may be sent now (sequences.py and dispatcher.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from penstock.client.cluster.metadata_cache import Leader
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.broker_pace import BrokerPace
from penstock.client.producer.sequences import PartitionSequences, Refusal, SequenceError
from penstock.errors import InvariantViolation, PenstockError
from penstock.record.codecs import Codec
from penstock.types import ProducerIdAndEpoch, TopicPartition


class PartitionQueue:
    """The batches of one partition: at most one is open, any number are closed, and one, or with idempotence a few, are
    with the broker."""

    __slots__ = (
        "asked",
        "in_flight",
        "is_forgotten",
        "lacks_producer_id",
        "limit_bytes",
        "not_before_ms",
        "open",
        "pace",
        "ready",
        "sequences",
        "slot",
        "still_since_ms",
        "topic_partition",
        "used_ms",
    )

    def __init__(
        self, topic_partition: TopicPartition, limit_bytes: int, sequences: PartitionSequences | None = None
    ) -> None:
        self.topic_partition = topic_partition
        self.limit_bytes = limit_bytes
        self.sequences = sequences  # None: the producer is not idempotent
        self.lacks_producer_id = False
        self.is_forgotten = False  # another queue is the partition's: this one takes nothing any more
        self.used_ms = 0  # when a batch was begun last
        self.open: ProducerBatch | None = None  # also while somebody has it in hand
        self.slot: deque[ProducerBatch] = deque()  # holds `open` unless somebody has it in hand
        self.ready: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []  # with a broker, in the order of the partition
        self.not_before_ms = 0
        self.asked: Leader | None = None  # who got the last request
        self.pace: BrokerPace | None = None  # of that broker
        self.still_since_ms: int | None = None  # a batch was sent then, and none was acked since

    @property
    def waiting(self) -> int:
        """How many batches are not acked. `open` is read BEFORE `ready`: what is being closed may be in both."""
        return (self.open is not None) + len(self.ready) + len(self.in_flight)

    @property
    def oldest_ms(self) -> int | None:
        """The time since which the oldest batch waits to be acked. It must not iterate over `ready`: a caller may
        append to it meanwhile, which ends an iteration with an error."""
        firsts = self.in_flight.copy()  # all: what was sent again is the last one there
        if self.ready:
            firsts.append(self.ready[0])
        elif not firsts and (opened := self.open) is not None:
            firsts.append(opened)
        return min((batch.created_ms for batch in firsts), default=None)

    @property
    def waits_since_ms(self) -> int | None:
        """The time since which nothing was acked although something was sent, or could be."""
        if self.still_since_ms is not None or not self.ready:
            return self.still_since_ms
        return self.ready[0].created_ms

    @property
    def held_bytes(self) -> int:
        """The bytes of the buffer that its batches hold. Copies: batches move in other threads meanwhile."""
        opened = self.open
        batches = (*self.in_flight.copy(), *self.ready.copy())
        return sum(batch.granted_bytes for batch in batches) + (opened.granted_bytes if opened is not None else 0)

    def head(self) -> ProducerBatch | None:
        """The batch to send next; batches that failed while they were encoded are passed over."""
        while self.ready:
            if not self.ready[0].done:
                return self.ready[0]
            self.ready.popleft()
        return None

    def closes_at_ms(self, due_ms: int, now_ms: int) -> int | None:
        """When the open batch, which is due then, is closed. None: it grows until something is answered."""
        if not self.in_flight and not self.ready:
            return due_ms
        if self.ready or self.pace is None or self.sequences is None or not self.sequences.may_send(None):
            return None
        next_ms = self.pace.next_ms(self.in_flight[0].sent_ms, now_ms)
        return None if next_ms is None else max(due_ms, next_ms)

    # -- to the broker -------------------------------------------------------------------------------------------------

    def settle(self, newest: ProducerIdAndEpoch | None) -> bool:
        """False: the partition waits for another producer id than the newest."""
        self.lacks_producer_id = self.sequences is not None and not self.sequences.settle(newest)
        return not self.lacks_producer_id

    def may_send(self, batch: ProducerBatch) -> bool:
        """True if the order of the partition lets the head of the queue go to the broker now."""
        return not self.in_flight if self.sequences is None else self.sequences.may_send(batch.place)

    def send(self, batch: ProducerBatch, request: int, now_ms: int) -> None:
        """The head of the queue goes to the broker with this request."""
        if self.ready.popleft() is not batch or not self.may_send(batch):
            raise InvariantViolation(f"{self!r}: {batch!r} is sent out of turn")
        if self.sequences is not None:
            identity, batch.place = self.sequences.on_sent(batch.place, batch.record_count)
            batch.stamp(identity, batch.place.sequence, is_transactional=self.sequences.is_transactional)
        batch.request, batch.sent_ms = request, now_ms
        batch.attempts += 1
        self.in_flight.append(batch)
        if self.still_since_ms is None:
            self.still_since_ms = now_ms

    # -- and back ------------------------------------------------------------------------------------------------------

    def acked(self, batch: ProducerBatch) -> None:
        """The batch is in the log."""
        self.in_flight.remove(batch)
        batch.request = 0
        self.still_since_ms = self.in_flight[0].sent_ms if self.in_flight else None
        if self.sequences is not None and batch.place is not None:
            self.sequences.on_acked(batch.place)

    def release(self, batch: ProducerBatch, *, is_unknown: bool) -> None:
        """No answer of the broker counts for this batch any more; `is_unknown`: it may have been written."""
        self.in_flight.remove(batch)
        batch.request = 0
        batch.unknown_attempts += is_unknown
        if self.sequences is not None and batch.place is not None:
            self.sequences.on_back(batch.place, is_unknown=is_unknown)

    @property
    def is_transactional(self) -> bool:
        return self.sequences is not None and self.sequences.is_transactional

    def refused(self, batch: ProducerBatch, error: SequenceError) -> Refusal:
        """The batch does not follow what the log has."""
        if self.sequences is None or batch.place is None:
            raise InvariantViolation(f"{batch!r} has no sequence, but: {error}")
        return self.sequences.on_refused(batch.place, error)

    def failed(self, batch: ProducerBatch) -> None:
        """The batch is not tried again. If it was sent, the order of the partition has a gap."""
        if not self.in_flight and not self.ready:
            self.still_since_ms = None
        if self.sequences is not None and batch.place is not None:
            self.sequences.on_failed(batch.place)

    def split(self, batch: ProducerBatch, codec: Codec) -> tuple[ProducerBatch, ...]:
        """The halves of a batch that the broker finds too large, in its place."""
        halves = batch.split(codec)
        if self.sequences is not None and batch.place is not None:
            places = self.sequences.split(batch.place, [half.record_count for half in halves])
            for half, place in zip(halves, places, strict=True):
                half.place = place
        return halves

    def without(self, batch: ProducerBatch, refused: Mapping[int, PenstockError], codec: Codec) -> ProducerBatch:
        """The batch of the records that were not refused, in its place. Fewer records take other sequences: so an epoch
        begins, with all that is unresolved."""
        rest = batch.without(refused, codec)
        if self.sequences is not None and batch.place is not None:
            rest.place = self.sequences.shrink(batch.place, rest.record_count)
        return rest

    def put_back(self, batches: Sequence[ProducerBatch]) -> None:
        """Puts back a batch that is to be tried again, or its halves, before whatever is behind it."""
        at = 0
        while self._is_before(at, batches[0]):
            at += 1
        for batch in reversed(batches):
            self.ready.insert(at, batch)

    def _is_before(self, at: int, batch: ProducerBatch) -> bool:
        if self.sequences is None or batch.place is None or at == len(self.ready):
            return False
        other = self.ready[at].place
        return other is not None and self.sequences.is_before(other, batch.place)

    def __repr__(self) -> str:
        return f"PartitionQueue({self.topic_partition}, ready={len(self.ready)}, in_flight={len(self.in_flight)})"
