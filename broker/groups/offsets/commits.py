"""OffsetCommit and TxnOffsetCommit: check the member, and decide which offsets are taken.

An error of the group or of its member refuses the whole commit; an error of a partition refuses that partition alone.
Where the party of the sender has no memory left, offsets that need no more memory are still taken: those that replace
others as large.

The offsets of TxnOffsetCommit count when their transaction is committed (KIP-447). A member that is named must be one,
in its generation or epoch: so what a consumer has read in partitions that it does not own any more is not committed.
Nothing of it is checked where no member is named; the transaction's producer alone fences then. A commit while the
group rebalances is taken: the new owners ask for stable offsets, and wait for its end.

Not here: whether the transaction is open, and its end.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.record_log import TxnProducer
from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.commit_records import CommitRecords, taken
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.offsets.pending_offsets import entry_bytes
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from penstock.errors import ApiError, GroupIdNotFoundError, IllegalGenerationError, UnknownMemberIdError
from penstock.messages.groups.offsets import OffsetCommitRequest, OffsetCommitResponse
from penstock.messages.transactions.producers import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.types import NO_TIMESTAMP, TopicPartition

_TIME_MAX: Final = (1 << 63) - 1


class OffsetCommits:
    """Decides about commits."""

    def __init__(
        self, config: GroupConfig, state: GroupOffsetsState, groups: OffsetGroups, memory: ShardMemory
    ) -> None:
        self._records = CommitRecords(config)
        self._state, self._groups, self._memory = state, groups, memory

    def commit(self, turn: Turn, ticket: Ticket, request: OffsetCommitRequest, client: Client) -> None:
        if self._groups.knows(request.group_id):
            self._groups.check_commit(turn, request)
        else:
            _check_without_members(request, self._state, knows_not_found=request.knows_stale_epoch)
        expire_ms = NO_TIMESTAMP
        if request.retention_ms != -1:
            expire_ms = min(turn.wall_ms + request.retention_ms, _TIME_MAX)
        records = self._records.of(turn, request.group_id, request.partitions, expire_ms)
        results = taken(turn, request.partitions, records, self._refusal_of)
        turn.answer(ticket, OffsetCommitResponse(results))

    def _refusal_of(self, key: OffsetCommitKey, value: OffsetCommitValue) -> ApiError | None:
        growth = self._state.growth(key, value)
        return self._memory.refusal_of(growth) if growth > 0 else None

    def __repr__(self) -> str:
        return f"OffsetCommits({self._state!r})"


class TransactionalCommits:
    """Decides about them."""

    def __init__(
        self, config: GroupConfig, state: GroupOffsetsState, groups: OffsetGroups, memory: ShardMemory
    ) -> None:
        self._records = CommitRecords(config)
        self._state, self._groups, self._memory = state, groups, memory

    def commit(self, turn: Turn, ticket: Ticket, request: TxnOffsetCommitRequest, client: Client) -> None:
        if self._groups.knows(request.group_id):
            self._groups.check_transactional_commit(turn, request)
        else:
            _check_without_members(request, self._state, knows_not_found=False)
        producer = TxnProducer(request.producer_id, request.producer_epoch)
        turn.must_take(producer)
        records = self._records.of(turn, request.group_id, request.partitions)
        refusal_of = partial(self._refusal_of, producer.producer_id)
        results = taken(turn, request.partitions, records, refusal_of, producer)
        turn.answer(ticket, TxnOffsetCommitResponse(results))

    def _refusal_of(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue) -> ApiError | None:
        """An offset that will replace one as large takes memory until its transaction ends; any other one stays."""
        place, reserved = TopicPartition(key.topic, key.partition), self._state.reserved(key, value)
        lasting, passing = self._state.pending.counted(producer_id, key.group, place)
        if reserved:
            return self._memory.refusal_of(reserved - lasting)
        return self._memory.passing_refusal_of(entry_bytes(value) - passing)

    def __repr__(self) -> str:
        return f"TransactionalCommits({self._state!r})"


def _check_without_members(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, state: GroupOffsetsState, *, knows_not_found: bool
) -> None:
    """A group that has no members, or does not exist, takes only a commit that names none. `knows_not_found`: the
    client understands GROUP_ID_NOT_FOUND as the answer to a commit."""
    if request.member_epoch < 0:
        return
    group_id = request.group_id
    if group_id in state:
        raise UnknownMemberIdError(f"group {group_id} has no members: join it, or commit without a member")
    if knows_not_found:
        raise GroupIdNotFoundError(f"there is no group {group_id}")
    raise IllegalGenerationError(f"there is no group {group_id}: join it, or commit without a member")
