"""Commits a group's offsets as a part of a transaction: they count once it is committed (KIP-447).

The group's coordinator adds the group to the transaction by itself (transaction version 2), and takes the offsets of
the member that it knows only. An error that passes is followed by another try, until the deadline; after
STALE_MEMBER_EPOCH the member first learns its new epoch. Repeating a commit is harmless: the newest offsets of the
transaction count. Not here: what an error means for the transaction (transaction_core.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.cluster.error_meaning import ServerErrors
from penstock.client.cluster.group_positions import GroupPositions
from penstock.errors import (
    ApiError,
    CommitFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    IllegalGenerationError,
    PenstockError,
    RebalanceInProgressError,
    RequestTimedOutError,
    StaleMemberEpochError,
    TimedOutError,
    UnknownMemberIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.groups.offsets import OffsetCommitPartition
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.messages.transactions.transaction_apis import TXN_OFFSET_COMMIT
from penstock.types import ProducerIdAndEpoch, TopicPartition

PARTITIONS_PER_CALL_MAX = 1_000
"""Limit for one request; offsets of more partitions are sent in several."""
UNKNOWN_TOPIC_ATTEMPTS = 4
"""A coordinator may not have heard yet of a topic that was just created. After this many such answers the topic counts
as deleted."""
NOT_A_MEMBER: tuple[type[ApiError], ...] = (
    UnknownMemberIdError,
    FencedMemberEpochError,
    FencedInstanceIdError,
    IllegalGenerationError,
    RebalanceInProgressError,
)


class TransactionOffsets:
    """The offsets that one producer commits; one event loop."""

    def __init__(self, transactional_id: str, cluster: ClusterClient) -> None:
        self._transactional_id = transactional_id
        self._cluster = cluster
        self._coordinators = Coordinators(cluster)

    def coordinator_of(self, group_id: str) -> int | None:
        """The broker that took the group's offsets last, as far as is known."""
        return self._coordinators.known(group_id)

    async def commit(self, positions: GroupPositions, identity: ProducerIdAndEpoch, deadline_ms: int) -> None:
        """Returns once the coordinator has all of them; raises the first error that trying again does not mend."""
        left = {part.partition: part for part in positions.partitions}
        reported = ServerErrors[TopicPartition]()
        attempt = 0
        while left:
            attempt += 1
            errors = await self._attempt(positions, tuple(left.values()), identity, deadline_ms)
            left = {tp: part for tp, part in left.items() if tp in errors}
            for tp, error in errors.items():
                reported.note(tp, error)
                if not _may_pass(error, attempt):
                    raise _for_user(error, tp)
            wait_ms = self._cluster.backoff.wait_ms(attempt)
            if errors and self._cluster.clock.now_ms() + wait_ms >= deadline_ms:
                tp, error = next(iter(errors.items()))
                last = reported.for_user(tp, error)
                raise TimedOutError(f"{tp}: its offset was not taken in time; the last error: {last}")
            if errors:
                await asyncio.sleep(max(wait_ms, 1) / 1000)

    async def _attempt(
        self,
        positions: GroupPositions,
        parts: Sequence[OffsetCommitPartition],
        identity: ProducerIdAndEpoch,
        deadline_ms: int,
    ) -> dict[TopicPartition, PenstockError]:
        errors: dict[TopicPartition, PenstockError] = {}
        for at in range(0, len(parts), PARTITIONS_PER_CALL_MAX):
            portion = tuple(parts[at : at + PARTITIONS_PER_CALL_MAX])
            request = TxnOffsetCommitRequest(
                self._transactional_id,
                positions.group_id,
                *identity,
                portion,
                **positions.member()._asdict(),
                adds_group=True,
            )
            try:
                answer = await self._coordinators.ask(TXN_OFFSET_COMMIT, request, deadline_ms)
            except TimedOutError as error:
                errors |= dict.fromkeys((part.partition for part in portion), RequestTimedOutError(str(error)))
            except ApiError as error:
                errors |= {part.partition: error for part in portion}
            else:
                errors |= {result.partition: result.error for result in answer.partitions if result.error is not None}
        if any(isinstance(error, StaleMemberEpochError) for error in errors.values()):
            positions.on_stale_epoch()
        return errors

    def __repr__(self) -> str:
        return f"TransactionOffsets({self._transactional_id!r})"


def _may_pass(error: PenstockError, attempt: int) -> bool:
    if isinstance(error, UnknownTopicOrPartitionError | UnknownTopicIdError):
        return attempt < UNKNOWN_TOPIC_ATTEMPTS
    return isinstance(error, ApiError) and (error.retriable or isinstance(error, StaleMemberEpochError))


def _for_user(error: PenstockError, tp: TopicPartition) -> PenstockError:
    if isinstance(error, NOT_A_MEMBER):
        return CommitFailedError(
            f"{tp}: the group has put this member out, or has gone on without it ({error}): another member reads again"
            " from what was committed before"
        )
    return error
