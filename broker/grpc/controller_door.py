"""The gRPC door of the controller listener: the quorum's own calls, and what brokers ask of the active controller.

An edge. Quorum calls go to the raft driver; controller calls go to `handle`, which answers or raises a typed error.
They do not pass the request channel: heartbeats and votes must not queue behind produce requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from broker.grpc.codec import (
    alter_partition,
    assign_replicas_to_dirs,
    describe_quorum,
    heartbeat,
    producer_ids,
    quorum,
    registration,
)
from broker.grpc.errors import abort
from broker.grpc.forwarded_calls import FORWARDED
from penstock.errors import ApiError, UnknownServerError

_log = logging.getLogger(__name__)

Handle = Callable[[Any], Awaitable[Any]]


async def _answer(handle: Handle, request: Any, encode: Callable[[Any], Any], context: grpc.aio.ServicerContext) -> Any:
    try:
        return encode(await handle(request))
    except ApiError as error:
        await abort(context, error)
    except Exception as error:
        _log.exception("%s failed", type(request).__name__)
        await abort(context, UnknownServerError(f"penstock: {type(error).__name__}: {error}"))


class QuorumDoor:
    """Serves `penstock.v1.Quorum`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def Vote(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await _answer(self._handle, quorum.vote_from_pb(request), quorum.vote_to_pb, context)

    async def BeginQuorumEpoch(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await _answer(self._handle, quorum.begin_from_pb(request), quorum.begin_to_pb, context)

    async def EndQuorumEpoch(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await _answer(self._handle, quorum.end_from_pb(request), quorum.end_to_pb, context)

    async def FetchMetadata(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await _answer(self._handle, quorum.fetch_from_pb(request), quorum.fetch_to_pb, context)

    async def FetchSnapshot(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = quorum.fetch_snapshot_from_pb(request)
        return await _answer(self._handle, body, quorum.fetch_snapshot_to_pb, context)


class ControllerDoor:
    """Serves `penstock.v1.Controller`."""

    def __init__(self, handle: Handle, describe_quorum: Callable[[], Any]) -> None:
        self._handle = handle
        self._describe_quorum = describe_quorum

    async def RegisterBroker(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = registration.request_from_pb(request)
        return await _answer(self._handle, body, registration.response_to_pb, context)

    async def BrokerHeartbeat(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = heartbeat.request_from_pb(request)
        return await _answer(self._handle, body, heartbeat.response_to_pb, context)

    async def AlterPartition(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = alter_partition.request_from_pb(request)
        return await _answer(self._handle, body, alter_partition.response_to_pb, context)

    async def AssignReplicasToDirs(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = assign_replicas_to_dirs.request_from_pb(request)
        return await _answer(self._handle, body, assign_replicas_to_dirs.response_to_pb, context)

    async def AllocateProducerIds(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = producer_ids.request_from_pb(request)
        return await _answer(self._handle, body, producer_ids.response_to_pb, context)

    async def CreateTopics(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("CreateTopics", request, context)

    async def CreatePartitions(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("CreatePartitions", request, context)

    async def DeleteTopics(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("DeleteTopics", request, context)

    async def AlterConfigs(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("AlterConfigs", request, context)

    async def ElectLeaders(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("ElectLeaders", request, context)

    async def AlterPartitionReassignments(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("AlterPartitionReassignments", request, context)

    async def UnregisterBroker(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forwarded("UnregisterBroker", request, context)

    async def _forwarded(self, api: str, request: Any, context: grpc.aio.ServicerContext) -> Any:
        call = FORWARDED[api]
        return await _answer(self._handle, call.from_pb(request), call.response_to_pb, context)

    async def DescribeQuorum(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        async def describe(_request: Any) -> Any:
            return self._describe_quorum()

        return await _answer(describe, request, describe_quorum.response_to_pb, context)
