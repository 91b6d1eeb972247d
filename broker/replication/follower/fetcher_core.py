"""Decides the requests of one fetcher to its source broker, and what to do with the answers.

Pure: it keeps a state per partition (fetching, truncating, delayed; KIP-595's fetch with `last_fetched_epoch`), builds
the next request of the stream's session, and turns answers into effects (fetcher_values.py). Appending, truncating and
flushing belong to effect_runner.py, sending to fetcher_driver.py.

Safety, in the order in which it is obeyed:
- every record below the fetch offset is durable here: the driver calls `appended` only AFTER the flush, so the next
  fetch at N acknowledges N;
- a partition whose records are still being flushed is left out of the session, so the leader does not send them again,
  and the other partitions of the fetcher do not wait for its disk;
- the log start that a fetch reports is durable here: deleted records stay deleted after a crash;
- an outdated answer (other offset, other epoch, other topic id, a forgotten partition) is dropped. A turn answers the
  requests up to it; a request of a later turn is not answered yet;
- a replica that moves asks for no more than the throttle has room for (move_throttle.py); one that is in sync, or
  catches up, asks at once;
- the log is cut only by the leader's epoch history, never to the high watermark (KIP-101).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.replication.follower.fetcher_values import (
    AdvanceHighWatermark,
    AdvanceLogStart,
    Append,
    Effect,
    FetcherStatistics,
    FetchState,
    FetchTurn,
    ReplicaState,
    SayRefused,
    SayStopped,
    StartOver,
    Truncate,
)
from broker.replication.move_throttle import MovingCopies
from penstock.errors import ApiError, FencedLeaderEpochError, OffsetOutOfRangeError
from penstock.messages.fetch import FetchPartition, PartitionFetchResult
from penstock.types import EpochEndOffset, TopicPartition

TURN_PARTITIONS_MAX = 2_000
"""A leader takes this many in one request (request_limits.py); the others come with the next turn."""

SAID_AT_REFUSALS = 50
"""The errors in a row for one partition after which the error is logged once: some 10 s, longer than a change of
leader. Otherwise a follower would stand still without a line in the log."""


class FetcherCore:
    """The partitions that one fetcher follows from one source broker."""

    def __init__(self, backoff_ms: int, partition_bytes_max: int, copies: MovingCopies | None = None) -> None:
        """`copies`: which of the partitions are throttled, and by what."""
        self._copies = copies or MovingCopies()
        self._backoff_ms = backoff_ms
        self._partition_bytes_max = partition_bytes_max
        self._states: dict[TopicPartition, FetchState] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, None] = {}
        self._in_session: set[TopicPartition] = set()
        self._appending: dict[TopicPartition, None] = {}
        self._turns = 0
        self.held_ms = 0
        """How long after the last turn a partition may be asked for that the throttle held; 0 if it held none."""

    # -- which partitions ----------------------------------------------------------------------------------------------

    def add(self, partition: TopicPartition, state: FetchState) -> None:
        """Follow `partition` in `state.leader_epoch`; replaces its earlier state."""
        self._states[partition] = state
        self._ask_for(partition)

    def _ask_for(self, partition: TopicPartition) -> None:
        """Asks for the partition with the next turn; nothing of it is being appended any more."""
        self._appending.pop(partition, None)
        self._forgotten.pop(partition, None)
        self._changed[partition] = None

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._states.pop(partition, None)
            self._appending.pop(partition, None)
            self._changed.pop(partition, None)
            if partition in self._in_session:
                self._forgotten[partition] = None

    def failed(self, partition: TopicPartition, why: str) -> None:
        """The partition is not fetched until the next leader epoch: the disk or the data failed."""
        state = self._states.get(partition)
        if state is not None:
            state.state, state.failure = ReplicaState.FAILED, why
            self._appending.pop(partition, None)
            self._changed.pop(partition, None)
            if partition in self._in_session:
                self._forgotten[partition] = None

    def session_lost(self) -> None:
        """The stream broke: the next one starts with every partition."""
        self._in_session.clear()
        self._forgotten.clear()
        self._changed = {
            p: None for p, s in self._states.items() if s.state is not ReplicaState.FAILED and p not in self._appending
        }

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def __len__(self) -> int:
        return len(self._states)

    # -- asking --------------------------------------------------------------------------------------------------------

    def has_changes(self, now_ms: int) -> bool:
        return bool(self._forgotten) or any(self._states[p].retry_at_ms <= now_ms for p in self._changed)

    @property
    def has_others_to_ask_for(self) -> bool:
        """True if anything is followed besides the partitions that are being appended to."""
        return len(self._states) > len(self._appending)

    def next_turn(self, now_ms: int) -> FetchTurn:
        """The changes since the request before; delayed partitions whose time has come are part of them."""
        self._turns += 1
        if self._appending:
            self._forgotten.update(dict.fromkeys(self._appending))
        wanted: list[FetchPartition] = []
        copying, self.held_ms = 0, 0
        for partition in tuple(self._changed):
            if len(wanted) == TURN_PARTITIONS_MAX:
                break
            state = self._states[partition]
            if state.retry_at_ms > now_ms or state.state is ReplicaState.TRUNCATING:
                continue
            bytes_max = self._partition_bytes_max
            if self._is_throttled(partition, state):
                bytes_max = min(bytes_max, self._copies.throttle.room(now_ms) - copying)
                if bytes_max <= 0:
                    self._hold(partition, state, now_ms)
                    continue
                copying += bytes_max
            self._forgotten.pop(partition, None)
            state.state, state.asked_in = ReplicaState.FETCHING, self._turns
            del self._changed[partition]
            self._in_session.add(partition)
            wanted.append(
                FetchPartition(
                    partition,
                    state.topic_id,
                    state.fetch_offset,
                    state.leader_epoch,
                    state.last_fetched_epoch,
                    state.log_start_offset,
                    bytes_max,
                )
            )
        return FetchTurn(self._turns, wanted, self._forget() if self._forgotten else [])

    def _is_throttled(self, partition: TopicPartition, state: FetchState) -> bool:
        """A moving replica is throttled only while it lacks committed records. The leader may count it as in sync
        before this node hears of it; such a replica lacks none."""
        return state.lag != 0 and self._copies.is_moving(partition)

    def _hold(self, partition: TopicPartition, state: FetchState, now_ms: int) -> None:
        """Takes the partition out of the session until the throttle has room, or the leader would go on sending its
        records from the old position."""
        self.held_ms = self._copies.throttle.hold_ms(now_ms)
        self._copies.throttle.note_hold()
        state.retry_at_ms = now_ms + self.held_ms
        if partition in self._in_session:
            self._forgotten[partition] = None

    def _forget(self) -> list[TopicPartition]:
        """The partitions that leave the leader's session with this turn."""
        known = [p for p in self._forgotten if p in self._in_session]
        forgotten = known[:TURN_PARTITIONS_MAX]
        self._in_session.difference_update(forgotten)
        self._forgotten = dict.fromkeys(known[TURN_PARTITIONS_MAX:])
        return forgotten

    # -- answers -------------------------------------------------------------------------------------------------------

    def on_result(self, result: PartitionFetchResult, turn: int, now_ms: int) -> list[Effect]:
        """The effects of one partition's answer to the request of that turn."""
        partition = result.partition
        state = self._states.get(partition)
        if state is None or state.state is not ReplicaState.FETCHING or partition in self._appending:
            return []
        same = (result.topic_id, result.fetch_offset) == (state.topic_id, state.fetch_offset)
        if turn < state.asked_in or not same or partition in self._changed:
            return []  # outdated: that is not asked any more
        if result.error is not None:
            return self._on_error(partition, state, result.error, now_ms)
        state.refusals = 0
        if result.diverging_epoch is not None:
            state.state = ReplicaState.TRUNCATING
            return [Truncate(partition, result.diverging_epoch, result.log_start_offset)]
        state.lag = max(0, result.high_watermark - state.fetch_offset)
        if result.records:
            self._appending[partition] = None
            if self._copies.is_moving(partition):
                self._copies.throttle.spend(len(result.records), now_ms)
        effects: list[Effect] = [
            Append(partition, bytes(result.records), result.high_watermark, result.log_start_offset)
            if result.records
            else AdvanceHighWatermark(partition, result.high_watermark)
        ]
        if result.log_start_offset > max(state.log_start_offset, state.log_start_wanted):
            state.log_start_wanted = result.log_start_offset
            effects.append(AdvanceLogStart(partition, result.log_start_offset))  # AFTER the high watermark, its bound
        return effects

    def _on_error(self, partition: TopicPartition, state: FetchState, error: ApiError, now_ms: int) -> list[Effect]:
        self._in_session.discard(partition)  # the leader's session forgets a partition that it answers with an error
        if isinstance(error, OffsetOutOfRangeError) and error.log_start_offset > state.fetch_offset:
            state.state = ReplicaState.TRUNCATING
            return [StartOver(partition, error.log_start_offset)]
        if isinstance(error, OffsetOutOfRangeError) and 0 <= error.log_end_offset < state.fetch_offset:
            state.state = ReplicaState.TRUNCATING
            return [Truncate(partition, EpochEndOffset(state.last_fetched_epoch, error.log_end_offset))]
        if isinstance(error, FencedLeaderEpochError):
            self.failed(partition, str(error))  # the metadata log will bring the new epoch, and the partition anew
            return [SayStopped(partition, str(error))]
        self.delayed(partition, now_ms)
        state.refusals += 1
        return [SayRefused(partition, error)] if state.refusals == SAID_AT_REFUSALS else []

    def delayed(self, partition: TopicPartition, now_ms: int) -> None:
        """Fetch the same again after the back-off: the leader, or a full disk here, may have recovered by then."""
        state = self._states.get(partition)
        if state is not None:
            state.state = ReplicaState.DELAYED
            state.retry_at_ms = now_ms + self._backoff_ms
            self._ask_for(partition)

    def log_start_durable(self, partition: TopicPartition, leader_epoch: int, log_start_offset: int) -> None:
        """The log starts there, and will after a crash: the next fetch reports it."""
        state = self._states.get(partition)
        if state is None or state.leader_epoch != leader_epoch or log_start_offset <= state.log_start_offset:
            return
        state.log_start_offset = log_start_offset
        # A partition that is being appended to is asked for afterwards: now, the same records would come again.
        if state.state is ReplicaState.FETCHING and partition not in self._appending:
            self._changed[partition] = None

    def log_start_lowered(self, partition: TopicPartition, leader_epoch: int, durable_log_start_offset: int) -> None:
        """The log had to begin anew; where it starts now is not durable, and is reported when it is."""
        state = self._states.get(partition)
        if state is not None and state.leader_epoch == leader_epoch:
            state.log_start_offset = durable_log_start_offset

    def log_start_failed(self, partition: TopicPartition, leader_epoch: int, now_ms: int) -> None:
        """The log start could not be made durable: a fetch after the back-off reports the old one and gets the new one.

        A partition that is delayed, truncating or appending fetches again in any case.
        """
        state = self._states.get(partition)
        if state is None or state.leader_epoch != leader_epoch:
            return
        state.log_start_wanted = -1
        if state.state is ReplicaState.FETCHING and partition not in self._appending:
            self.delayed(partition, now_ms)

    def appended(self, partition: TopicPartition, leader_epoch: int, next_offset: int, last_epoch: int) -> None:
        """Everything below `next_offset` is durable here."""
        self._moved(partition, leader_epoch, next_offset, last_epoch, None)

    def truncated(
        self, partition: TopicPartition, leader_epoch: int, next_offset: int, last_epoch: int, log_start_offset: int
    ) -> None:
        """The log ends at `next_offset` now; ask again from there."""
        self._moved(partition, leader_epoch, next_offset, last_epoch, log_start_offset)

    def _moved(
        self, partition: TopicPartition, leader_epoch: int, next_offset: int, last_epoch: int, start: int | None
    ) -> None:
        state = self._states.get(partition)
        if state is None or state.leader_epoch != leader_epoch:
            return
        state.state, state.fetch_offset, state.last_fetched_epoch = ReplicaState.FETCHING, next_offset, last_epoch
        if start is not None:
            state.log_start_offset = start
        self._ask_for(partition)

    def fetch_offset(self, partition: TopicPartition) -> int:
        """The offset from which the partition is fetched next; -1 when it is not followed."""
        state = self._states.get(partition)
        return state.fetch_offset if state else -1

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The epoch in which the partition is followed; -1 when it is not."""
        state = self._states.get(partition)
        return state.leader_epoch if state else -1

    def statistics(self) -> FetcherStatistics:
        return FetcherStatistics.of(tuple(self._states.values()))
