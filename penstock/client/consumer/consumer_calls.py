"""A consumer's calls besides polls: where to read, positions, offsets, and how far behind it is.

Both faces are made from it (faces.py). What is async runs on the loop, because it changes what is fetched; the rest
runs in the caller's thread. Not here: polls (consumer_core.py, and each face, which waits in its own way).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.cluster.arguments import (
    MAX_INT32,
    checked_mapping,
    checked_number,
    checked_partition,
    checked_partitions,
    checked_topic,
)
from penstock.client.cluster.group_positions import GroupPositions, Offsets
from penstock.client.cluster.offsets import OffsetInfo, list_offsets
from penstock.client.cluster.waiting import Waiting
from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.consumer.consumer_metrics import ConsumerStatistics, consumer_metrics
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.groups.auto_commit import user_positions
from penstock.client.consumer.groups.commits import ToCommit, checked_offsets
from penstock.client.consumer.groups.for_transactions import group_positions
from penstock.client.consumer.groups.joined_group import JoinedGroup
from penstock.client.consumer.groups.member_report import member_waits, not_assigned
from penstock.client.consumer.groups.steps import OnCommitted
from penstock.client.consumer.groups.subscription import Mode, checked_subscription
from penstock.client.metrics.client_metric import ClientMetric
from penstock.errors import SubscriptionError, TimedOutError, TopicRecreatedError, UnknownTopicOrPartitionError
from penstock.position import Position
from penstock.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    NO_OFFSET,
    CommittedOffset,
    TimestampAndOffset,
    TopicPartition,
)


class ConsumerCalls:
    """The calls of one consumer."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self._cluster = core.cluster
        self._positions = core.positions
        self._fetcher = core.fetcher
        self._timeout_ms = core.config.request_timeout_ms
        self._read_committed = core.config.reads_committed

    def _assigned(self, partition: TopicPartition) -> PartitionState:
        tp = checked_partition(partition)
        state = self._positions.states.get(tp)
        if state is None:
            raise not_assigned(tp, self._core.group.mode if self._core.group is not None else Mode.NONE)
        return state

    # -- where to read -------------------------------------------------------------------------------------------------

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these partitions from now on; one that stays keeps its position.

        Partitions that a topic gets later are read once they are assigned too, from their first record on where
        `auto_offset_reset` is 'latest'. With that, reading begins at the ends that the logs have now: what is acked
        after this returns is read. A leader that does not tell its end within 3 s is not waited for, and logged.
        """
        if self._core.group is not None:
            await self._core.group.assign(partitions)
        else:
            await self._fetcher.assign(partitions)

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._positions.states)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        info = await self._cluster.topic(checked_topic(topic), self._timeout_ms)
        self._positions.announce(info)
        return [TopicPartition(topic, p.partition) for p in info.partitions]

    async def seek(self, partition: TopicPartition, offset: int | Position, leader_epoch: int = NO_EPOCH) -> None:
        """The next record of the partition is the one at `offset`, or the first after it.

        A `Position`, as `position` and `record.position` give it, is taken only in its own topic: TopicRecreatedError
        where the topic was deleted and made anew since, whatever `auto_offset_reset` says. A plain offset is taken in
        whatever topic has the name now.
        """
        if isinstance(offset, Position):
            if leader_epoch != NO_EPOCH:
                raise TypeError("a Position has its leader epoch; leave out leader_epoch")
            await self._seek_position(self._assigned(partition).topic_partition, offset)
            return
        if isinstance(offset, str) and ":" in offset:
            raise TypeError(f"offset={offset!r} must be an int or a Position; write Position.parse({offset!r})")
        if offset in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP):
            raise ValueError(f"offset {offset} is negative; use seek_to_beginning or seek_to_end")
        checked_number("offset", offset, 0)
        checked_number("leader_epoch", leader_epoch, NO_EPOCH, MAX_INT32)
        self._positions.seek(self._assigned(partition).topic_partition, offset, leader_epoch)
        self._fetcher.touch()

    async def _seek_position(self, tp: TopicPartition, position: Position) -> None:
        """Seeks a position only in the topic that it belongs to. A broker that is behind may not know that topic
        yet."""
        wanted = position.topic_id
        if not wanted:
            raise ValueError(f"{position!r} is of no topic: only a consumer and its records give positions to keep")
        await self._cluster.meet_topic(tp.topic, wanted)
        found = self._cluster.cache.topic_id(tp.topic)
        if not found:
            raise UnknownTopicOrPartitionError(f"{tp} does not exist any more: was the topic deleted?")
        if found != wanted:
            raise TopicRecreatedError(tp.topic, tp.partition, expected_id=wanted, found_id=found)
        self._positions.seek(tp, position.offset, position.leader_epoch, wanted)
        self._fetcher.touch()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Moves each partition given, or each assigned one, to its log start."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Moves each partition given, or each assigned one, behind its last readable record. Waits as `assign` does."""
        self._seek_to(partitions, LATEST_TIMESTAMP)
        await self._fetcher.wait_placed()

    def _seek_to(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        for tp in tuple(partitions) or tuple(self._positions.states):
            self._positions.seek_to_timestamp(self._assigned(tp).topic_partition, timestamp)
        self._fetcher.touch()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls return nothing of these partitions, and nothing more of them is fetched, until `resume`.

        They stay assigned, and keep their positions; what was fetched of them is kept. A seek leaves them paused.
        """
        for state in [self._assigned(tp) for tp in checked_partitions(partitions)]:
            self._core.reader.pause(state)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Polls return records of these partitions again, from their positions on."""
        for state in [self._assigned(tp) for tp in checked_partitions(partitions)]:
            self._core.reader.resume(state)
        self._core.on_room()

    def paused(self) -> list[TopicPartition]:
        """The assigned partitions that are paused."""
        return [tp for tp, state in self._positions.states.items() if state.paused]

    # -- positions and offsets -----------------------------------------------------------------------------------------

    def known_position(self, partition: TopicPartition) -> Position | None:
        """The position of a partition, where no look-up is needed. In any thread."""
        state = self._positions.states.get(partition)
        return state.place if state is not None else None

    async def position(self, partition: TopicPartition) -> Position:
        """The position of the next record that a poll returns: an offset, with the id of its topic and a leader epoch.

        Keep it as `str(position)`, and `seek` to `Position.parse(text)` to go on there. It compares with offsets.
        """
        state = self._assigned(partition)
        tp = state.topic_partition
        deadline_ms = self._core.clock.now_ms() + self._timeout_ms
        while state.position == NO_OFFSET:
            self._core.check_poll()
            if state.reset_timestamp is None:
                break
            found = await self._look_up({tp: state.reset_timestamp})
            self._positions.complete_reset(tp, state.generation, found[tp].offset)
            if self._core.clock.now_ms() >= deadline_ms and state.position == NO_OFFSET:
                raise TimedOutError(
                    f"{tp}: its position was not found within {self._timeout_ms} ms; try again, or seek"
                )
        self._fetcher.touch()
        place = state.place
        if place is None:
            raise UnknownTopicOrPartitionError(f"{tp} does not exist any more: was the topic deleted?")
        return place

    async def lag(self, partition: TopicPartition) -> int:
        """How many offsets the position is behind the readable end of the log; compaction and transactions leave
        offsets without a record.

        By the leader's last answer to a fetch; before one, or where the partition is paused, the leader is asked.
        """
        state = self._assigned(partition)
        if state.lag is not None and not state.paused and not state.is_stopped:
            return state.lag
        place = await self.position(partition)
        return max((await self.end_offsets([partition]))[state.topic_partition] - place, 0)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._offsets(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition."""
        return await self._offsets(partitions, LATEST_TIMESTAMP)

    async def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._look_up(dict.fromkeys(checked_partitions(partitions), timestamp))
        return {tp: info.offset for tp, info in found.items()}

    async def _look_up(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetInfo]:
        return await list_offsets(self._cluster, wanted, self._timeout_ms, read_committed=self._read_committed)

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimestampAndOffset | None]:
        """The first record at or after each time; None where no record is that late."""
        times = checked_mapping("times_ms", times_ms, "{TopicPartition('orders', 0): 1700000000000}")
        wanted = {checked_partition(tp): checked_number("time_ms", time_ms, 0) for tp, time_ms in times.items()}
        found = await self._look_up(wanted)
        return {
            tp: None
            if info.offset == NO_OFFSET
            else TimestampAndOffset(info.timestamp_ms, info.offset, info.leader_epoch)
            for tp, info in found.items()
        }

    # -- a group's offsets ---------------------------------------------------------------------------------------------

    def _group(self, call: str) -> JoinedGroup:
        if self._core.group is None:
            raise SubscriptionError(f"{call} needs a group; make the consumer with group_id='...'")
        return self._core.group

    def _to_commit(self, group: JoinedGroup, positions: Offsets | None) -> dict[TopicPartition, ToCommit]:
        if positions is None:
            return user_positions(self._positions.states.values())
        is_member = group.mode is Mode.SUBSCRIBED
        return checked_offsets(positions, group.member.reconciliation.owned if is_member else None)

    async def commit(self, positions: Offsets | None = None) -> None:
        """Commits where the user stands in each partition, or the given positions, and waits for it.

        A position is the next record to read: `{partition: record.position}` once the record is done, an offset, or a
        `CommittedOffset` with a text. CommitFailedError where the partition is not this consumer's any more.
        """
        group = self._group("commit")
        await group.commit(self._to_commit(group, positions))

    def commit_async(self, positions: Offsets | None = None, on_done: OnCommitted | None = None) -> None:
        """Commits as `commit` does, without waiting. A later poll calls `on_done(positions, error)`; without it, an
        error is logged."""
        group = self._group("commit_async")
        self._core.call_soon(group.commit_soon, self._to_commit(group, positions), on_done)

    def group_positions(self, positions: Offsets | None = None) -> GroupPositions:
        """The user's positions, or the given ones, as `producer.send_offsets(consumer)` needs them."""
        group = self._group("send_offsets")
        return group_positions(group, self._to_commit(group, positions), self._core)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """The offset that the group has committed for each partition, by any member; None where it has committed
        nothing."""
        return await self._group("committed").preparation.committed(checked_partitions(partitions))

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Moves each partition given, or each assigned one, to the group's committed offset. The records read since
        then are read again, as they must be after an aborted transaction. Without a commit `auto_offset_reset` gives
        the position."""
        group = self._group("seek_to_committed")
        wanted = [self._assigned(tp).topic_partition for tp in partitions or tuple(self._positions.states)]
        self._positions.seek_to_committed(await group.preparation.committed(wanted))
        self._fetcher.touch()

    async def subscribe(self, topics: Iterable[str] | None, pattern: str | None) -> None:
        """Joins the group, or changes the subscription."""
        self._core.check_open()
        await self._group("subscribe").subscribe(checked_subscription(topics, pattern))

    def subscription(self) -> list[str]:
        """The topics, or the pattern, that this consumer has subscribed to."""
        if (group := self._core.group) is None or group.mode is not Mode.SUBSCRIBED:
            return []
        subscription = group.member.subscription
        return list(subscription.topics) if subscription.pattern is None else [subscription.pattern]

    # -- what it does --------------------------------------------------------------------------------------------------

    async def waiting_for(self) -> tuple[Waiting, ...]:
        """The reasons why assigned partitions are not read, for a person; empty while every broker answers."""
        group = self._core.group
        return self._fetcher.waiting_for() + (member_waits(group.member) if group is not None else ())

    def metrics(self) -> tuple[ClientMetric, ...]:
        """The counts for a monitoring system, by Kafka's names, with labels: `records-lag` of each partition has
        `topic` and `partition`. `penstock.MetricsCollector` shows them to Prometheus. Asks nobody; in any thread."""
        config = self._core.config
        labels = {"client_id": config.client_id, "group_id": config.group_id or ""}
        return consumer_metrics(self._positions.states, self.statistics(), labels, self._cluster.connections.count)

    def statistics(self) -> ConsumerStatistics:
        """Counts since the consumer was made."""
        return self._core.statistics()

    def __repr__(self) -> str:
        return f"ConsumerCalls({len(self._positions.states)} partitions)"
