"""The calls of a consumer to the coordinator of its group.

Each asks until a deadline: an error that passes is asked again, of a coordinator that is found anew where it has moved
(client/cluster/coordinators.py). Every error is an ApiError. Not here: what answers mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.wire.connection import Connection
from penstock.errors import ApiError, BootstrapError, RequestTimedOutError, TimedOutError, UnknownServerError
from penstock.messages.groups.consumer_protocol import (
    JOINS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.messages.groups.group_apis import CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT, OFFSET_FETCH
from penstock.messages.groups.offsets import (
    GroupOffsets,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
)


class GroupService:
    """Belongs to one event loop."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._coordinators = Coordinators(cluster)

    def coordinated_by(self, group_id: str, node_id: int) -> None:
        """A broker that has just coordinated the group, as another client of this program knows."""
        self._coordinators.learn(group_id, node_id)

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, deadline_ms: int
    ) -> ConsumerGroupHeartbeatResponse:
        """The coordinator's answer to a heartbeat. A heartbeat that leaves something out is sent only once: a lost
        answer may have carried a new assignment, and the coordinator repeats it only to a member that says
        everything."""
        leaves_out = request.member_epoch > JOINS and request.rebalance_timeout_ms == -1
        try:
            return await self._coordinators.ask(
                CONSUMER_GROUP_HEARTBEAT, request, deadline_ms, attempts_max=1 if leaves_out else None
            )
        except (TimedOutError, BootstrapError) as error:
            raise RequestTimedOutError(str(error)) from error

    async def commit(self, request: OffsetCommitRequest, deadline_ms: int) -> OffsetCommitResponse:
        try:
            return await self._coordinators.ask(OFFSET_COMMIT, request, deadline_ms)
        except (TimedOutError, BootstrapError) as error:
            raise RequestTimedOutError(str(error)) from error

    async def committed(self, question: OffsetFetchGroup, deadline_ms: int) -> GroupOffsets:
        """The offset of a partition that is part of an undecided transaction is UNSTABLE_OFFSET_COMMIT (KIP-447)."""
        group_id = question.group_id

        async def call(
            connection: Connection, group_ids: Sequence[str], left_ms: int
        ) -> Mapping[str, GroupOffsets | ApiError]:
            answer = await connection.call(OFFSET_FETCH, OffsetFetchRequest((question,), require_stable=True), left_ms)
            return {group.group_id: group.error or group for group in answer.groups}

        try:
            found = (await self._coordinators.ask_each((group_id,), call, deadline_ms))[group_id]
        except (TimedOutError, BootstrapError) as error:
            raise RequestTimedOutError(str(error)) from error
        if isinstance(found, ApiError):
            raise found
        answered = {result.partition for result in found.partitions}
        if not question.all_partitions and not answered.issuperset(question.partitions):
            raise UnknownServerError(f"the coordinator of group {group_id!r} left out partitions that it was asked for")
        return found

    def __repr__(self) -> str:
        return f"GroupService({self._coordinators!r})"
