"""The client's calls to one broker: each API by its row of the table, over a channel of the transport.

A request is encoded before it goes to the channel, and what comes back is decoded; bytes that are no message are a
NetworkError. Lists longer than a broker takes in one request are asked in portions. Not here: the transport
(channel.py), which endpoint to ask, and what to do about an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from penstock.client.wire.reachability import Reachability
from penstock.client.wire.throttle import Throttle
from penstock.client.wire.transport import ByteStream, Channel
from penstock.errors import ApiError, NetworkError, UnknownServerError
from penstock.messages import client_apis as apis
from penstock.messages.api import Api
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.messages.metadata import MetadataRequest, MetadataResponse, TopicInfo
from penstock.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResult,
    EpochPartition,
    EpochPartitionResult,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResult,
    OffsetForLeaderEpochRequest,
)
from penstock.messages.produce import InitProducerIdRequest, ProduceRequest, ProduceResponse
from penstock.types import PRODUCER_EPOCH_MAX, Endpoint, ProducerIdAndEpoch
from penstock.wire import streams
from penstock.wire.message_codec import request_codec, response_codec

ANSWER_GRACE_MS = 1_000
"""A broker that waits for its replicas ends the wait this long before the client's time limit, or a third of the limit
before it if that is less."""

A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")


def _portions(items: Sequence[T], size_max: int) -> list[Sequence[T]]:
    """Cuts `items` into pieces of at most `size_max`; one empty piece if `items` is empty."""
    return [items[at : at + size_max] for at in range(0, max(1, len(items)), size_max)]


class _MessageStream:
    """A stream of the transport whose messages have types."""

    __slots__ = ("_client_id", "_reach", "_stream", "endpoint")

    def __init__(self, stream: ByteStream, endpoint: Endpoint, reach: Reachability, client_id: str) -> None:
        self._stream = stream
        self._reach = reach
        self._client_id = client_id
        self.endpoint = endpoint

    async def _write(self, message: bytes) -> None:
        try:
            await self._stream.write(message)
        except ApiError as error:
            self._reach.failed(error)
            raise

    async def _read(self) -> bytes:
        try:
            message = await self._stream.read()
        except ApiError as error:
            self._reach.failed(error)
            raise
        self._reach.answered()
        return message

    def _decoded(self, decode: Callable[[bytes], A], raw: bytes) -> A:
        try:
            return decode(raw)
        except DecodeError:
            raise _no_message(self.endpoint) from None

    def cancel(self) -> None:
        """Ends the stream now; a request without an answer will get none."""
        self._stream.cancel()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint})"


class ProduceStream(_MessageStream):
    """Requests are appended in the order in which they were written. So they are answered, but for one that is answered
    in parts: from its first part on, others' answers may come before the rest of its own."""

    __slots__ = ()

    async def write(self, correlation_id: int, request: ProduceRequest) -> None:
        await self._write(streams.produce_request_to_bytes((correlation_id, self._client_id), request))

    async def read(self) -> tuple[int, ProduceResponse]:
        """The number of a request, and its answer or a part of it."""
        return self._decoded(streams.produce_response_from_bytes, await self._read())


class ConsumerFetchStream(_MessageStream):
    """One fetch session: a request is answered before the next one is written."""

    __slots__ = ("_written",)

    def __init__(self, stream: ByteStream, endpoint: Endpoint, reach: Reachability, client_id: str) -> None:
        super().__init__(stream, endpoint, reach, client_id)
        self._written = 0

    async def write(self, request: FetchRequest) -> None:
        self._written += 1
        await self._write(streams.fetch_request_to_bytes((self._written, self._client_id), request))

    async def read(self) -> FetchResponse:
        return self._decoded(streams.fetch_response_from_bytes, await self._read())[1]


class Connection:
    """The way to one endpoint. Made, used and closed on one event loop."""

    def __init__(
        self,
        channel: Channel,
        endpoint: Endpoint,
        origin: str = "",
        client_id: str = "",
        throttle: Throttle | None = None,
    ) -> None:
        """`throttle` hears the trailers of the channel's calls."""
        self.endpoint = endpoint
        self.throttle = Throttle(endpoint) if throttle is None else throttle
        self._client_id = client_id
        self.reach = Reachability(origin)
        self._channel = channel

    @property
    def is_connected(self) -> bool:
        """True while the transport has a connection, as far as it has heard; may be asked in any thread."""
        return self._channel.is_connected

    async def call(self, api: Api[Q, A], request: Q, timeout_ms: int) -> A:
        """The answer of one call, which is made when the broker wants calls of this client again."""
        left_ms = await self.throttle.wait(timeout_ms, is_change=api.changes_partitions)
        try:
            raw = await self._channel.call(api.method, request_codec(api).encode(request), left_ms)
        except ApiError as error:
            self.reach.failed(error)
            raise
        self.reach.answered()
        try:
            answer: A = response_codec(api).decode(raw)
        except DecodeError:
            raise _no_message(self.endpoint) from None
        return answer

    async def _in_portions(
        self, api: Api[Q, Any], request: Callable[[tuple[T, ...]], Q], items: Iterable[T], timeout_ms: int
    ) -> list[Any]:
        """The results of all items, of as many requests as a broker's limit asks for."""
        results: list[Any] = []
        for portion in _portions(tuple(items), apis.PARTITIONS_MAX):
            results += (await self.call(api, request(tuple(portion)), timeout_ms)).partitions
        return results

    async def metadata(
        self, topics: Sequence[str] | None, timeout_ms: int, include_log_dirs: bool = False
    ) -> MetadataResponse:
        """One answer about all of `topics`; a broker takes a limited number of names in one request."""
        first, *others = [None] if topics is None else _portions(topics, apis.NAMES_MAX)
        answer = await self._metadata(first, timeout_ms, include_log_dirs)
        for portion in others:
            answer = answer.joined(await self._metadata(portion, timeout_ms, include_log_dirs))
        return answer

    async def _metadata(
        self, topics: Sequence[str] | None, timeout_ms: int, include_log_dirs: bool
    ) -> MetadataResponse:
        request = MetadataRequest(None if topics is None else tuple(topics), include_log_dirs)
        answer = await self.call(apis.METADATA, request, timeout_ms)
        return replace(answer, topics=tuple(_in_order(topic, answer.metadata_age_ms) for topic in answer.topics))

    async def list_offsets(
        self, parts: Iterable[ListOffsetsPartition], timeout_ms: int, *, read_committed: bool = False
    ) -> list[ListOffsetsResult]:
        def request(portion: tuple[ListOffsetsPartition, ...]) -> ListOffsetsRequest:
            return ListOffsetsRequest(portion, timeout_ms=timeout_ms, read_committed=read_committed)

        return await self._in_portions(apis.LIST_OFFSETS, request, parts, timeout_ms)

    async def epoch_ends(self, parts: Iterable[EpochPartition], timeout_ms: int) -> list[EpochPartitionResult]:
        """The ends of leader epochs (OffsetForLeaderEpoch)."""
        return await self._in_portions(apis.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, parts, timeout_ms)

    async def delete_records(
        self, parts: Iterable[DeleteRecordsPartition], timeout_ms: int
    ) -> tuple[DeleteRecordsResult, ...]:
        """The broker waits for the replicas, and answers within `timeout_ms` for which ones it waited in vain."""
        wait_ms = timeout_ms - min(ANSWER_GRACE_MS, timeout_ms // 3)
        request = DeleteRecordsRequest(tuple(parts), wait_ms)
        return (await self.call(apis.DELETE_RECORDS, request, timeout_ms)).partitions

    async def init_producer_id(self, timeout_ms: int) -> ProducerIdAndEpoch:
        """An id that no other producer has; the broker may wait for it for some seconds. UnknownServerError if a batch
        has no room for it."""
        answer = await self.call(apis.INIT_PRODUCER_ID, InitProducerIdRequest(), timeout_ms)
        if answer.producer_id < 0 or not 0 <= answer.producer_epoch <= PRODUCER_EPOCH_MAX:
            raise UnknownServerError(
                f"the broker answered with producer id {answer.producer_id} in epoch {answer.producer_epoch}"
            )
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def open_produce(self) -> ProduceStream:
        return ProduceStream(self._channel.open_stream(apis.PRODUCE.method), self.endpoint, self.reach, self._client_id)

    def open_fetch(self) -> ConsumerFetchStream:
        stream = self._channel.open_stream(apis.FETCH.method)
        return ConsumerFetchStream(stream, self.endpoint, self.reach, self._client_id)

    async def close(self) -> None:
        self.throttle.close()
        await self._channel.close()

    def __repr__(self) -> str:
        return f"Connection({self.endpoint})"


def _in_order(topic: TopicInfo, age_ms: int) -> TopicInfo:
    """The topic with its partitions by number, and with the age of the metadata that it is from."""
    partitions = tuple(sorted(topic.partitions, key=lambda p: p.partition))
    return replace(topic, partitions=partitions, metadata_age_ms=age_ms)


def _no_message(endpoint: Endpoint) -> NetworkError:
    return NetworkError(f"{endpoint}: the answer is not a message")
