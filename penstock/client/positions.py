"""Where a consumer stands in each partition, and what a fetched answer means for that.

Pure. A partition has a *position* (the next offset that the user gets) and a *fetch offset* (the next that is asked
for), which runs ahead. A seek begins a new generation, and whatever belongs to an older one is dropped. A position
that fell out of the log's range, or whose epoch the leader does not have (KIP-320), is reset or reported, as
`auto_offset_reset` says. Not here: requests (fetch_session_view.py), bytes (fetch_buffer.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from penstock.client.messages import FetchPart, FetchResult
from penstock.client.metadata_cache import Leader, MetadataCache
from penstock.client.retry import Backoff
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    LogTruncationError,
    OffsetOutOfRangeError,
    PenstockError,
    UnknownTopicOrPartitionError,
)
from penstock.record.batch import iter_headers
from penstock.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_EPOCH, NO_OFFSET, TopicPartition

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
UNKNOWN_PARTITION_GRACE_MS = 5_000
"""So long a partition may be unknown (a new broker, a topic just created) before its reader is told."""

SPOILT_ANSWERS_MAX = 4
"""So many answers in a row may be damaged (on the way, or by a disk) before the reader is told: it will not pass."""


class PartitionState:
    """One assigned partition. `position` is written by the polling thread, all else by the loop."""

    __slots__ = (
        "failures",
        "fetch_offset",
        "generation",
        "halted",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "not_before_ms",
        "position",
        "reset_timestamp",
        "topic_partition",
        "unknown_since_ms",
    )

    def __init__(self, tp: TopicPartition, generation: int) -> None:
        self.topic_partition = tp
        self.generation = generation
        self.position = NO_OFFSET
        self.fetch_offset = NO_OFFSET
        self.last_fetched_epoch = NO_EPOCH
        self.reset_timestamp: int | None = None  # a sentinel or a time: the position is to be looked up
        self.halted = False  # an error was reported; nothing is fetched until a seek
        self.high_watermark = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.not_before_ms = 0
        self.failures = 0
        self.unknown_since_ms: int | None = None

    def __repr__(self) -> str:
        return f"PartitionState({self.topic_partition}, position={self.position}, fetch_offset={self.fetch_offset})"


@dataclass(frozen=True, slots=True)
class Deliver:
    """Record bytes for the user: from `fetch_offset` to before `next_offset`."""

    topic_partition: TopicPartition
    generation: int
    records: bytes
    next_offset: int


@dataclass(frozen=True, slots=True)
class Report:
    """An error that the next poll raises."""

    topic_partition: TopicPartition
    generation: int
    error: PenstockError


@dataclass(frozen=True, slots=True)
class FindLeader:
    """The metadata may be wrong. `hinted`: the answer itself named the leader, so asking is not needed."""

    hinted: bool


@dataclass(frozen=True, slots=True)
class LookUpReset:
    """The partition's position is to be looked up; `why` is for the log."""

    topic_partition: TopicPartition
    why: str


Effect = Deliver | Report | FindLeader | LookUpReset


class Positions:
    """Every assigned partition of one consumer."""

    def __init__(self, auto_offset_reset: str, backoff: Backoff) -> None:
        self._reset = RESET_TIMESTAMPS.get(auto_offset_reset)
        self._backoff = backoff
        self._generations = count(1)
        self.states: dict[TopicPartition, PartitionState] = {}

    # What the user wants

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these partitions from now on; one that stays keeps its position."""
        before = self.states
        self.states = {tp: before.get(tp) or self._new(tp) for tp in partitions}

    def _new(self, tp: TopicPartition) -> PartitionState:
        state = PartitionState(tp, next(self._generations))
        state.reset_timestamp = self._reset
        return state

    def seek(self, tp: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """The next record that the user gets is the one at `offset`, or the first after it."""
        state = self.states[tp]
        self._renew(state)
        state.position = state.fetch_offset = offset
        state.last_fetched_epoch = epoch
        state.reset_timestamp = None

    def seek_to_timestamp(self, tp: TopicPartition, timestamp: int) -> None:
        """Looks the position up: a time or a sentinel."""
        state = self.states[tp]
        self._renew(state)
        state.position = state.fetch_offset = NO_OFFSET
        state.last_fetched_epoch = NO_EPOCH
        state.reset_timestamp = timestamp

    def _renew(self, state: PartitionState) -> None:
        state.generation = next(self._generations)
        state.halted = False
        state.not_before_ms = state.failures = 0
        state.unknown_since_ms = None

    def complete_reset(self, tp: TopicPartition, generation: int, offset: int) -> None:
        """A look-up came back; nothing when the user has gone elsewhere meanwhile."""
        state = self.states.get(tp)
        if state is not None and state.generation == generation and state.reset_timestamp is not None:
            self.seek(tp, offset)

    def unresolved(self) -> list[PartitionState]:
        """Partitions whose position is to be looked up."""
        return [s for s in self.states.values() if s.reset_timestamp is not None and not s.halted]

    # What to fetch

    def wanted(
        self, node_id: int, cache: MetadataCache, max_bytes: int, now_ms: int
    ) -> dict[TopicPartition, FetchPart]:
        """What to ask this broker for: every partition that it leads, has a position, and is not backing off."""
        found = {}
        for tp, state in self.states.items():
            if state.fetch_offset < 0 or state.halted or state.not_before_ms > now_ms:
                continue
            leader = cache.leader(tp)
            if leader is None or leader.node_id != node_id:
                continue
            found[tp] = self._part(state, leader, max_bytes, cache)
        return found

    def _part(self, state: PartitionState, leader: Leader, max_bytes: int, cache: MetadataCache) -> FetchPart:
        topic = cache.topic(state.topic_partition.topic)
        return FetchPart(
            *state.topic_partition,
            state.fetch_offset,
            leader.epoch,
            state.last_fetched_epoch,
            max_bytes,
            topic.topic_id if topic is not None else "",
        )

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the first back-off ends."""
        return min((s.not_before_ms for s in self.states.values() if s.not_before_ms > now_ms), default=None)

    # What an answer means

    def on_result(self, result: FetchResult, now_ms: int) -> list[Effect]:
        """The answer for one partition; an answer to a question that we no longer ask means nothing."""
        tp = TopicPartition(result.topic, result.partition)
        state = self.states.get(tp)
        if state is None or state.halted or result.fetch_offset != state.fetch_offset:
            return []
        if result.error is not None:
            return self._on_error(state, result.error, now_ms)
        failures, state.failures = state.failures, 0
        state.unknown_since_ms = None
        if result.diverging_epoch is not None:
            return self._on_divergence(state, result.diverging_epoch.end_offset)
        state.high_watermark, state.log_start_offset = result.high_watermark, result.log_start_offset
        if not result.records:
            return []
        try:
            return self._advance(state, result.records)
        except CorruptMessageError as error:
            state.failures = failures
            return self._on_error(state, error, now_ms)

    def _advance(self, state: PartitionState, records: bytes) -> list[Effect]:
        last = None
        for _, header in iter_headers(records):
            last = header
        if last is None or last.next_offset <= state.fetch_offset:
            raise CorruptMessageError(f"{state.topic_partition}: the broker answered without a whole new batch")
        state.fetch_offset = last.next_offset
        state.last_fetched_epoch = last.leader_epoch
        return [Deliver(state.topic_partition, state.generation, records, last.next_offset)]

    def _on_divergence(self, state: PartitionState, end_offset: int) -> list[Effect]:
        """Records that this consumer has fetched are not in the leader's log: they were truncated (KIP-320)."""
        tp, position = state.topic_partition, state.fetch_offset
        divergent = max(min(end_offset, position), 0)
        text = f"{tp}: the log was truncated below position {position}; it diverges at offset {divergent} or before"
        if self._reset is not None:
            self.seek(tp, divergent)
            return [LookUpReset(tp, text)]
        error = LogTruncationError(
            text, topic=tp.topic, partition=tp.partition, position=position, divergent_offset=divergent
        )
        return [self._report(state, error)]

    def _report(self, state: PartitionState, error: PenstockError) -> Report:
        state.halted = True
        return Report(state.topic_partition, state.generation, error)

    def _on_error(self, state: PartitionState, error: ApiError, now_ms: int) -> list[Effect]:
        tp = state.topic_partition
        if isinstance(error, OffsetOutOfRangeError):
            text = (
                f"{tp}: offset {state.fetch_offset} is out of range; readable are {error.log_start_offset}"
                f" to {error.log_end_offset}"
            )
            if self._reset is not None:
                self.seek_to_timestamp(tp, self._reset)
                return [LookUpReset(tp, text)]
            low, high = error.log_start_offset, error.log_end_offset
            return [self._report(state, OffsetOutOfRangeError(text, log_start_offset=low, log_end_offset=high))]
        spoilt = isinstance(error, CorruptMessageError) and state.failures >= SPOILT_ANSWERS_MAX
        if not error.retriable or spoilt:
            return [self._report(state, error)]
        return [*self.back_off(state, error, now_ms), FindLeader(hinted=error.leader is not None)]

    def back_off(self, state: PartitionState, error: ApiError, now_ms: int) -> list[Effect]:
        """Asks again later; at once where a leader was named. A partition unknown for long is reported."""
        state.failures += 1
        state.not_before_ms = (
            0 if error.leader is not None and state.failures == 1 else (now_ms + self._backoff.wait_ms(state.failures))
        )
        if not isinstance(error, UnknownTopicOrPartitionError):
            return []
        if state.unknown_since_ms is None:
            state.unknown_since_ms = now_ms
        if now_ms - state.unknown_since_ms < UNKNOWN_PARTITION_GRACE_MS:
            return []
        gone = UnknownTopicOrPartitionError(f"{state.topic_partition} does not exist any more: was the topic deleted?")
        return [self._report(state, gone)]

    def __repr__(self) -> str:
        return f"Positions({len(self.states)} partitions)"
