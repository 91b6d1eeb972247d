"""A fake cluster for client tests: real record batches, logs in memory, and errors on demand.

    with FakeCluster(3) as cluster: ...                        over gRPC, in a thread of its own
    with FakeCluster(3, host=MemoryHost(network)) as cluster:  over a fake network, on the running loop of virtual time

Its nodes (fake_node.py) share the cluster's state. A test scripts what goes wrong:
`fail_produce`, `fail_fetch` and `fail_delete` queue errors for a partition (each is used once; a produce error that
does not say "nothing was written" comes after the append), `refuse_fetches` queues errors for whole fetches, `silence`
lets a node swallow requests, `stand_still` lets a partition ack nothing, `break_streams` and `end_streams` end its open
streams, `move_leader` moves a partition, `truncate` loses records. Of what a real broker checks, it checks idempotent
producers' sequences.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import uvloop

from penstock.errors import (
    ApiError,
    InvalidProducerEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
)
from penstock.messages.produce import ProducerState
from penstock.pb import broker_pb2 as pb
from penstock.pb import common_pb2, configs_pb2
from penstock.record.batch import NO_PRODUCER_ID, PLACEMENT_BYTES, iter_headers, placement, read_header
from penstock.types import Endpoint, EpochEntry, LeaderHint, TopicPartition
from storage.append.producer_rules import must_fit
from storage.append.producer_state import KnownProducers
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.fake_groups import FakeGroups
from tests.support.fake_network import FakeNetwork, Service
from tests.support.fake_node import FakeNode, encode_error
from tests.support.fake_transactions import FakeTransactions, marker
from tests.support.grpc_service import serve
from tests.support.loop_ends import end_tasks
from tests.support.voters import disk_of


class Host(Protocol):
    """Runs the nodes of a fake cluster: over gRPC or in memory."""

    def start(self, services: Mapping[int, Service]) -> dict[int, Endpoint]: ...

    def stop(self) -> None: ...

    def start_node(self, node_id: int, endpoint: Endpoint, service: Service) -> None: ...

    def stop_node(self, node_id: int, endpoint: Endpoint) -> None: ...

    def call(self, work: Callable[[], object]) -> None:
        """Runs the work on the nodes' loop, and returns when it is done."""
        ...

    def call_soon(self, work: Callable[[], object]) -> None:
        """Runs the work on the nodes' loop, sooner or later."""
        ...


class GrpcHost:
    """grpc.aio servers on loopback ports, in one thread."""

    def __init__(self) -> None:
        self._servers: dict[int, Any] = {}
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fake-broker", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def start(self, services: Mapping[int, Service]) -> dict[int, Endpoint]:
        self._thread.start()
        return {node_id: self._wait(self._serve(node_id, service, 0)) for node_id, service in services.items()}

    async def _serve(self, node_id: int, service: Service, port: int) -> Endpoint:
        self._servers[node_id], port = await serve(service, port)
        return Endpoint("127.0.0.1", port)

    def stop(self) -> None:
        for server in self._servers.values():
            self._wait(server.stop(None))
        self._wait(end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start_node(self, node_id: int, endpoint: Endpoint, service: Service) -> None:
        self._wait(self._serve(node_id, service, endpoint.port))

    def stop_node(self, node_id: int, endpoint: Endpoint) -> None:
        self._wait(self._servers.pop(node_id).stop(None))

    def call(self, work: Callable[[], object]) -> None:
        async def on_loop() -> None:
            work()

        self._wait(on_loop())

    def call_soon(self, work: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(work)


class MemoryHost:
    """Node n is at fake:n of a fake network, on the loop that runs."""

    def __init__(self, network: FakeNetwork) -> None:
        self._network = network

    def start(self, services: Mapping[int, Service]) -> dict[int, Endpoint]:
        endpoints = {node_id: Endpoint("fake", node_id) for node_id in services}
        for node_id, service in services.items():
            self._network.listen(endpoints[node_id], service)
        return endpoints

    def stop(self) -> None:
        """Does nothing: the network ends with the test."""

    def start_node(self, node_id: int, endpoint: Endpoint, service: Service) -> None:
        self._network.listen(endpoint, service)

    def stop_node(self, node_id: int, endpoint: Endpoint) -> None:
        self._network.leave(endpoint)

    def call(self, work: Callable[[], object]) -> None:
        work()

    def call_soon(self, work: Callable[[], object]) -> None:
        work()


class FakeLog:
    """One partition: batches with their offsets, an epoch history, one leader."""

    def __init__(self, leader_id: int, discard: bool) -> None:
        self.leader_id = leader_id
        self.epoch = 0
        self.log_start_offset = 0
        self.end_offset = 0
        self.epochs: list[EpochEntry] = [EpochEntry(0, 0)]
        self.batches: list[tuple[int, int, bytes, int]] = []  # (base, next, bytes, max timestamp)
        self.writers: dict[int, int] = {}  # which node appended what begins at an offset
        self.discard = discard
        self.producers = KnownProducers()
        self.undecided: dict[int, int] = {}  # by producer id, where its open transaction begins
        self.aborted: list[tuple[int, int, int]] = []  # producer id, first offset, that of the marker
        self.epoch_min: dict[int, int] = {}  # by producer id, that of its last marker

    def append_produced(self, records: bytes, node_id: int) -> int:
        """The base offset of the records, for the first or another time; raises where an idempotent producer's batch
        is not its next one."""
        header = read_header(records)
        if header.producer_id == NO_PRODUCER_ID:
            return self.append(records, node_id)
        known = self.producers.get(header.producer_id)
        again = known.has(header) if known is not None else None
        if again is not None:
            return again.base_offset
        if header.producer_epoch < self.epoch_min.get(header.producer_id, 0):
            raise InvalidProducerEpochError(f"epoch {header.producer_epoch} is over")
        must_fit(header, known)
        base = self.append(records, node_id)
        self.producers.take(header._replace(base_offset=base), 0)
        if header.is_transactional:
            self.undecided.setdefault(header.producer_id, base)
        return base

    @property
    def last_stable_offset(self) -> int:
        return min(self.undecided.values(), default=self.end_offset)

    def stable(self, records: bytes) -> bytes:
        """The whole batches below the last stable offset."""
        sizes = [h.size_bytes for _, h in iter_headers(records) if h.next_offset <= self.last_stable_offset]
        return records[: sum(sizes)]

    def end_transaction(self, producer_id: int, epoch: int, *, is_committed: bool) -> None:
        """Writes the marker where the producer has written, and knows the epoch of its next batches."""
        first = self.undecided.pop(producer_id, None)
        if first is not None:
            offset = self.append(marker(producer_id, epoch, is_committed=is_committed))
            self.producers.forget([producer_id])
            self.epoch_min[producer_id] = epoch
            if not is_committed:
                self.aborted.append((producer_id, first, offset))

    def append(self, records: bytes, node_id: int = 0) -> int:
        base = self.end_offset
        self.writers[base] = node_id
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
    """`nodes` fake brokers; a context manager. With a GrpcHost, methods may be called from any thread."""

    def __init__(self, nodes: int = 1, *, discard: bool = False, host: Host | None = None) -> None:
        self._host = host or GrpcHost()
        self.cluster_id = "fake"
        self.node_ids = list(range(1, nodes + 1))
        self.endpoints: dict[int, Endpoint] = {}
        self.topics: dict[str, str] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, dict[str, str]] = {}
        """By a broker's id, and by "" for all."""
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.controller_id = 1
        self._created = 0
        self.produced: list[tuple[int, pb.ProduceRequest]] = []
        self.fetches: list[tuple[int, pb.FetchRequest]] = []
        self.deletions: list[tuple[int, pb.DeleteRecordsRequest]] = []
        self.known_producers: dict[TopicPartition, list[ProducerState]] = {}
        self.alterations: list[configs_pb2.AlterConfigsRequest] = []
        self.metadata_offset = 0  # of a change; the nodes have heard of everything up to `heard_offset`
        self.heard_offset = 0
        self.metadata_requests = 0
        self.keep_requests = True
        self.hide_topics_for = 0  # so many Metadata answers do not know any topic
        self.on_describe_log_dirs: dict[int, Callable[[Any, Any], None]] = {}
        """By node: changes its answer to a request."""
        self.on_alter_log_dirs: dict[int, Callable[[Any, Any], None]] = {}
        self.log_dir_moves: list[tuple[int, str, str]] = []
        """The replicas that were asked to move: node, partition, log dir."""
        self.on_describe_cluster: dict[
            int, Callable[[pb.DescribeClusterResponse], object]
        ] = {}  # changes a node's answer
        self.refused_configs: set[str] = set()  # of topics, to everybody, as brokers did that refused without an offset
        self.frozen_metadata: dict[int, pb.MetadataResponse] = {}  # what a node that lags goes on to answer
        self.bad_records: Callable[[bytes], Mapping[int, str]] = lambda records: {}
        """The records because of which a batch is refused, by their place in it."""
        self.on_produce: Callable[[int, pb.ProduceRequest], None] | None = None
        self.loses_next_creation = False  # the answer to it
        self.loses_next_growth = False  # the answer to it
        self.on_create_partitions: Callable[[pb.CreatePartitionsRequest], object] | None = None  # before it is answered
        self.assignments: dict[TopicPartition, tuple[int, ...]] = {}  # by hand
        self.loses_next_election = False  # the answer to it
        self.extra_brokers: dict[int, bool] = {}  # registered, and no node here: whether each may be forgotten
        self.loses_next_unregistration = False  # the answer to it
        self.voters: dict[int, tuple[str, str]] = {1: (disk_of(1), "host-1:9193")}  # directory id and address
        self.has_dynamic_quorum = True
        self.observers_away = {9}
        self.levels, self.supported = {"group.version": 1, "kraft.version": 1, "metadata.version": 1}, 2
        """The levels of features, and the highest that every node knows."""
        self.loses_next_voter_change = False
        self.on_delete_topics: Callable[[], object] | None = None  # called once, and then the answer is lost
        self.on_delete_records: Callable[[], object] | None = None  # called once, after the next deletion
        self._discard = discard
        self._produce_errors: dict[TopicPartition, deque[ApiError]] = defaultdict(deque)
        self._fetch_errors: dict[TopicPartition, deque[ApiError]] = defaultdict(deque)
        self._delete_errors: dict[TopicPartition, deque[ApiError]] = defaultdict(deque)
        self.fetch_refusals: deque[ApiError] = deque()
        self.producer_ids_given = 0
        self.groups = FakeGroups()
        self.coordinator: FakeCoordinator | None = None  # of a group whose members join
        self.transactions: FakeTransactions | None = None
        self.producer_id_refusals: deque[ApiError] = deque()  # each ends one InitProducerId, of any node
        self.metadata_lines: dict[int, bytes] = {}  # what a node has in place of METADATA_LINES
        self.metadata_refusals: dict[int, deque[ApiError]] = defaultdict(deque)  # each ends one DescribeMetadata
        self._silent: set[int] = set()
        self._standing_still: dict[TopicPartition, asyncio.Future[None]] = {}
        self._kept: list[asyncio.Future[None]] = []
        self.ended: dict[int, int] = defaultdict(int)  # how often the streams of a node were ended in order
        self._streams: dict[int, dict[Any, None]] = defaultdict(dict)
        self._grown: asyncio.Event | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> FakeCluster:
        self.endpoints = self._host.start({node_id: FakeNode(self, node_id) for node_id in self.node_ids})
        return self

    def __exit__(self, *exc: object) -> None:
        for kept in self._kept:
            kept.cancel()
        self._host.stop()

    def stop_node(self, node_id: int) -> None:
        """Ends the node; its connections break."""
        self._host.stop_node(node_id, self.endpoints[node_id])

    def start_node(self, node_id: int) -> None:
        """Starts the node again, at its old address."""
        self._host.start_node(node_id, self.endpoints[node_id], FakeNode(self, node_id))

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.endpoints.values()))

    # -- scripts -------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: dict[str, str] | None = None,
        leaders: Mapping[int, int] | None = None,
    ) -> None:
        """Creates a topic. `leaders` is partition → node; without it, the nodes lead in turn."""
        self._created += 1
        self.topics[name] = f"id-{self._created}-of-{name}"
        self.configs[name] = dict(config or {})
        in_turn = {partition: self.node_ids[partition % len(self.node_ids)] for partition in range(partitions)}
        for partition, leader in (leaders or in_turn).items():
            self.add_partition(name, partition, leader)

    def add_partition(self, topic: str, partition: int, leader: int) -> None:
        self.logs[TopicPartition(topic, partition)] = FakeLog(leader, self._discard)

    def assign(self, topic: str, by_hand: Iterable[pb.ReplicaAssignment]) -> None:
        """Notes what a client assigned; the first replica leads."""
        for assigned in by_hand:
            tp = TopicPartition(topic, assigned.partition)
            self.assignments[tp] = tuple(assigned.replicas)
            self.logs[tp].leader_id = assigned.replicas[0]

    def delete_topic(self, name: str) -> None:
        del self.topics[name]
        for tp in [tp for tp in self.logs if tp.topic == name]:
            del self.logs[tp]

    def freeze_metadata(self, node_id: int, topic: str) -> None:
        """Makes the node lag: it answers every Metadata request from now on with the answer of this moment."""
        self.frozen_metadata[node_id] = FakeNode(self, node_id).metadata(pb.MetadataRequest(topics=[topic]))

    def fail_produce(self, topic: str, partition: int, *errors: ApiError) -> None:
        self._produce_errors[TopicPartition(topic, partition)].extend(errors)

    def fail_fetch(self, topic: str, partition: int, *errors: ApiError) -> None:
        self._fetch_errors[TopicPartition(topic, partition)].extend(errors)

    def refuse_fetches(self, *errors: ApiError) -> None:
        """Queues errors; each ends one fetch stream, of the node that is asked next."""
        self.fetch_refusals.extend(errors)

    def fail_delete(self, topic: str, partition: int, *errors: ApiError) -> None:
        self._delete_errors[TopicPartition(topic, partition)].extend(errors)

    def silence(self, node_id: int, on: bool = True) -> None:
        """Lets the node append what is produced to it, and never answer."""
        (self._silent.add if on else self._silent.discard)(node_id)

    def stand_still(self, topic: str, partition: int, on: bool = True) -> None:
        """Appends what is produced to the partition, and acks nothing until it is off again. On the running loop."""
        tp = TopicPartition(topic, partition)
        if on:
            self._standing_still[tp] = asyncio.get_running_loop().create_future()
        else:
            self._standing_still.pop(tp).set_result(None)

    def break_streams(self, node_id: int) -> None:
        """Ends every open stream of the node with a NetworkError."""

        def break_all() -> None:
            for task in list(self._streams[node_id]):
                task.cancel("the stream was broken off")

        self._host.call(break_all)

    def end_streams(self, node_id: int) -> None:
        """Ends the node's open fetch streams in order, without answers to their requests, as a node's stop does."""
        self.ended[node_id] += 1
        self._host.call_soon(self.grow)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Makes a node the leader of a partition, in a new epoch."""
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
        """Appends without a producer, and wakes the fetches that wait for records."""
        base = self.logs[TopicPartition(topic, partition)].append(records)
        self._host.call_soon(self.grow)
        return base

    def grow(self) -> None:
        """Wakes every waiting fetch."""
        grown, self._grown = self._grown, None
        if grown is not None:
            grown.set()

    # -- state, as the nodes see it ------------------------------------------------------------------------------------

    def leader_of(self, tp: TopicPartition) -> LeaderHint:
        log = self.logs[tp]
        return LeaderHint(log.leader_id, log.epoch, self.endpoints.get(log.leader_id), self.topics[tp.topic])

    def leadership_error(self, node_id: int, part: Any) -> common_pb2.Error | None:
        """The error if this node cannot answer about the partition of `part`, which may be of any request."""
        tp = TopicPartition(part.topic, part.partition)
        if not part.topic_id:
            return encode_error(InvalidRequestError(f"{tp}: no topic id"))
        log = self.logs.get(tp)
        if log is None or self.topics[tp.topic] != part.topic_id:
            return encode_error(UnknownTopicIdError(f"{tp} of id {part.topic_id} is not known"))
        if log.leader_id != node_id:
            return encode_error(NotLeaderOrFollowerError(f"{tp} is led by another", leader=self.leader_of(tp)))
        return None

    def next_error(self, errors: str, tp: TopicPartition) -> common_pb2.Error | None:
        queues = {"produce": self._produce_errors, "fetch": self._fetch_errors, "delete": self._delete_errors}
        queue = queues[errors][tp]
        return encode_error(queue.popleft()) if queue else None

    def standing_still(self, result: pb.PartitionProduceResult) -> asyncio.Future[None] | None:
        """A future that ends when the partition goes on."""
        return self._standing_still.get(TopicPartition(result.topic, result.partition))

    def keep(self, task: asyncio.Future[None]) -> None:
        """Nothing else refers to it."""
        self._kept.append(task)

    def is_silent(self, node_id: int) -> bool:
        return node_id in self._silent

    def tasks_of_streams(self, node_id: int) -> dict[Any, None]:
        return self._streams[node_id]

    async def wait_grown(self, seconds: float) -> None:
        self._grown = self._grown or asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await self._grown.wait()
        except TimeoutError:
            return
