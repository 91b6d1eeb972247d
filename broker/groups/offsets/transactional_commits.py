"""TxnOffsetCommit: offsets that count when their transaction is committed (KIP-447).

A member that is named must be one, in its generation or epoch: so what a consumer has read in partitions that it does
not own any more is not committed. Nothing of it is checked where no member is named; the transaction's producer alone
fences then. A commit while the group rebalances is taken: the new owners ask for stable offsets, and wait for its end.

Not here: whether the transaction is open, and its end.
"""

from __future__ import annotations

from broker.coordination.record_log import TxnProducer
from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.commit_records import CommitRecords
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState
from penstock.errors import IllegalGenerationError, UnknownMemberIdError
from penstock.messages.transactions.producers import TxnOffsetCommitRequest, TxnOffsetCommitResponse


class TransactionalCommits:
    """Decides about them."""

    def __init__(self, config: GroupConfig, state: GroupOffsetsState, groups: OffsetGroups) -> None:
        self._records = CommitRecords(config)
        self._state = state
        self._groups = groups

    def commit(self, turn: Turn, ticket: Ticket, request: TxnOffsetCommitRequest, client: Client) -> None:
        self._check(turn, request)
        producer = TxnProducer(request.producer_id, request.producer_epoch)
        turn.must_take(producer)
        records, results = self._records.of(turn, request.group_id, request.partitions)
        for key, value in records:
            turn.write(key, value, producer)
        turn.answer(ticket, TxnOffsetCommitResponse(results))

    def _check(self, turn: Turn, request: TxnOffsetCommitRequest) -> None:
        group_id = request.group_id
        if self._groups.knows(group_id):
            self._groups.check_transactional_commit(turn, request)
        elif request.member_epoch >= 0:
            if group_id in self._state:
                raise UnknownMemberIdError(f"group {group_id} has no members: join it, or commit without a member")
            raise IllegalGenerationError(f"there is no group {group_id}: join it, or commit without a member")

    def __repr__(self) -> str:
        return f"TransactionalCommits({self._state!r})"
