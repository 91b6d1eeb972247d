"""A reader's position in each partition, and how a fetched answer changes it.

Pure. Consumers and raw ranges share it. A partition has a *position* (the next offset that the user gets) and a *fetch
offset* (the next offset to fetch), which runs ahead. A seek begins a new generation; answers to an older one are
dropped. A position outside the log's range, or with an epoch that the leader does not have (KIP-320), is reset or
reported, as `auto_offset_reset` says, but only after the user has got every record that was fetched before it.
Not here: the state of one partition (partition_state.py), requests (fetch_session_view.py), bytes (fetch_buffer.py),
handing over (reader.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from penstock.backoff import Backoff
from penstock.base_error import without_frames
from penstock.client.cluster.metadata_cache import Leader, MetadataCache
from penstock.client.consumer.fetching.effects import (
    Deliver,
    Effect,
    FindLeader,
    LookUpReset,
    ReadElsewhere,
    ReportError,
)
from penstock.client.consumer.fetching.later_partitions import LaterPartitions
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.isolation.answered_batches import read_answer
from penstock.client.consumer.origin import Origin
from penstock.client.consumer.raw.raw_buffer import RawRange
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    LogTruncationError,
    OffsetOutOfRangeError,
    PenstockError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.fetch import AbortedTransaction, FetchPartition, PartitionFetchResult
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.messages.metadata import TopicInfo
from penstock.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    NO_LEADER,
    NO_OFFSET,
    CommittedOffset,
    TopicPartition,
)

RESET_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
UNKNOWN_PARTITION_GRACE_MS = 5_000
"""How long the metadata may be without a partition (a node that has just started) before its reader gets an error."""

SPOILT_ANSWERS_MAX = 4
"""How many answers in a row may be damaged (on the way, or by a disk) before the reader gets an error: asking again
does not help."""

FOLLOWER_MS_MAX = 300_000
"""Kafka's metadata.max.age.ms: its clients keep a follower for so long."""


class Positions:
    """Every assigned partition of one consumer."""

    def __init__(
        self,
        auto_offset_reset: str,
        backoff: Backoff,
        *,
        reads_committed: bool = False,
        follower_ms_max: int = FOLLOWER_MS_MAX,
    ) -> None:
        """The leader is asked again after `follower_ms_max` at a follower."""
        self._follower_ms_max = follower_ms_max
        self._reads_committed = reads_committed
        self._reset = RESET_TIMESTAMPS.get(auto_offset_reset)
        self._backoff = backoff
        self._generations = count(1)
        self.states: dict[TopicPartition, PartitionState] = {}
        self._later = LaterPartitions()

    # -- the user's wishes ---------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition], cache: MetadataCache | None = None) -> None:
        """Reads exactly these partitions from now on; one that stays keeps its position.

        With the reset 'latest', a partition that the cache shows as a later one (later_partitions.py) begins at its
        first record.
        """
        before, wanted = self.states, list(partitions)
        topics = [cache.topic(name) for name in {tp.topic for tp in wanted}] if cache is not None else []
        self._later.assign([topic for topic in topics if topic], before)
        self.states = {tp: before.get(tp) or self._new(tp) for tp in wanted}

    def announce(self, topic: TopicInfo) -> None:
        """The user is told of the topic's partitions; one that is added before they are assigned is a later one."""
        self._later.announce(topic)

    def _new(self, tp: TopicPartition) -> PartitionState:
        state = PartitionState(tp, next(self._generations))
        state.reset_timestamp = self._reset
        was_added = self._later.has(tp)
        if was_added and self._reset == LATEST_TIMESTAMP:
            state.reset_timestamp = EARLIEST_TIMESTAMP
        return state

    def seek(self, tp: TopicPartition, offset: int, epoch: int = NO_EPOCH, topic_id: str = "") -> None:
        """The next record that the user gets is the one at `offset`, or the first after it.

        With `topic_id` the place is one of that topic alone: another topic of the name is an error, whatever
        `auto_offset_reset` says, until a broker has answered about the place.
        """
        state = self.states[tp]
        self._place(state, offset, epoch)
        state.topic_id, state.is_given = topic_id, bool(topic_id)

    def seek_range(self, span: RawRange) -> None:
        """Reads from one offset to before another, and only of the topic with this id (empty: of today's)."""
        state = self.states[span.topic_partition]
        self._place(state, span.from_offset)
        state.end_offset, state.topic_id, state.epoch_max = span.to_offset, span.topic_id, span.leader_epoch

    def _place(self, state: PartitionState, offset: int, epoch: int = NO_EPOCH) -> None:
        state.begin(next(self._generations), offset, epoch)

    def seek_to_timestamp(self, tp: TopicPartition, timestamp: int) -> None:
        """Looks the position up: a time or a sentinel."""
        state = self.states[tp]
        state.begin(next(self._generations), NO_OFFSET, reset_timestamp=timestamp)
        state.topic_id = ""

    def committed(self, part: OffsetCommitPartition) -> None:
        """A transaction of this program has committed the position for the group."""
        state = self.states.get(part.partition)
        if state is not None and part.topic_id in ("", state.topic_id):
            state.own_commit = CommittedOffset(part.offset, part.leader_epoch)

    def seek_to_committed(self, committed: Mapping[TopicPartition, CommittedOffset | None]) -> None:
        """Moves partitions to the group's committed offsets, each for the topic that is read. A partition without a
        commit begins as a new one does. None goes back behind this program's own commit: a coordinator that returns a
        lower offset has been deposed, and the records in between would be processed and committed a second time."""
        for tp, found in committed.items():
            if (state := self.states.get(tp)) is None:
                continue  # given up meanwhile
            own = state.own_commit
            place = own if own is not None and (found is None or found.offset < own.offset) else found
            if place is not None:
                self._place(state, place.offset, place.leader_epoch)
            else:
                state.begin(next(self._generations), NO_OFFSET, reset_timestamp=self._new(tp).reset_timestamp)

    def complete_reset(self, tp: TopicPartition, generation: int, offset: int) -> None:
        """A look-up came back; nothing when the user has gone elsewhere meanwhile."""
        state = self._looked_up(tp, generation)
        if state is not None:
            is_new = state.is_new_to_group
            self._place(state, offset)
            state.skips_what_is_there = is_new and offset > 0

    def fail_reset(self, tp: TopicPartition, generation: int, error: ApiError, now_ms: int) -> list[Effect]:
        """A look-up was refused or not answered: it is done again later, or its error reported."""
        state = self._looked_up(tp, generation)
        return self._on_error(state, error, now_ms) if state is not None else []

    def _looked_up(self, tp: TopicPartition, generation: int) -> PartitionState | None:
        state = self.states.get(tp)
        is_same = state is not None and state.generation == generation and state.reset_timestamp is not None
        return state if is_same else None

    def unresolved(self, cache: MetadataCache, now_ms: int) -> list[PartitionState]:
        """Partitions whose position is to be looked up, of a leader that is known, and now."""
        return [
            s
            for s in self.states.values()
            if s.reset_timestamp is not None
            and not s.is_stopped
            and s.not_before_ms <= now_ms
            and cache.leader(s.topic_partition) is not None
        ]

    # -- fetching ------------------------------------------------------------------------------------------------------

    def wanted(
        self, node_id: int, cache: MetadataCache, max_bytes: int, now_ms: int
    ) -> dict[TopicPartition, FetchPartition]:
        """The questions for this broker: every partition that is read there, has a position, and is not backing off."""
        found = {}
        for tp, state in self.states.items():
            if state.fetch_offset < 0 or state.paused or state.is_held or state.not_before_ms > now_ms:
                continue
            if state.is_at_end or state.is_stopped:
                continue
            leader, topic = cache.leader(tp), cache.topic(tp.topic)
            if leader is None or topic is None or topic.topic_id != state.topic_id:
                continue
            if state.place_of_reading.source(leader, now_ms) == node_id:
                found[tp] = state.question(node_id, leader.epoch, max_bytes)
        return found

    def source(self, tp: TopicPartition, cache: MetadataCache, now_ms: int) -> Leader | None:
        """The node at which the partition is read, with the leader's epoch; None while there is no leader."""
        leader = cache.leader(tp)
        if leader is None:
            return None
        return leader._replace(node_id=self.states[tp].place_of_reading.source(leader, now_ms))

    def must_name_no_rack(self, node_id: int, now_ms: int) -> bool:
        """True if the leader must not name a follower: one has just failed. A node at which something is read as at a
        follower is in the reader's rack: it names nobody, also where it has become a leader, and serves no reader that
        names no rack."""
        states = self.states.values()
        if any(s.place_of_reading.follower_id() == node_id for s in states):
            return False
        return any(s.asked_node == node_id and s.place_of_reading.leader_alone_until_ms > now_ms for s in states)

    def next_due_ms(self, now_ms: int) -> int | None:
        """The time at which the first back-off ends, or a leader is to be asked again for its follower."""
        due = [s.not_before_ms for s in self.states.values() if s.not_before_ms > now_ms]
        named = (s.place_of_reading.follower for s in self.states.values())
        due += [one.until_ms for one in named if one is not None and one.until_ms > now_ms]
        return min(due, default=None)

    # -- followers -----------------------------------------------------------------------------------------------------

    def leave_follower(self, node_id: int, now_ms: int) -> list[Effect]:
        """This node is silent, broken or not known: what is read there as at a follower is read at the leader again."""
        at = [s for s in self.states.values() if s.place_of_reading.follower_id() == node_id]
        return [self._go_back(state, now_ms) for state in at]

    def _go_back(self, state: PartitionState, now_ms: int) -> ReadElsewhere:
        state.place_of_reading.go_back(now_ms)
        return ReadElsewhere(state.topic_partition, is_at_follower=False)

    def _check_follower(self, state: PartitionState, cache: MetadataCache, now_ms: int) -> list[Effect]:
        """Leaves a follower of which the metadata says that it is gone, or not in sync."""
        follower, info = state.place_of_reading.follower, cache.partition(state.topic_partition)
        if follower is not None and cache.endpoint(follower.node_id) is None:
            return [self._go_back(state, now_ms), FindLeader(hinted=False)]
        if follower is None or info is None or info.leader_epoch != follower.leader_epoch:
            return []
        return [self._go_back(state, now_ms)] if state.place_of_reading.has_left_isr(info) else []

    # -- metadata ------------------------------------------------------------------------------------------------------

    def on_metadata(self, cache: MetadataCache, now_ms: int) -> list[Effect]:
        """Handles topics that were deleted and made anew. A position belongs to one topic id, so nothing is read from
        an old position: it is reset or reported, like a position that is out of range."""
        effects: list[Effect] = []
        for tp, state in self.states.items():
            topic = cache.topic(tp.topic)
            if topic is None or state.is_stopped:
                continue
            if cache.partition(tp) is not None:
                state.unknown_since_ms = None
            effects += self._check_follower(state, cache, now_ms)
            if not state.topic_id:
                state.topic_id = topic.topic_id
            elif state.topic_id != topic.topic_id and not state.is_of_group:
                effects += self._on_recreated(state, topic.topic_id, now_ms)
        return effects

    def _on_recreated(self, state: PartitionState, found_id: str, now_ms: int) -> list[Effect]:
        tp, before = state.topic_partition, state.generation
        error = TopicRecreatedError(tp.topic, tp.partition, expected_id=state.topic_id, found_id=found_id)
        if state.is_given:
            return [self.report(state, error)]
        effects = self._on_lost(state, error, now_ms)
        if state.generation != before:
            state.topic_id = found_id
        return effects

    # -- answers -------------------------------------------------------------------------------------------------------

    def on_result(self, result: PartitionFetchResult, now_ms: int, node_id: int = NO_LEADER) -> list[Effect]:
        """The answer of this node for one partition; an answer to a question that we no longer ask means nothing. What
        a follower refuses is asked of the leader: only the leader's word counts."""
        state = self.states.get(result.partition)
        if state is None or state.is_stopped:
            return []
        if (result.topic_id, result.fetch_offset) != (state.topic_id, state.fetch_offset):
            return []
        is_at_follower = node_id != NO_LEADER and state.place_of_reading.follower_id() == node_id
        if result.error is not None or result.diverging_epoch is not None:
            if is_at_follower:
                return [self._go_back(state, now_ms), FindLeader(hinted=False)]
            if node_id != state.asked_node and NO_LEADER not in (node_id, state.asked_node):
                return []  # of a node that is not read any more
        if result.error is not None:
            return self._on_error(state, result.error, now_ms)
        end = result.last_stable_offset if self._reads_committed else result.high_watermark
        if result.preferred_read_replica != NO_LEADER:
            state.note_end(end)
            return self._on_named(state, result.preferred_read_replica, now_ms)
        failures, state.failures = state.failures, 0
        state.is_given = False
        if result.diverging_epoch is not None:
            truncated = state.truncated_at(max(min(result.diverging_epoch.end_offset, state.fetch_offset), 0))
            return self._on_lost(state, truncated, now_ms, truncated.divergent_offset)
        state.note_end(end)
        state.log_start_offset = result.log_start_offset
        effects: list[Effect] = []
        try:
            if result.records:
                effects.append(self._advance(state, bytes(result.records), result.aborted))
        except LogTruncationError as error:
            return [self.report(state, error)]
        except CorruptMessageError as error:
            if is_at_follower:
                return [self._go_back(state, now_ms), FindLeader(hinted=False)]
            state.failures = failures
            return self._on_error(state, error, now_ms)
        if is_at_follower and state.end_offset is not None and end <= state.fetch_offset < state.end_offset:
            effects.append(self._go_back(state, now_ms))  # the leader has told the range's end: it has the rest
        return effects

    def _on_named(self, state: PartitionState, node_id: int, now_ms: int) -> list[Effect]:
        """The leader has answered without records: a follower in the reader's rack has them."""
        state.failures = 0
        moves = state.place_of_reading.named(node_id, state.asked_epoch, now_ms, self._follower_ms_max)
        return [ReadElsewhere(state.topic_partition, is_at_follower=True)] if moves else []

    def _advance(self, state: PartitionState, records: bytes, aborted: Sequence[AbortedTransaction]) -> Deliver:
        """All that the answer has, in one piece; what is behind damage is asked for again."""
        tp, from_offset = state.topic_partition, state.fetch_offset
        good, last, epochs, damage = read_answer(state, records, aborted)
        if last is None or last.next_offset <= from_offset:
            raise damage or CorruptMessageError(f"{tp}: the broker answered without a whole new batch at {from_offset}")
        found = Deliver(tp, state.generation, good, from_offset, last.next_offset, Origin(state.topic_id, epochs))
        state.fetch_offset = last.next_offset  # AFTER all that may fail for want of memory, or the records are skipped
        state.last_fetched_epoch = last.leader_epoch
        return found

    def _on_lost(self, state: PartitionState, error: PenstockError, now_ms: int, at: int = NO_OFFSET) -> list[Effect]:
        """The position is void: reading goes on at `at`, or where `auto_offset_reset` says, or the user is told."""
        if self._reset is None:
            return [self.report(state, error)]
        if self._has_undelivered(state, now_ms):
            return []
        state.begin(next(self._generations), at, reset_timestamp=self._reset if at == NO_OFFSET else None)
        return [LookUpReset(state.topic_partition, str(error))]

    def _has_undelivered(self, state: PartitionState, now_ms: int) -> bool:
        """A reset drops what is in the buffer, so it waits until the user has got that; the partition backs off."""
        if state.position == state.fetch_offset:
            return False
        state.not_before_ms = now_ms + self._backoff.wait_ms(1)
        return True

    def report(self, state: PartitionState, error: PenstockError) -> ReportError:
        """Ends fetching the partition until a seek; the user hears of it after what was fetched before."""
        state.halted = True
        return ReportError(state.topic_partition, state.generation, error)

    def _on_error(self, state: PartitionState, error: ApiError, now_ms: int) -> list[Effect]:
        tp = state.topic_partition
        if isinstance(error, OffsetOutOfRangeError):
            return self._on_out_of_range(state, error, now_ms)
        if isinstance(error, CorruptMessageError) and state.failures >= SPOILT_ANSWERS_MAX:
            offset = state.fetch_offset
            why = f"{error} (so where it ends is not known: it may take more than one step to get past it)"
            return [self.report(state, UndecodableBatchError(tp, (offset, offset + 1), why))]
        if not error.retriable:
            return [self.report(state, error)]
        self.back_off(state, error, now_ms)
        return [FindLeader(hinted=error.leader is not None)]

    def _on_out_of_range(self, state: PartitionState, error: OffsetOutOfRangeError, now_ms: int) -> list[Effect]:
        tp, low, high = state.topic_partition, error.log_start_offset, error.log_end_offset
        text = f"{tp}: offset {state.fetch_offset} is out of range; readable are {low} to {high}"
        named = OffsetOutOfRangeError(text, log_start_offset=low, log_end_offset=high)
        return self._on_lost(state, named, now_ms)

    def unknown(self, state: PartitionState, now_ms: int) -> list[Effect]:
        """The metadata does not have the partition: asks again later, and reports it when it stays so. A broker alone
        is not believed: it may not have heard of the partition yet, or not have made its log."""
        error = UnknownTopicOrPartitionError(f"{state.topic_partition} does not exist any more: was the topic deleted?")
        self.back_off(state, error, now_ms)
        if state.unknown_since_ms is None:
            state.unknown_since_ms = now_ms
        if state.is_of_group or now_ms - state.unknown_since_ms < UNKNOWN_PARTITION_GRACE_MS:
            return []
        return [self.report(state, error)]

    def back_off(self, state: PartitionState, error: ApiError, now_ms: int) -> None:
        """Asks again later; at once where a leader was named."""
        state.failures += 1
        state.last_error = without_frames(error)
        state.not_before_ms = (
            0 if error.leader is not None and state.failures == 1 else (now_ms + self._backoff.wait_ms(state.failures))
        )

    def __repr__(self) -> str:
        return f"Positions({len(self.states)} partitions)"
