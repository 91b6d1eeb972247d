"""Brokers without a network, for the client's own code in virtual time: they hang, resume, move leaders, lag behind.

    nodes = FakeNodes(leaders={0: 1, 1: 1}, count=3)
    cluster = Cluster(nodes.bootstrap, config, clock, nodes.connect)

Node n is at port n, and every partition is of the topic "t". A node that hangs takes what it is sent and answers when
it goes on. What else a broker does is fake_broker.py's, over real gRPC.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.client.wire.messages import (
    BrokerInfo,
    ClusterSnapshot,
    FetchAnswer,
    FetchCall,
    ListOffsetsPart,
    ListOffsetsResult,
    PartitionInfo,
    ProduceAnswer,
    ProduceCall,
    ProducePart,
    ProduceResult,
    TopicInfo,
)
from penstock.errors import NetworkError, NotLeaderOrFollowerError, RequestTimedOutError
from penstock.record.reader import read_records
from penstock.types import Endpoint

TOPIC = "t"
END_OFFSET = 7


class FakeNodes:
    """Nodes 1…count; `leaders` is partition → node."""

    def __init__(self, leaders: Mapping[int, int], count: int) -> None:
        self._count = count
        self._leaders = {partition: (node, 0) for partition, node in leaders.items()}
        self._views: dict[int, ClusterSnapshot] = {}
        self._metadata_offset = 0
        self._running = {node: asyncio.Event() for node in range(1, count + 1)}
        self._topic_id = "id"
        self.cluster_id = "c"
        self.asked: list[int] = []
        self.produced: list[tuple[int, tuple[int, ...]]] = []
        self.logs: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        """By partition, which node wrote which value, in order."""
        for event in self._running.values():
            event.set()

    @property
    def bootstrap(self) -> tuple[Endpoint, ...]:
        return tuple(Endpoint("fake", node) for node in self._running)

    def connect(self, endpoint: Endpoint) -> Any:
        return FakeConnection(self, endpoint)

    def hang(self, node: int) -> None:
        self._running[node].clear()

    def resume(self, node: int) -> None:
        self._running[node].set()

    def forget_news(self, node: int) -> None:
        """The node is cut off from the others: it goes on telling what is so at this moment."""
        self._views[node] = self.snapshot(node)

    def elect(self, partition: int, node: int) -> None:
        self._leaders[partition] = (node, self._leaders[partition][1] + 1)
        self._metadata_offset += 1

    def add_partition(self, partition: int, leader: int) -> None:
        self._leaders[partition] = (leader, 0)
        self._metadata_offset += 1

    def make_anew(self, leaders: Mapping[int, int]) -> None:
        """The topic is deleted, and another one made under its name."""
        self._leaders = {partition: (node, 0) for partition, node in leaders.items()}
        self._topic_id += "'"
        self._metadata_offset += 1

    async def wait_running(self, node: int) -> None:
        await self._running[node].wait()

    def snapshot(self, node: int) -> ClusterSnapshot:
        if node in self._views:
            return self._views[node]
        leaders = sorted(self._leaders.items())
        partitions = tuple(PartitionInfo(p, leader, epoch, 0, (), ()) for p, (leader, epoch) in leaders)
        brokers = tuple(BrokerInfo(n, "fake", n) for n in self._running)
        topic = TopicInfo(TOPIC, self._topic_id, partitions)
        return ClusterSnapshot(self.cluster_id, 1, brokers, (topic,), self._metadata_offset)

    def append(self, node: int, part: ProducePart) -> ProduceResult:
        leader, _ = self._leaders[part.partition]
        if leader != node:
            return ProduceResult(TOPIC, part.partition, NotLeaderOrFollowerError("led by another"), -1, -1)
        log = self.logs[part.partition]
        base_offset = len(log)
        log += [(node, record.value or b"") for record in read_records(part.records)]
        return ProduceResult(TOPIC, part.partition, None, base_offset, -1)


class FakeConnection:
    """A client's way to one node."""

    def __init__(self, nodes: FakeNodes, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._nodes = nodes

    async def metadata(self, topics: Sequence[str] | None, timeout_ms: int) -> ClusterSnapshot:
        self._nodes.asked.append(self.endpoint.port)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._nodes.wait_running(self.endpoint.port)
        except TimeoutError:
            raise RequestTimedOutError(f"{self.endpoint}: no answer within {timeout_ms} ms") from None
        return self._nodes.snapshot(self.endpoint.port)

    async def list_offsets(self, parts: Sequence[ListOffsetsPart], timeout_ms: int) -> Sequence[ListOffsetsResult]:
        """Every log ends at END_OFFSET."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._nodes.wait_running(self.endpoint.port)
        except TimeoutError:
            raise RequestTimedOutError(f"{self.endpoint}: no answer within {timeout_ms} ms") from None
        return [ListOffsetsResult(part.topic, part.partition, None, END_OFFSET, -1, 0) for part in parts]

    def open_fetch(self) -> FakeFetchStream:
        return FakeFetchStream()

    def open_produce(self) -> FakeProduceStream:
        return FakeProduceStream(self._nodes, self.endpoint.port)

    async def close(self) -> None:
        return


class FakeFetchStream:
    """Nothing is ever new."""

    async def write(self, call: FetchCall) -> None:
        return

    async def read(self) -> FetchAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    def cancel(self) -> None:
        return


class FakeProduceStream:
    """Answers in the order of the requests; what is cancelled is not read any more."""

    def __init__(self, nodes: FakeNodes, node: int) -> None:
        self._nodes = nodes
        self._node = node
        self._calls: asyncio.Queue[ProduceCall | None] = asyncio.Queue()

    async def write(self, call: ProduceCall) -> None:
        self._nodes.produced.append((self._node, tuple(part.partition for part in call.parts)))
        self._calls.put_nowait(call)

    async def read(self) -> ProduceAnswer:
        call = await self._calls.get()
        await self._nodes.wait_running(self._node)
        if call is None:
            raise NetworkError("the stream was cancelled")
        results = tuple(self._nodes.append(self._node, part) for part in call.parts)
        return ProduceAnswer(call.correlation_id, results, None)

    def cancel(self) -> None:
        self._calls.put_nowait(None)
