"""The client's calls to one broker: a method for each API, over a channel of the transport.

A message is encoded before it goes to the channel, and what comes back is decoded; bytes that are no message are a
NetworkError. Lists longer than a broker takes in one request are asked in portions. Not here: the transport
(channel.py), which endpoint to ask, and what to do about an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from penstock.client.wire import protobuf as wire
from penstock.client.wire.log_dirs import (
    AlterLogDirsAnswer,
    LogDirsAnswer,
    decode_alter_log_dirs,
    decode_describe_log_dirs,
    encode_alter_log_dirs,
    encode_describe_log_dirs,
)
from penstock.client.wire.messages import (
    ClusterInfo,
    ClusterSnapshot,
    ConfigAnswer,
    ConfigChange,
    ConfigResource,
    DeleteRecordsPart,
    DeleteRecordsResult,
    ElectionAnswer,
    FetchAnswer,
    FetchCall,
    ProduceAnswer,
    ProduceCall,
    ProducerIdAndEpoch,
    QuorumInfo,
    ReassignmentAnswer,
)
from penstock.client.wire.metadata_page import MetadataPage, decode_describe_metadata, encode_describe_metadata
from penstock.client.wire.offsets import (
    EpochPart,
    EpochResult,
    ListOffsetsPart,
    ListOffsetsResult,
    decode_epochs,
    decode_list_offsets,
    encode_epochs,
    encode_list_offsets,
)
from penstock.client.wire.reachability import Reachability
from penstock.client.wire.topic_messages import NewPartitions, NewTopic, TopicAnswer
from penstock.client.wire.transport import ByteStream, ClientTransport
from penstock.errors import ApiError, NetworkError
from penstock.pb import broker_pb2 as pb
from penstock.pb import configs_pb2, elections_pb2, log_dirs_pb2, reassignments_pb2
from penstock.types import Endpoint, TopicPartition

METADATA_TOPICS_MAX = 1_000
LIST_OFFSETS_PARTITIONS_MAX = 2_000
"""What a broker takes in one request (docs/request-limits.md)."""
ANSWER_GRACE_MS = 1_000
"""A broker that waits for its replicas ends that so long before the client's time limit, or a third of it before."""
SERVICE = "/penstock.v1.Broker/"

T = TypeVar("T")


def _portions(items: Sequence[T], size_max: int) -> list[Sequence[T]]:
    """`items` in pieces; one empty piece where there are none."""
    return [items[at : at + size_max] for at in range(0, max(1, len(items)), size_max)]


class _MessageStream:
    """A stream of the transport whose messages have types."""

    __slots__ = ("_reach", "_stream", "endpoint")

    def __init__(self, stream: ByteStream, endpoint: Endpoint, reach: Reachability) -> None:
        self._stream = stream
        self._reach = reach
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

    def cancel(self) -> None:
        """Ends the stream now; a request without an answer will get none."""
        self._stream.cancel()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.endpoint})"


class ProduceStream(_MessageStream):
    """Requests are appended in the order in which they were written. So they are answered, but for one that is answered
    in parts: from its first part on, others' answers may come before the rest of its own."""

    __slots__ = ()

    async def write(self, call: ProduceCall) -> None:
        await self._write(wire.encode_produce(call))

    async def read(self) -> ProduceAnswer:
        return wire.decode_produce(_parsed(pb.ProduceResponse, await self._read(), self.endpoint))


class ConsumerFetchStream(_MessageStream):
    """One fetch session."""

    __slots__ = ()

    async def write(self, call: FetchCall) -> None:
        await self._write(wire.encode_fetch(call).SerializeToString())

    async def read(self) -> FetchAnswer:
        raw = await self._read()
        try:
            return wire.decode_fetch(raw)
        except DecodeError:
            raise _no_message(self.endpoint) from None


class Connection:
    """The way to one endpoint. Made, used and closed on one event loop."""

    def __init__(self, transport: ClientTransport, endpoint: Endpoint, origin: str = "") -> None:
        self.endpoint = endpoint
        self.reach = Reachability(origin)
        self._channel = transport.connect(endpoint)

    async def _ask(self, api: str, request: Message, answer: Any, timeout_ms: int) -> Any:
        """The answer of one call, which is a message of the class `answer`."""
        try:
            raw = await self._channel.call(SERVICE + api, request.SerializeToString(), timeout_ms)
        except ApiError as error:
            self.reach.failed(error)
            raise
        self.reach.answered()
        return _parsed(answer, raw, self.endpoint)

    async def metadata(
        self, topics: Sequence[str] | None, timeout_ms: int, include_log_dirs: bool = False
    ) -> ClusterSnapshot:
        """One answer about all of `topics`; a broker takes a limited number of names in one request."""
        first, *others = [None] if topics is None else _portions(topics, METADATA_TOPICS_MAX)
        answer = await self._metadata(first, timeout_ms, include_log_dirs)
        for portion in others:
            answer = answer.joined(await self._metadata(portion, timeout_ms, include_log_dirs))
        return answer

    async def _metadata(self, topics: Sequence[str] | None, timeout_ms: int, include_log_dirs: bool) -> ClusterSnapshot:
        request = wire.encode_metadata(topics, include_log_dirs)
        return wire.decode_metadata(await self._ask("Metadata", request, pb.MetadataResponse, timeout_ms))

    async def list_offsets(self, parts: Iterable[ListOffsetsPart], timeout_ms: int) -> tuple[ListOffsetsResult, ...]:
        results: list[ListOffsetsResult] = []
        for portion in _portions(tuple(parts), LIST_OFFSETS_PARTITIONS_MAX):
            request = encode_list_offsets(portion, timeout_ms)
            answer = await self._ask("ListOffsets", request, pb.ListOffsetsResponse, timeout_ms)
            results += decode_list_offsets(answer)
        return tuple(results)

    async def epoch_ends(self, parts: Iterable[EpochPart], timeout_ms: int) -> tuple[EpochResult, ...]:
        """Where leader epochs end (OffsetForLeaderEpoch)."""
        results: list[EpochResult] = []
        for portion in _portions(tuple(parts), LIST_OFFSETS_PARTITIONS_MAX):
            request = encode_epochs(portion)
            answer = await self._ask("OffsetForLeaderEpoch", request, pb.OffsetForLeaderEpochResponse, timeout_ms)
            results += decode_epochs(answer)
        return tuple(results)

    async def create_topics(
        self, topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool = False
    ) -> TopicAnswer:
        request = wire.encode_create_topics(topics, timeout_ms, validate_only)
        return wire.decode_topics(await self._ask("CreateTopics", request, pb.CreateTopicsResponse, timeout_ms))

    async def create_partitions(
        self, topics: Iterable[NewPartitions], timeout_ms: int, validate_only: bool = False
    ) -> TopicAnswer:
        request = wire.encode_create_partitions(topics, timeout_ms, validate_only)
        return wire.decode_topics(await self._ask("CreatePartitions", request, pb.CreatePartitionsResponse, timeout_ms))

    async def delete_topics(self, topic_ids: Iterable[str], timeout_ms: int) -> TopicAnswer:
        request = wire.encode_delete_topics(topic_ids, timeout_ms)
        return wire.decode_topics(await self._ask("DeleteTopics", request, pb.DeleteTopicsResponse, timeout_ms))

    async def delete_records(
        self, parts: Iterable[DeleteRecordsPart], timeout_ms: int
    ) -> tuple[DeleteRecordsResult, ...]:
        """The broker waits for the replicas, and answers within `timeout_ms` for which ones it waited in vain."""
        wait_ms = timeout_ms - min(ANSWER_GRACE_MS, timeout_ms // 3)
        request = wire.encode_delete_records(parts, wait_ms)
        answer = await self._ask("DeleteRecords", request, pb.DeleteRecordsResponse, timeout_ms)
        return wire.decode_delete_records(answer)

    async def init_producer_id(self, timeout_ms: int) -> ProducerIdAndEpoch:
        """An id that no other producer has; the broker may wait for it for some seconds."""
        request = pb.InitProducerIdRequest()
        answer = await self._ask("InitProducerId", request, pb.InitProducerIdResponse, timeout_ms)
        return wire.decode_init_producer_id(answer)

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], timeout_ms: int, validate_only: bool = False
    ) -> ConfigAnswer:
        request = wire.encode_alter_configs(changes, timeout_ms, validate_only)
        answer = await self._ask("AlterConfigs", request, configs_pb2.AlterConfigsResponse, timeout_ms)
        return wire.decode_alter_configs(answer)

    async def elect_leaders(
        self, partitions: Mapping[str, Iterable[int]] | None, unclean: bool, timeout_ms: int
    ) -> ElectionAnswer:
        """`partitions` by topic, none of a topic means all of them; None: all topics."""
        request = wire.encode_elect_leaders(partitions, unclean, timeout_ms)
        answer = await self._ask("ElectLeaders", request, elections_pb2.ElectLeadersResponse, timeout_ms)
        return wire.decode_elect_leaders(answer)

    async def alter_partition_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
    ) -> ReassignmentAnswer:
        """The replicas that each partition should have; None cancels."""
        request = wire.encode_reassignments(wanted, timeout_ms)
        response = reassignments_pb2.AlterPartitionReassignmentsResponse
        return wire.decode_reassignments(await self._ask("AlterPartitionReassignments", request, response, timeout_ms))

    async def unregister_broker(self, broker_id: int, timeout_ms: int) -> int:
        """The metadata offset at which the broker was forgotten; the error if it was not."""
        request = pb.UnregisterBrokerRequest(broker_id=broker_id, timeout_ms=timeout_ms)
        answer = await self._ask("UnregisterBroker", request, pb.UnregisterBrokerResponse, timeout_ms)
        return wire.decode_unregister_broker(answer)

    async def describe_configs(self, resources: Iterable[ConfigResource], timeout_ms: int) -> ConfigAnswer:
        request = wire.encode_describe_configs(resources)
        answer = await self._ask("DescribeConfigs", request, configs_pb2.DescribeConfigsResponse, timeout_ms)
        return wire.decode_describe_configs(answer)

    async def describe_cluster(self, timeout_ms: int) -> ClusterInfo:
        request = pb.DescribeClusterRequest()
        return wire.decode_cluster(await self._ask("DescribeCluster", request, pb.DescribeClusterResponse, timeout_ms))

    async def describe_quorum(self, timeout_ms: int) -> QuorumInfo:
        request = pb.DescribeQuorumRequest()
        return wire.decode_quorum(await self._ask("DescribeQuorum", request, pb.DescribeQuorumResponse, timeout_ms))

    async def describe_metadata(self, offset: int, position: int, max_bytes: int, timeout_ms: int) -> MetadataPage:
        """What this broker has at the offset; without `max_bytes` only its digest."""
        request = encode_describe_metadata(offset, position, max_bytes)
        answer = await self._ask("DescribeMetadata", request, pb.DescribeMetadataResponse, timeout_ms)
        return decode_describe_metadata(answer)

    async def describe_log_dirs(self, topics: Iterable[str], timeout_ms: int) -> LogDirsAnswer:
        """What this broker has of these topics; without one, of all."""
        request = encode_describe_log_dirs(topics)
        answer = await self._ask("DescribeLogDirs", request, log_dirs_pb2.DescribeLogDirsResponse, timeout_ms)
        return decode_describe_log_dirs(answer)

    async def alter_replica_log_dirs(self, wanted: Mapping[TopicPartition, str], timeout_ms: int) -> AlterLogDirsAnswer:
        """Moves replicas of this broker to other log dirs of its own."""
        request = encode_alter_log_dirs(wanted)
        answer = await self._ask("AlterReplicaLogDirs", request, log_dirs_pb2.AlterReplicaLogDirsResponse, timeout_ms)
        return decode_alter_log_dirs(answer)

    def open_produce(self) -> ProduceStream:
        return ProduceStream(self._channel.open_stream(SERVICE + "Produce"), self.endpoint, self.reach)

    def open_fetch(self) -> ConsumerFetchStream:
        return ConsumerFetchStream(self._channel.open_stream(SERVICE + "Fetch"), self.endpoint, self.reach)

    async def close(self) -> None:
        await self._channel.close()

    def __repr__(self) -> str:
        return f"Connection({self.endpoint})"


def _parsed(message: Any, raw: bytes, endpoint: Endpoint) -> Any:
    """The bytes as a message of the class `message`."""
    try:
        return message.FromString(raw)
    except DecodeError:
        raise _no_message(endpoint) from None


def _no_message(endpoint: Endpoint) -> NetworkError:
    return NetworkError(f"{endpoint}: the answer is not a message")
