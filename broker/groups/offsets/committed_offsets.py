"""The committed offsets of one shard: their state, and every decision about them, in one object for the shard.

Deletions are decided here: OffsetDelete, and the offsets of a group that is deleted. The tombstone of an offset that
waits for its transaction ends the waiting: the transaction then commits nothing there. Not here: commits, fetches and
the sweep, which have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Client, Handlers, Ticket, Turn
from broker.coordination.watched_time import WatchedTime
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.commits import OffsetCommits, TransactionalCommits
from broker.groups.offsets.fetches import OffsetFetches
from broker.groups.offsets.known_partitions import KnownPartitions
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState, OffsetStatistics
from broker.groups.offsets.sweep import OffsetSweep
from broker.groups.records.offset_records import OffsetCommitKey
from penstock.errors import ApiError, GroupIdNotFoundError, GroupSubscribedToTopicError
from penstock.messages.groups.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResult,
    OffsetFetchRequest,
)
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition


class OffsetDeletions:
    """Decides about deletions that were asked for."""

    def __init__(self, state: GroupOffsetsState, groups: OffsetGroups) -> None:
        self._state = state
        self._groups = groups

    def delete(self, turn: Turn, ticket: Ticket, request: OffsetDeleteRequest, client: Client) -> None:
        """The offset of a topic that a live member reads is kept: the member goes on from it."""
        group_id = request.group_id
        has_group = self._groups.knows(group_id)
        if not has_group and group_id not in self._state:
            raise GroupIdNotFoundError(f"there is no group {group_id}")
        if has_group:
            self._groups.check_offset_delete(group_id)
        known = KnownPartitions(turn.topics)
        results = []
        chosen: dict[TopicPartition, None] = {}
        for place in request.partitions:
            try:
                known.found(place)
                if has_group and self._groups.is_subscribed(group_id, place.topic):
                    raise GroupSubscribedToTopicError(f"a member of group {group_id} reads {place.topic}")
            except ApiError as error:
                results.append(OffsetDeleteResult(place, error))
            else:
                results.append(OffsetDeleteResult(place))
                chosen[place] = None
        for place in chosen:
            is_committed = self._state.get(group_id, place.topic, place.partition) is not None
            if is_committed or self._state.pending.has(group_id, place):
                turn.write(OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition), None)
        turn.answer(ticket, OffsetDeleteResponse(tuple(results)))

    def delete_all(self, turn: Turn, group_id: str) -> None:
        """Tombstones for all offsets of a group that is deleted."""
        committed = (place for place, _ in self._state.of_group(group_id))
        for place in dict.fromkeys((*committed, *self._state.pending.places_of(group_id))):
            turn.write(OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition), None)

    def __repr__(self) -> str:
        return f"OffsetDeletions({self._state!r})"


class CommittedOffsets:
    """The shard replays records into `state` (`state.replays`), and gives requests to `handlers`."""

    def __init__(self, config: GroupConfig, groups: OffsetGroups, timers: Timers[Turn], memory: ShardMemory) -> None:
        self.state = GroupOffsetsState(memory.grown, memory.grown_for_now)
        self._deletions = OffsetDeletions(self.state, groups)
        self.watched = WatchedTime(config.offsets_retention_check_interval_ms)
        self._sweep = OffsetSweep(config, self.state, groups, timers, self.watched)
        self.handlers: Handlers = {
            OffsetCommitRequest: OffsetCommits(config, self.state, groups, memory).commit,
            TxnOffsetCommitRequest: TransactionalCommits(config, self.state, groups, memory).commit,
            OffsetFetchRequest: OffsetFetches(self.state, groups).fetch,
            OffsetDeleteRequest: self._deletions.delete,
        }

    def loaded(self, turn: Turn) -> None:
        self._sweep.loaded(turn)

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None:
        self._sweep.image_changed(turn, names)

    def delete_all(self, turn: Turn, group_id: str) -> None:
        """Tombstones for all offsets of a group that is deleted."""
        self._deletions.delete_all(turn, group_id)

    @property
    def removed(self) -> int:
        """Offsets that expired, or whose topics are gone, since the shard was loaded."""
        return self._sweep.removed

    def statistics(self) -> OffsetStatistics:
        return self.state.statistics()

    def __repr__(self) -> str:
        return f"CommittedOffsets({self.state!r})"
