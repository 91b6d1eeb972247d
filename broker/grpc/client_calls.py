"""The calls of `penstock.v1.Broker`: each is one request of the channel and has one answer. An edge.

Decodes and encodes, and decides nothing. Streams are client_door.py's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from broker.grpc.codec import (
    configs,
    delete_records,
    describe_log_dirs,
    describe_metadata,
    describe_quorum,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    producer_ids,
)
from broker.grpc.errors import abort
from broker.grpc.forwarded_calls import FORWARDED
from broker.network.request_channel import Request, RequestChannel
from broker.requests import (
    DescribeClusterRequest,
    DescribeQuorumRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)
from penstock.errors import InvalidRequestError, NetworkError
from penstock.pb import broker_pb2 as pb
from penstock.types import CONSUMER_REPLICA_ID

NOT_OPEN = "this node has not caught up with the metadata yet; ask another one"


class _OneShot:
    """The sink of a call that has one answer."""

    def __init__(self) -> None:
        self._done = asyncio.get_running_loop().create_future()

    def response_ready(self, request: Request) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def part_ready(self, request: Request) -> None:
        """A call has no parts: it waits for the whole answer."""

    async def wait(self) -> None:
        await self._done


class ClientCalls:
    """The half of a broker's door that has calls; client_door.py has the other half."""

    def __init__(self, channel: RequestChannel, inter_broker_listener: str, listener: str) -> None:
        """`listener` is the name of its own."""
        self._channel, self._listener = channel, listener
        self._inter_broker_listener = inter_broker_listener
        self._is_open = False

    def open(self) -> None:
        """Requests are taken from now on.

        Not before the node has caught up: until then it knows no topic, and would tell a client with an old address
        that its topic does not exist. (Kafka, too, enables request processing only then.)
        """
        self._is_open = True

    def _must_be_open(self) -> None:
        if not self._is_open:
            raise NetworkError(NOT_OPEN)

    def _check_asker(self, api: str, replica_id: int, is_clients: bool) -> None:
        """Replicas fetch at their own listener, and only they do."""
        if is_clients and replica_id != CONSUMER_REPLICA_ID:
            raise InvalidRequestError(
                f"{api}: replica id {replica_id} is not served to clients; brokers connect to the listener "
                f"{self._inter_broker_listener} (inter.broker.listener.name), consumers send {CONSUMER_REPLICA_ID}"
            )
        if not is_clients and replica_id < 0:
            raise InvalidRequestError(
                f"{api}: replica id {replica_id} is no broker's; the listener {self._inter_broker_listener} is for "
                "brokers, clients connect to BROKER"
            )

    async def _call(
        self, api: str, body: object, context: grpc.aio.ServicerContext, encode: Callable[[Any], Any]
    ) -> Any:
        if not self._is_open:
            await abort(context, NetworkError(NOT_OPEN))
        sink = _OneShot()
        request = Request(api, body, sink, context.peer(), self._channel.now_ns, None, self._listener)
        try:
            await self._channel.send(request)
            await sink.wait()
        except asyncio.CancelledError:  # the client gave the call up, or left: nobody waits for the answer
            request.abandoned()
            raise
        self._channel.request_sent(request)
        if request.error is not None:
            await abort(context, request.error)
        return request.encoded(encode)

    async def ListOffsets(self, request: pb.ListOffsetsRequest, context: grpc.aio.ServicerContext) -> Any:
        body = list_offsets.request_from_pb(request)
        return await self._asked("ListOffsets", body, context, list_offsets.response_to_pb)

    async def OffsetForLeaderEpoch(
        self, request: pb.OffsetForLeaderEpochRequest, context: grpc.aio.ServicerContext
    ) -> Any:
        body = offset_for_leader_epoch.request_from_pb(request)
        return await self._asked("OffsetForLeaderEpoch", body, context, offset_for_leader_epoch.response_to_pb)

    async def _asked(
        self,
        api: str,
        body: ListOffsetsRequest | OffsetForLeaderEpochRequest,
        context: grpc.aio.ServicerContext,
        encode: Callable[[Any], Any],
    ) -> Any:
        """A request to which a replica would get a fuller answer than a client."""
        try:
            self._check_asker(api, body.replica_id, True)
        except InvalidRequestError as error:
            await abort(context, error)
        return await self._call(api, body, context, encode)

    async def Metadata(self, request: pb.MetadataRequest, context: grpc.aio.ServicerContext) -> Any:
        names = tuple(dict.fromkeys(request.topics))  # a topic that is named often is described once
        body = MetadataRequest(None if request.all_topics else names, request.include_log_dirs)
        return await self._call("Metadata", body, context, metadata.metadata_to_pb)

    async def CreateTopics(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("CreateTopics", request, context)

    async def CreatePartitions(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("CreatePartitions", request, context)

    async def DeleteTopics(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("DeleteTopics", request, context)

    async def AlterConfigs(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("AlterConfigs", request, context)

    async def ElectLeaders(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("ElectLeaders", request, context)

    async def AlterPartitionReassignments(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("AlterPartitionReassignments", request, context)

    async def UnregisterBroker(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        return await self._forward("UnregisterBroker", request, context)

    async def _forward(self, api: str, request: Any, context: grpc.aio.ServicerContext) -> Any:
        if request.timeout_ms < 0:
            await abort(context, InvalidRequestError(f"timeout_ms is {request.timeout_ms}; it must not be negative"))
        call = FORWARDED[api]
        return await self._call(api, (call.from_pb(request), request.timeout_ms), context, call.response_to_pb)

    async def DescribeConfigs(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = configs.describe_configs_from_pb(request)
        return await self._call("DescribeConfigs", body, context, configs.describe_configs_to_pb)

    async def DeleteRecords(self, request: pb.DeleteRecordsRequest, context: grpc.aio.ServicerContext) -> Any:
        body = delete_records.request_from_pb(request)
        return await self._call("DeleteRecords", body, context, delete_records.response_to_pb)

    async def InitProducerId(self, request: pb.InitProducerIdRequest, context: grpc.aio.ServicerContext) -> Any:
        return await self._call("InitProducerId", InitProducerIdRequest(), context, producer_ids.init_response_to_pb)

    async def DescribeCluster(self, request: pb.DescribeClusterRequest, context: grpc.aio.ServicerContext) -> Any:
        return await self._call("DescribeCluster", DescribeClusterRequest(), context, metadata.cluster_to_pb)

    async def DescribeQuorum(self, request: pb.DescribeQuorumRequest, context: grpc.aio.ServicerContext) -> Any:
        return await self._call("DescribeQuorum", DescribeQuorumRequest(), context, describe_quorum.response_to_pb)

    async def DescribeMetadata(self, request: pb.DescribeMetadataRequest, context: grpc.aio.ServicerContext) -> Any:
        body = describe_metadata.request_from_pb(request)
        return await self._call("DescribeMetadata", body, context, describe_metadata.response_to_pb)

    async def DescribeLogDirs(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = describe_log_dirs.request_from_pb(request)
        return await self._call("DescribeLogDirs", body, context, describe_log_dirs.response_to_pb)

    async def AlterReplicaLogDirs(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        body = describe_log_dirs.alter_from_pb(request)
        return await self._call("AlterReplicaLogDirs", body, context, describe_log_dirs.alter_to_pb)
