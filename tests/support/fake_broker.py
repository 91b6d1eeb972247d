"""A fake cluster for client tests: real gRPC, real record batches, logs in memory, and errors on demand.

Nodes are grpc.aio servers of one thread that share the cluster's state. A test scripts what goes wrong:
`fail_produce`, `fail_fetch` and `fail_delete` queue errors for a partition (each is used once; a produce error that
does not say "nothing was written" comes after the append), `refuse_fetches` queues errors for whole fetches, `silence`
lets a node swallow requests, `break_streams` and `end_streams` end its open streams, `move_leader` moves a partition,
`truncate` loses records. It checks nothing that a real broker checks.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc
import grpc.aio
import uvloop

from penstock.epochs import diverging_epoch
from penstock.error_trailer import trailer_of
from penstock.errors import ERRORS, ApiError, InvalidRequestError, OffsetOutOfRangeError, UnknownTopicIdError
from penstock.pb import broker_pb2 as pb
from penstock.pb import broker_pb2_grpc, common_pb2, configs_pb2
from penstock.record.batch import PLACEMENT_BYTES, iter_headers, placement
from penstock.types import EpochEntry, TopicPartition

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
]


class FakeLog:
    """One partition: batches with their offsets, an epoch history, one leader."""

    def __init__(self, leader_id: int, discard: bool) -> None:
        self.leader_id = leader_id
        self.epoch = 0
        self.log_start_offset = 0
        self.end_offset = 0
        self.epochs: list[EpochEntry] = [EpochEntry(0, 0)]
        self.batches: list[tuple[int, int, bytes, int]] = []  # (base, next, bytes, max timestamp)
        self.discard = discard

    def append(self, records: bytes) -> int:
        base = self.end_offset
        for at, header in iter_headers(records):
            start, end = self.end_offset, self.end_offset + header.last_offset_delta + 1
            if not self.discard:
                body = records[at + PLACEMENT_BYTES : at + header.size_bytes]
                data = placement(start, header.batch_length, self.epoch) + body
                self.batches.append((start, end, data, header.max_timestamp_ms))
            self.end_offset = end
        return base

    def read(self, offset: int, max_bytes: int) -> bytes:
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.batches[middle][1] <= offset else (low, middle)
        found: list[bytes] = []
        size = 0
        for _, _, data, _ in self.batches[low:]:
            if found and size + len(data) > max_bytes:
                break
            found.append(data)
            size += len(data)
        return b"".join(found)


class FakeCluster:
    """`nodes` fake brokers; a context manager. Methods may be called from any thread."""

    def __init__(self, nodes: int = 1, *, discard: bool = False) -> None:
        self.node_ids = list(range(1, nodes + 1))
        self.ports: dict[int, int] = {}
        self.topics: dict[str, str] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.controller_id = 1
        self._created = 0
        self.produced: list[tuple[int, pb.ProduceRequest]] = []
        self.fetches: list[tuple[int, pb.FetchRequest]] = []
        self.deletions: list[tuple[int, pb.DeleteRecordsRequest]] = []
        self.alterations: list[configs_pb2.AlterConfigsRequest] = []
        self.metadata_offset = 0  # of a change; the nodes have heard of everything up to `heard_offset`
        self.heard_offset = 0
        self.metadata_requests = 0
        self.keep_requests = True
        self.hide_topics_for = 0  # so many Metadata answers do not know any topic
        self.frozen_metadata: dict[int, pb.MetadataResponse] = {}  # what a node that lags goes on to answer
        self.on_produce: Callable[[int, pb.ProduceRequest], None] | None = None
        self.on_delete_topics: Callable[[], object] | None = None  # called once, and then the answer is lost
        self.on_delete_records: Callable[[], object] | None = None  # called once, after the next deletion
        self._discard = discard
        self._produce_errors: dict[TopicPartition, deque[ApiError]] = defaultdict(deque)
        self._fetch_errors: dict[TopicPartition, deque[ApiError]] = defaultdict(deque)
        self._delete_errors: dict[TopicPartition, deque[ApiError]] = defaultdict(deque)
        self.fetch_refusals: deque[ApiError] = deque()
        self._silent: set[int] = set()
        self.ended: dict[int, int] = defaultdict(int)  # how often the streams of a node were ended in order
        self._contexts: dict[int, set[Any]] = defaultdict(set)
        self._servers: dict[int, Any] = {}
        self._loop = uvloop.new_event_loop()
        self._grown: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="fake-broker", daemon=True)

    # -- life ----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> FakeCluster:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *exc: object) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _start(self) -> None:
        self._grown = asyncio.Event()
        for node_id in self.node_ids:
            await self._start_node(node_id, 0)

    async def _start_node(self, node_id: int, port: int) -> None:
        server = grpc.aio.server(options=OPTIONS)
        broker_pb2_grpc.add_BrokerServicer_to_server(FakeNode(self, node_id), server)
        self.ports[node_id] = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        self._servers[node_id] = server

    async def _stop(self) -> None:
        for server in self._servers.values():
            await server.stop(None)

    def stop_node(self, node_id: int) -> None:
        """The node goes away; its connections break."""
        self.run(self._servers.pop(node_id).stop(None))

    def start_node(self, node_id: int) -> None:
        """The node comes back at its old port."""
        self.run(self._start_node(node_id, self.ports[node_id]))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[node_id]}" for node_id in self.node_ids)

    # -- scripts -------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        self._created += 1
        self.topics[name] = f"id-{self._created}-of-{name}"
        self.configs[name] = dict(config or {})
        for partition in range(partitions):
            leader = self.node_ids[partition % len(self.node_ids)]
            self.logs[TopicPartition(name, partition)] = FakeLog(leader, self._discard)

    def delete_topic(self, name: str) -> None:
        del self.topics[name]
        for tp in [tp for tp in self.logs if tp.topic == name]:
            del self.logs[tp]

    def freeze_metadata(self, node_id: int, topic: str) -> None:
        """From now on the node answers every Metadata with what it would say about this topic now: it lags."""
        self.frozen_metadata[node_id] = FakeNode(self, node_id)._metadata(pb.MetadataRequest(topics=[topic]))

    def fail_produce(self, topic: str, partition: int, *errors: ApiError) -> None:
        self._produce_errors[TopicPartition(topic, partition)].extend(errors)

    def fail_fetch(self, topic: str, partition: int, *errors: ApiError) -> None:
        self._fetch_errors[TopicPartition(topic, partition)].extend(errors)

    def refuse_fetches(self, *errors: ApiError) -> None:
        """Each ends one fetch stream of whichever node is asked next."""
        self.fetch_refusals.extend(errors)

    def fail_delete(self, topic: str, partition: int, *errors: ApiError) -> None:
        self._delete_errors[TopicPartition(topic, partition)].extend(errors)

    def silence(self, node_id: int, on: bool = True) -> None:
        """Produce requests are taken, appended, and never answered."""
        (self._silent.add if on else self._silent.discard)(node_id)

    def break_streams(self, node_id: int) -> None:
        """Every open stream of the node ends with UNAVAILABLE."""

        async def break_all() -> None:
            for task in list(self._contexts[node_id]):
                task.cancel()

        self.run(break_all())

    def end_streams(self, node_id: int) -> None:
        """Every open fetch stream of the node ends in order, without an answer to its request, as when a node stops."""
        self.ended[node_id] += 1
        self._loop.call_soon_threadsafe(self.grow)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """A new leader in a new epoch."""
        log = self.logs[TopicPartition(topic, partition)]
        log.leader_id = node_id
        log.epoch += 1
        log.epochs.append(EpochEntry(log.epoch, log.end_offset))

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Loses records as an unclean election does, and begins a new epoch there."""
        log = self.logs[TopicPartition(topic, partition)]
        log.batches = [batch for batch in log.batches if batch[1] <= offset]
        log.end_offset = log.batches[-1][1] if log.batches else 0
        log.epoch += 1
        log.epochs = [entry for entry in log.epochs if entry.start_offset < log.end_offset]
        log.epochs.append(EpochEntry(log.epoch, log.end_offset))

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        log = self.logs[TopicPartition(topic, partition)]
        log.batches = [batch for batch in log.batches if batch[1] > offset]
        log.log_start_offset = offset

    def append(self, topic: str, partition: int, records: bytes) -> int:
        """Appends behind the clients' backs and wakes whoever waits for records."""
        base = self.logs[TopicPartition(topic, partition)].append(records)
        self._loop.call_soon_threadsafe(self.grow)
        return base

    def grow(self) -> None:
        """Wakes every waiting fetch."""
        if self._grown is not None:
            self._grown.set()
            self._grown = asyncio.Event()

    # -- state, as the nodes see it ------------------------------------------------------------------------------------

    def hint(self, tp: TopicPartition) -> common_pb2.LeaderHint:
        log = self.logs[tp]
        port = self.ports[log.leader_id]
        return common_pb2.LeaderHint(
            leader_id=log.leader_id,
            leader_epoch=log.epoch,
            host="127.0.0.1",
            port=port,
            topic_id=self.topics[tp.topic],
        )

    def leadership_error(self, node_id: int, part: Any) -> common_pb2.Error | None:
        """Why this node cannot answer what `part`, of any request, asks about a partition."""
        tp = TopicPartition(part.topic, part.partition)
        if not part.topic_id:
            return encode_error(InvalidRequestError(f"{tp}: no topic id"))
        log = self.logs.get(tp)
        if log is None or self.topics[tp.topic] != part.topic_id:
            return encode_error(UnknownTopicIdError(f"{tp} of id {part.topic_id} is not known"))
        if log.leader_id != node_id:
            return common_pb2.Error(code=6, message=f"{tp} is led by another", leader=self.hint(tp))
        return None

    def next_error(self, errors: str, tp: TopicPartition) -> common_pb2.Error | None:
        queues = {"produce": self._produce_errors, "fetch": self._fetch_errors, "delete": self._delete_errors}
        queue = queues[errors][tp]
        return encode_error(queue.popleft()) if queue else None

    def is_silent(self, node_id: int) -> bool:
        return node_id in self._silent

    def task_of_stream(self, node_id: int) -> set[Any]:
        return self._contexts[node_id]

    async def wait_grown(self, seconds: float) -> None:
        event = self._grown
        try:
            async with asyncio.timeout(seconds):
                if event is not None:
                    await event.wait()
        except TimeoutError:
            return


def encode_error(error: ApiError) -> common_pb2.Error:
    wire = common_pb2.Error(
        nothing_written=error.nothing_written and not type(error).nothing_written,
        code=error.code,
        message=error.message,
        log_start_offset=error.log_start_offset,
        log_end_offset=error.log_end_offset,
    )
    if error.leader is not None:
        host, port = error.leader.endpoint or ("", 0)
        wire.leader.CopyFrom(
            common_pb2.LeaderHint(
                leader_id=error.leader.leader_id,
                leader_epoch=error.leader.leader_epoch,
                host=host,
                port=port,
                topic_id=error.leader.topic_id,
            )
        )
    return wire


class FakeNode(broker_pb2_grpc.BrokerServicer):
    """One broker's door."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    async def _guarded(self, answers: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        task = asyncio.current_task()
        streams = self._cluster.task_of_stream(self._node_id)
        streams.add(task)
        try:
            async for answer in answers:
                yield answer
        except asyncio.CancelledError:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was broken off")
        finally:
            streams.discard(task)

    async def Produce(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        async for answer in self._guarded(self._produce(requests), context):
            yield answer

    async def _produce(self, requests: Any) -> AsyncIterator[Any]:
        cluster = self._cluster
        async for request in requests:
            if cluster.keep_requests:
                cluster.produced.append((self._node_id, request))
            if cluster.on_produce is not None:
                cluster.on_produce(self._node_id, request)
            answer = pb.ProduceResponse(correlation_id=request.correlation_id)
            for part in request.partitions:
                result = self._append(part)
                if request.acks != 0:
                    answer.partitions.append(result)
            cluster.grow()
            if not cluster.is_silent(self._node_id):
                yield answer

    def _append(self, part: pb.PartitionRecords) -> pb.PartitionProduceResult:
        tp = TopicPartition(part.topic, part.partition)
        result = pb.PartitionProduceResult(topic=part.topic, partition=part.partition, log_append_time_ms=-1)
        error = self._cluster.leadership_error(self._node_id, part) or self._cluster.next_error("produce", tp)
        if error is not None:
            result.error.CopyFrom(error)
        if error is None or not (error.nothing_written or ERRORS[error.code].nothing_written):
            result.base_offset = self._cluster.logs[tp].append(part.records)
        return result

    async def Fetch(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        async for answer in self._guarded(self._fetch(requests, context), context):
            yield answer

    async def _fetch(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        session: dict[TopicPartition, pb.FetchPartition] = {}
        ended = self._cluster.ended[self._node_id]
        async for request in requests:
            if self._cluster.keep_requests:
                self._cluster.fetches.append((self._node_id, request))
            if self._cluster.fetch_refusals:
                error = self._cluster.fetch_refusals.popleft()
                await context.abort(grpc.StatusCode.INTERNAL, str(error), trailer_of(error))
            for part in request.partitions:
                session[TopicPartition(part.topic, part.partition)] = part
            for gone in request.forgotten:
                session.pop(TopicPartition(gone.topic, gone.partition), None)
            loop = asyncio.get_running_loop()
            until = loop.time() + request.max_wait_ms / 1000
            while True:
                if self._cluster.ended[self._node_id] != ended:
                    return
                results = [r for tp, part in session.items() if (r := self._read(tp, part, request)) is not None]
                left = until - loop.time()
                if results or left <= 0:
                    break
                await self._cluster.wait_grown(left)
            yield pb.FetchResponse(correlation_id=request.correlation_id, partitions=results)

    def _read(
        self, tp: TopicPartition, part: pb.FetchPartition, request: pb.FetchRequest
    ) -> pb.PartitionFetchResult | None:
        result = pb.PartitionFetchResult(
            topic=tp.topic, partition=tp.partition, topic_id=part.topic_id, fetch_offset=part.fetch_offset
        )
        error = self._cluster.leadership_error(self._node_id, part) or self._cluster.next_error("fetch", tp)
        if error is not None:
            result.error.CopyFrom(error)
            return result
        log = self._cluster.logs[tp]
        result.high_watermark, result.log_start_offset = log.end_offset, log.log_start_offset
        diverging = diverging_epoch(log.epochs, log.end_offset, part.fetch_offset, part.last_fetched_epoch)
        if diverging is not None:
            result.diverging_epoch.epoch, result.diverging_epoch.end_offset = diverging
            return result
        if not log.log_start_offset <= part.fetch_offset <= log.end_offset:
            bounds = {"log_start_offset": log.log_start_offset, "log_end_offset": log.end_offset}
            result.error.CopyFrom(encode_error(OffsetOutOfRangeError("out of range", **bounds)))
            return result
        result.records = log.read(part.fetch_offset, min(part.max_bytes, request.max_bytes))
        return result if result.records else None

    async def ListOffsets(self, request: Any, context: Any) -> Any:
        answer = pb.ListOffsetsResponse()
        for part in request.partitions:
            tp = TopicPartition(part.topic, part.partition)
            result = answer.partitions.add(topic=part.topic, partition=part.partition, offset=-1, timestamp_ms=-1)
            error = self._cluster.leadership_error(self._node_id, part)
            if error is not None:
                result.error.CopyFrom(error)
                continue
            log = self._cluster.logs[tp]
            result.leader_epoch = log.epoch
            if part.timestamp_ms == -1:
                result.offset = log.end_offset
            elif part.timestamp_ms == -2:
                result.offset = log.log_start_offset
            else:
                for base, _, _, max_timestamp_ms in log.batches:
                    if max_timestamp_ms >= part.timestamp_ms:
                        result.offset, result.timestamp_ms = base, max_timestamp_ms
                        break
        return answer

    async def Metadata(self, request: Any, context: Any) -> Any:
        self._cluster.metadata_requests += 1
        return self._cluster.frozen_metadata.get(self._node_id) or self._metadata(request)

    def _metadata(self, request: Any) -> pb.MetadataResponse:
        cluster = self._cluster
        answer = pb.MetadataResponse(
            cluster_id="fake", controller_id=cluster.controller_id, metadata_offset=cluster.heard_offset
        )
        cluster.heard_offset += 1
        answer.brokers.extend(self._brokers())
        names = cluster.topics if request.all_topics else request.topics
        hidden = cluster.hide_topics_for > 0
        cluster.hide_topics_for -= hidden
        for name in names:
            topic = answer.topics.add(name=name)
            if name not in cluster.topics or hidden:
                topic.error.code, topic.error.message = 3, f"{name} is not known"
                continue
            topic.topic_id = cluster.topics[name]
            topic.config.update(cluster.configs[name])
            for tp, log in cluster.logs.items():
                if tp.topic == name:
                    topic.partitions.add(
                        partition=tp.partition,
                        leader_id=log.leader_id,
                        leader_epoch=log.epoch,
                        replicas=[log.leader_id],
                        isr=[log.leader_id],
                    )
        return answer

    def _brokers(self) -> list[common_pb2.Node]:
        ports = self._cluster.ports
        return [common_pb2.Node(node_id=n, host="127.0.0.1", port=ports[n]) for n in self._cluster.node_ids]

    async def CreateTopics(self, request: Any, context: Any) -> Any:
        answer = pb.CreateTopicsResponse()
        for topic in request.topics:
            result = answer.topics.add(name=topic.name)
            if self._node_id != self._cluster.controller_id:
                port = self._cluster.ports[self._cluster.controller_id]
                result.error.code, result.error.message = 41, "not the controller"
                result.error.leader.CopyFrom(
                    common_pb2.LeaderHint(leader_id=self._cluster.controller_id, host="127.0.0.1", port=port)
                )
            elif topic.name in self._cluster.topics:
                result.error.code, result.error.message = 36, f"topic {topic.name} exists"
            else:
                self._cluster.create_topic(topic.name, max(topic.partitions, 1), dict(topic.config))
                result.topic_id = self._cluster.topics[topic.name]
        return answer

    async def DeleteTopics(self, request: Any, context: Any) -> Any:
        answer = pb.DeleteTopicsResponse()
        cluster = self._cluster
        for topic_id in request.topic_ids:
            result = answer.topics.add(topic_id=topic_id)
            name = next((name for name, found in cluster.topics.items() if found == topic_id), None)
            if name is None:
                result.error.CopyFrom(encode_error(UnknownTopicIdError(f"no topic has the id {topic_id}")))
            else:
                cluster.delete_topic(name)
        if cluster.on_delete_topics is not None:
            after, cluster.on_delete_topics = cluster.on_delete_topics, None
            after()
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer got lost")
        return answer

    async def DeleteRecords(self, request: Any, context: Any) -> Any:
        cluster = self._cluster
        cluster.deletions.append((self._node_id, request))
        after, cluster.on_delete_records = cluster.on_delete_records, None
        answer = pb.DeleteRecordsResponse()
        for part in request.partitions:
            tp = TopicPartition(part.topic, part.partition)
            result = answer.partitions.add(topic=part.topic, partition=part.partition, low_watermark=-1)
            error = cluster.leadership_error(self._node_id, part) or cluster.next_error("delete", tp)
            if error is not None:
                result.error.CopyFrom(error)
                continue
            if part.before_offset > cluster.logs[tp].log_start_offset:
                cluster.delete_below(*tp, part.before_offset)
            result.low_watermark = cluster.logs[tp].log_start_offset
        if after is not None:
            after()
        return answer

    async def AlterConfigs(self, request: Any, context: Any) -> Any:
        cluster = self._cluster
        cluster.alterations.append(request)
        answer = configs_pb2.AlterConfigsResponse(metadata_offset=cluster.metadata_offset)
        for resource in request.resources:
            result = answer.resources.add(resource_type=resource.resource_type, resource_name=resource.resource_name)
            if resource.resource_name not in cluster.topics:
                result.error.code, result.error.message = 3, f"topic {resource.resource_name} is not known"
            elif not request.validate_only:
                for change in resource.changes:
                    cluster.configs[resource.resource_name][change.key] = change.value
        return answer

    async def DescribeConfigs(self, request: Any, context: Any) -> Any:
        answer = configs_pb2.DescribeConfigsResponse()
        for resource in request.resources:
            result = answer.resources.add(resource_type=resource.resource_type, resource_name=resource.resource_name)
            if resource.resource_type == "broker":
                result.configs.add(key="node.id", value=str(self._node_id), source="CONFIG_SOURCE_STATIC_BROKER_CONFIG")
            elif resource.resource_name not in self._cluster.topics:
                result.error.code, result.error.message = 3, f"topic {resource.resource_name} is not known"
            else:
                for key, value in self._cluster.configs[resource.resource_name].items():
                    result.configs.add(key=key, value=value, source=1, type="string", documentation="says nothing")
                result.configs.add(key="segment.bytes", value="1", source=5, type="int")
        return answer

    async def DescribeCluster(self, request: Any, context: Any) -> Any:
        answer = pb.DescribeClusterResponse(cluster_id="fake", controller_id=self._cluster.controller_id)
        answer.brokers.extend(self._brokers())
        return answer

    async def DescribeQuorum(self, request: Any, context: Any) -> Any:
        answer = pb.DescribeQuorumResponse(leader_id=1, leader_epoch=3, high_watermark=7)
        answer.voters.add(node_id=1, log_end_offset=7, last_fetch_ms_ago=-1)
        return answer
