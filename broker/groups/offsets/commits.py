"""OffsetCommit: checks the member, and decides which offsets are taken.

An error of the group or of its member refuses the whole commit; an error of a partition refuses that partition alone.
Where the party of the sender has no memory left, offsets that need no more memory are still taken: those that replace
others as large.
"""

from __future__ import annotations

from typing import Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.commit_records import CommitRecords, taken
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from penstock.errors import ApiError, GroupIdNotFoundError, IllegalGenerationError, UnknownMemberIdError
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetCommitResponse
from penstock.types import NO_TIMESTAMP

_TIME_MAX: Final = (1 << 63) - 1


class OffsetCommits:
    """Decides about commits."""

    def __init__(
        self, config: GroupConfig, state: GroupOffsetsState, groups: OffsetGroups, memory: ShardMemory
    ) -> None:
        self._records = CommitRecords(config)
        self._state, self._groups, self._memory = state, groups, memory

    def commit(self, turn: Turn, ticket: Ticket, request: OffsetCommitRequest, client: Client) -> None:
        self._check(turn, request)
        expire_ms = NO_TIMESTAMP
        if request.retention_ms != -1:
            expire_ms = min(turn.wall_ms + request.retention_ms, _TIME_MAX)
        records = self._records.of(turn, request.group_id, request.partitions, expire_ms)
        results = taken(turn, request.partitions, records, self._refusal_of)
        turn.answer(ticket, OffsetCommitResponse(results))

    def _refusal_of(self, key: OffsetCommitKey, value: OffsetCommitValue) -> ApiError | None:
        growth = self._state.growth(key, value)
        return self._memory.refusal_of(growth) if growth > 0 else None

    def _check(self, turn: Turn, request: OffsetCommitRequest) -> None:
        group_id = request.group_id
        if self._groups.knows(group_id):
            self._groups.check_commit(turn, request)
        elif request.member_epoch >= 0:
            if group_id in self._state:
                raise UnknownMemberIdError(f"group {group_id} has no members: join it, or commit without a member")
            if request.knows_stale_epoch:
                raise GroupIdNotFoundError(f"there is no group {group_id}")
            raise IllegalGenerationError(f"there is no group {group_id}: join it, or commit without a generation")

    def __repr__(self) -> str:
        return f"OffsetCommits({self._state!r})"
