"""The committed offsets of one shard: their state, and every decision about them, in one object for the shard."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordination.held_memory import ShardMemory
from broker.coordination.timers import Timers
from broker.coordination.turn import Handlers, Turn
from broker.coordination.watched_time import WatchedTime
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.commits import OffsetCommits
from broker.groups.offsets.deletions import OffsetDeletions
from broker.groups.offsets.fetches import OffsetFetches
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState, OffsetStatistics
from broker.groups.offsets.sweep import OffsetSweep
from broker.groups.offsets.transactional_commits import TransactionalCommits
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from penstock.messages.transactions.producers import TxnOffsetCommitRequest


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
