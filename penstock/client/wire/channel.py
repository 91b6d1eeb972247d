"""One gRPC channel to one endpoint: unary calls, the produce stream, the fetch stream, and gRPC's errors made ours.

An edge: the only place besides wire.py that sees gRPC or protobuf. A foreign exception leaves here as an `ApiError`,
mapped once (`api_error`). A channel belongs to the event loop that made it and is independent of every other channel
(own subchannel pool), so that one broken connection tells nothing about another. Not here: which endpoint to ask, and
what to do about an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's own log goes to stderr; what matters is raised as an error
# gRPC's fork handlers crash children of a process whose channels are busy: 18 of 120 that only ran /bin/true, started
# as Spark starts its JVM; 0 of 120 without them. No use here either: asyncio channels never survive a fork.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
import grpc
import grpc.aio

from penstock.client.wire import protobuf as wire
from penstock.client.wire.messages import (
    ClusterInfo,
    ClusterSnapshot,
    ConfigAnswer,
    ConfigChange,
    ConfigResource,
    DeleteRecordsPart,
    DeleteRecordsResult,
    FetchAnswer,
    FetchCall,
    ListOffsetsPart,
    ListOffsetsResult,
    NewTopic,
    ProduceAnswer,
    ProduceCall,
    QuorumInfo,
    TopicOutcome,
)
from penstock.error_trailer import error_in_trailer
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    InvalidRequestError,
    MessageTooLargeError,
    NetworkError,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnknownServerError,
    UnsupportedVersionError,
)
from penstock.pb import broker_pb2 as pb
from penstock.pb import broker_pb2_grpc
from penstock.types import Endpoint

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""Above every fetch_max_bytes and request that a sane configuration makes; a limit, because gRPC buffers a message."""
METADATA_TOPICS_MAX = 1_000
LIST_OFFSETS_PARTITIONS_MAX = 2_000
"""What a broker takes in one request (docs/request-limits.md)."""
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.http2.lookahead_bytes", 4 * 1024 * 1024),
)
ANSWER_GRACE_MS = 1_000
PRODUCE_METHOD = "/penstock.v1.Broker/Produce"
FETCH_METHOD = "/penstock.v1.Broker/Fetch"

_BY_STATUS: dict[grpc.StatusCode, type[ApiError]] = {
    grpc.StatusCode.UNAVAILABLE: NetworkError,
    grpc.StatusCode.CANCELLED: NetworkError,
    grpc.StatusCode.ABORTED: NetworkError,
    grpc.StatusCode.DEADLINE_EXCEEDED: RequestTimedOutError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedVersionError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.UNAUTHENTICATED: ClusterAuthorizationFailedError,
    grpc.StatusCode.PERMISSION_DENIED: ClusterAuthorizationFailedError,
}

_BROKEN_SIGNS = ("RST_STREAM", "GOAWAY", "Internal error from Core")
"""What gRPC says, under codes that vary, when a connection died in mid-call."""

T = TypeVar("T")


def api_error(error: grpc.RpcError, endpoint: Endpoint) -> ApiError:
    """Our exception for gRPC's, naming who was asked."""
    status = error.code()
    details = error.details() or "no details"
    told = error_in_trailer(error.trailing_metadata(), details)
    if told is not None:
        return told  # the broker's own word, about the request as a whole
    cls = _BY_STATUS.get(status, UnknownServerError)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        cls = MessageTooLargeError
    elif cls is UnknownServerError and any(sign in details for sign in _BROKEN_SIGNS):
        cls = NetworkError
    return cls(f"{endpoint}: {status.name}: {details}")


def _portions(items: Sequence[T], size_max: int) -> list[Sequence[T]]:
    """`items` in pieces; one empty piece where there are none."""
    return [items[at : at + size_max] for at in range(0, max(1, len(items)), size_max)]


def _message(answer: T | None, endpoint: Endpoint) -> T:
    """The answer. grpc.aio gives None for bytes that are none."""
    if answer is None:
        raise NetworkError(f"{endpoint}: the answer is not a message")
    return answer


def _cancelled(endpoint: Endpoint) -> BaseException:
    """grpc.aio says CancelledError both when our task is cancelled and when only the call is."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return NetworkError(f"{endpoint}: the call was cancelled")


class Stream:
    """One bidirectional stream; `write` and `read` may run at the same time, each by one task."""

    __slots__ = ("_call", "endpoint")

    def __init__(self, call: Any, endpoint: Endpoint) -> None:
        self._call = call
        self.endpoint = endpoint

    async def _write(self, request: Any) -> None:
        try:
            await self._call.write(request)
        except grpc.RpcError as error:
            raise api_error(error, self.endpoint) from None
        except asyncio.CancelledError:
            raise _cancelled(self.endpoint) from None
        except asyncio.InvalidStateError:  # the call ended before this write: its status says why
            raise await self._ended() from None

    async def _read(self) -> Any:
        try:
            response = await self._call.read()
        except grpc.RpcError as error:
            raise api_error(error, self.endpoint) from None
        except asyncio.CancelledError:
            raise _cancelled(self.endpoint) from None
        if response is grpc.aio.EOF:
            raise await self._ended()
        return _message(response, self.endpoint)

    async def _ended(self) -> ApiError:
        status = await self._call.code()
        details, trailing = await self._call.details(), await self._call.trailing_metadata()
        if status is grpc.StatusCode.OK:
            return NetworkError(f"{self.endpoint}: the broker closed the stream")
        return api_error(grpc.aio.AioRpcError(status, grpc.aio.Metadata(), trailing, details), self.endpoint)

    def cancel(self) -> None:
        """Ends the stream now; whatever was not answered will not be."""
        self._call.cancel()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint})"


class ProduceStream(Stream):
    """Requests are appended and answered in the order in which they were written."""

    __slots__ = ()

    async def write(self, call: ProduceCall) -> None:
        await self._write(wire.encode_produce(call))

    async def read(self) -> ProduceAnswer:
        return wire.decode_produce(await self._read())


class FetchStream(Stream):
    """One fetch session."""

    __slots__ = ()

    async def write(self, call: FetchCall) -> None:
        await self._write(wire.encode_fetch(call))

    async def read(self) -> FetchAnswer:
        return wire.decode_fetch(await self._read())


class Connection:
    """A channel to one endpoint, opened on first use. Made, used and closed on one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._channel = grpc.aio.insecure_channel(str(endpoint), options=CHANNEL_OPTIONS)
        self._stub: Any = broker_pb2_grpc.BrokerStub(self._channel)
        self._produce: Any = self._channel.stream_stream(  # the stub's own would want message objects
            PRODUCE_METHOD, request_serializer=None, response_deserializer=pb.ProduceResponse.FromString
        )
        self._fetch: Any = self._channel.stream_stream(
            FETCH_METHOD, request_serializer=pb.FetchRequest.SerializeToString, response_deserializer=None
        )

    async def _unary(self, call: Awaitable[T]) -> T:
        try:
            return _message(await call, self.endpoint)
        except grpc.RpcError as error:
            raise api_error(error, self.endpoint) from None
        except asyncio.CancelledError:
            raise _cancelled(self.endpoint) from None

    async def metadata(self, topics: Sequence[str] | None, timeout_ms: int) -> ClusterSnapshot:
        """One answer about all of `topics`; a broker takes a limited number of names in one request."""
        first, *others = [None] if topics is None else _portions(topics, METADATA_TOPICS_MAX)
        answer = await self._metadata(first, timeout_ms)
        for portion in others:
            answer = answer.joined(await self._metadata(portion, timeout_ms))
        return answer

    async def _metadata(self, topics: Sequence[str] | None, timeout_ms: int) -> ClusterSnapshot:
        request = wire.encode_metadata(topics)
        return wire.decode_metadata(await self._unary(self._stub.Metadata(request, timeout=timeout_ms / 1000)))

    async def list_offsets(self, parts: Iterable[ListOffsetsPart], timeout_ms: int) -> tuple[ListOffsetsResult, ...]:
        results: list[ListOffsetsResult] = []
        for portion in _portions(tuple(parts), LIST_OFFSETS_PARTITIONS_MAX):
            request = wire.encode_list_offsets(portion, timeout_ms)
            answer = await self._unary(self._stub.ListOffsets(request, timeout=timeout_ms / 1000))
            results += wire.decode_list_offsets(answer)
        return tuple(results)

    async def create_topics(
        self, topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool = False
    ) -> tuple[TopicOutcome, ...]:
        request = wire.encode_create_topics(topics, timeout_ms, validate_only)
        return wire.decode_topics(await self._unary(self._stub.CreateTopics(request, timeout=timeout_ms / 1000)))

    async def delete_topics(self, topic_ids: Iterable[str], timeout_ms: int) -> tuple[TopicOutcome, ...]:
        request = wire.encode_delete_topics(topic_ids, timeout_ms)
        return wire.decode_topics(await self._unary(self._stub.DeleteTopics(request, timeout=timeout_ms / 1000)))

    async def delete_records(
        self, parts: Iterable[DeleteRecordsPart], timeout_ms: int
    ) -> tuple[DeleteRecordsResult, ...]:
        """The broker waits `timeout_ms` for the replicas, and answers after that for which ones it waited in vain."""
        request = wire.encode_delete_records(parts, timeout_ms)
        call = self._stub.DeleteRecords(request, timeout=(timeout_ms + ANSWER_GRACE_MS) / 1000)
        return wire.decode_delete_records(await self._unary(call))

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], timeout_ms: int, validate_only: bool = False
    ) -> ConfigAnswer:
        request = wire.encode_alter_configs(changes, timeout_ms, validate_only)
        call = self._stub.AlterConfigs(request, timeout=timeout_ms / 1000)
        return wire.decode_alter_configs(await self._unary(call))

    async def describe_configs(self, resources: Iterable[ConfigResource], timeout_ms: int) -> ConfigAnswer:
        request = wire.encode_describe_configs(resources)
        call = self._stub.DescribeConfigs(request, timeout=timeout_ms / 1000)
        return wire.decode_describe_configs(await self._unary(call))

    async def describe_cluster(self, timeout_ms: int) -> ClusterInfo:
        call = self._stub.DescribeCluster(pb.DescribeClusterRequest(), timeout=timeout_ms / 1000)
        return wire.decode_cluster(await self._unary(call))

    async def describe_quorum(self, timeout_ms: int) -> QuorumInfo:
        call = self._stub.DescribeQuorum(pb.DescribeQuorumRequest(), timeout=timeout_ms / 1000)
        return wire.decode_quorum(await self._unary(call))

    def open_produce(self) -> ProduceStream:
        return ProduceStream(self._produce(), self.endpoint)

    def open_fetch(self) -> FetchStream:
        return FetchStream(self._fetch(), self.endpoint)

    async def close(self) -> None:
        await self._channel.close()

    def __repr__(self) -> str:
        return f"Connection({self.endpoint})"
