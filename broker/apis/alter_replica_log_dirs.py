"""AlterReplicaLogDirs: moves replicas of this broker between its own log dirs (KIP-113).

A request is answered once every move has begun, durably: the directory of each copy is there, and a restart goes on
with it. So a task waits for the disks, a few at a time. The moves are in `broker/jobs/log_dir_moves/`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.network.failed_requests import FailRequest
from broker.network.request_channel import Request
from penstock.base_error import without_frames
from penstock.errors import ApiError, InvalidRequestError, ResourceExhaustedError
from penstock.messages.admin_apis import ALTER_REPLICA_LOG_DIRS
from penstock.messages.log_dirs import AlterReplicaLogDirResult, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from penstock.messages.security.acls import Operation
from penstock.types import TopicPartition

OPEN_REQUESTS_MAX: Final = 16
"""Each has a task, and up to 1,000 replicas."""


class AlterReplicaLogDirsApi:
    """Answers AlterReplicaLogDirs. There is one per broker, on the event loop."""

    def __init__(self, node_id: int, moves: LogDirMoves, fail: FailRequest) -> None:
        self._node_id, self._moves, self._fail = node_id, moves, fail
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: Request, body: AlterReplicaLogDirsRequest) -> None:
        if len(self._tasks) >= OPEN_REQUESTS_MAX:
            raise ResourceExhaustedError(f"{OPEN_REQUESTS_MAX} such requests are open at this broker; try again later")
        task = asyncio.create_task(self._answer(request, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, body: AlterReplicaLogDirsRequest) -> None:
        try:
            asked = [
                (TopicPartition(topic, partition), found.path)
                for found in body.dirs
                for topic, partitions in found.topics
                for partition in partitions
            ]
            named = Counter(tp for tp, _ in asked)
            wanted = {tp: path for tp, path in asked if named[tp] == 1}
            errors: dict[TopicPartition, ApiError | None] = {
                tp: InvalidRequestError(f"{tp} is named {number} times") for tp, number in named.items() if number > 1
            }
            errors |= await self._moves.alter(wanted)
            results = (AlterReplicaLogDirResult(tp, error and without_frames(error)) for tp, error in errors.items())
            request.complete(AlterReplicaLogDirsResponse(self._node_id, tuple(results)))
        except Exception as error:
            self._fail(request, error)

    def __repr__(self) -> str:
        return f"AlterReplicaLogDirsApi({len(self._tasks)} requests open)"


SERVED: Final = (
    Served(
        api=ALTER_REPLICA_LOG_DIRS,
        rule=of_cluster(Operation.ALTER),
        make=lambda parts: AlterReplicaLogDirsApi(parts.node_id, parts.log_dir_moves, parts.fail).handle,
    ),
)
