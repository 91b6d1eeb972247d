"""Fetch streams without a network: what each write and read does is a script; the cluster is a cache and counters.

A `ScriptedCluster` stands where the fetcher expects a `Cluster`. Every request that reaches a node is answered by
`answer(call)`, until `faults` says otherwise: at the n-th read or write of all streams together an error is raised, or
nothing ever comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from random import Random
from types import SimpleNamespace

from penstock.backoff import Backoff
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.consumer.raw.raw_fetch import RawFetch, RawRange
from penstock.client.options.config import consumer_config
from penstock.errors import LeaderNotAvailableError
from penstock.messages.fetch import FetchRequest, FetchResponse, PartitionFetchResult
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.record.builder import build_batch
from penstock.types import Endpoint, TopicPartition
from tests.support.client_environment import stepped_threads

TP = TopicPartition("t", 0)
HANGS = "hangs"
BATCH_RECORDS = 10


def batch_at(offset: int, count: int = BATCH_RECORDS) -> bytes:
    """Records whose values are their offsets."""
    values = [b"%d" % n for n in range(offset, offset + count)]
    return build_batch(values, timestamps_ms=0, base_offset=offset, leader_epoch=0)


def whole_log(call: FetchRequest) -> FetchResponse:
    """Answers with one batch of an endless log."""
    offset = call.partitions[0].fetch_offset
    return answer_of(call, batch_at(offset - offset % BATCH_RECORDS), offset)


def answer_of(call: FetchRequest, records: bytes, fetch_offset: int) -> FetchResponse:
    topic_id = call.partitions[0].topic_id
    result = PartitionFetchResult(TP, topic_id, fetch_offset, None, 1 << 40, 0, records)
    return FetchResponse([result])


class LoopClock:
    """The running loop's time, which is virtual in tests."""

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)


class ScriptedStream:
    """One stream to one node."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._asked: asyncio.Queue[FetchRequest] = asyncio.Queue()
        self._cancelled = asyncio.Event()

    async def write(self, call: FetchRequest) -> None:
        await self._cluster.happen("write", self._node_id)
        self._cluster.calls.append((self._node_id, call))
        self._asked.put_nowait(call)

    async def read(self) -> FetchResponse:
        call = await self._asked.get()
        await self._cluster.happen("read", self._node_id)
        return self._cluster.answer(call)

    def cancel(self) -> None:
        self._cluster.cancelled.append(self._node_id)


class ScriptedCluster:
    """`faults` maps ("write" or "read", n) to an error or HANGS; a node in `hung` answers nothing at all."""

    def __init__(
        self,
        answer: Callable[[FetchRequest], FetchResponse] = whole_log,
        faults: dict[tuple[str, int], object] | None = None,
    ) -> None:
        self.answer = answer
        self.faults = faults or {}
        self.hung: set[int] = set()
        self.calls: list[tuple[int, FetchRequest]] = []
        self.cancelled: list[int] = []
        self.refreshes = 0
        self.avoid: set[Endpoint] = set()  # whom not to ask
        self.on_refresh: Callable[[], None] = lambda: None
        self.clock, self.backoff, self.cache = LoopClock(), Backoff(1, 1, Random(0)), MetadataCache()
        self.config = SimpleNamespace(request_timeout_ms=5_000)
        self._counts = {"write": 0, "read": 0}
        self._listeners: list[Callable[[], None]] = []
        self._connections: dict[int, object] = {}
        self.learn()

    def learn(
        self, leader: int = 1, epoch: int = 0, topic_id: str = "id-1", error: LeaderNotAvailableError | None = None
    ) -> None:
        """Changes the metadata, and tells the subscribers."""
        topic = TopicInfo("t", topic_id, (PartitionInfo(0, leader, epoch, 0, (1, 2), (1, 2), error),))
        brokers = tuple(BrokerInfo(node, f"host-{node}", 1) for node in (1, 2))
        self.cache.update(MetadataResponse("c", 1, brokers, (topic,), 0), 0)
        self.notify()

    async def happen(self, what: str, node_id: int) -> None:
        if node_id in self.hung:
            await asyncio.Event().wait()
        self._counts[what] += 1
        fault = self.faults.get((what, self._counts[what]))
        if fault is HANGS:
            await asyncio.Event().wait()
        if isinstance(fault, Exception):
            raise fault

    # -- cluster -------------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        self._listeners = [known for known in self._listeners if known != listener]

    def notify(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    async def meet_topics(self, names: object, deadline_ms: int) -> None:
        """Its only topic is known."""

    def track(self, topics: object) -> None:
        pass

    async def topic(self, name: str, timeout_ms: int) -> TopicInfo | None:
        return self.cache.topic(name)

    async def meet_topic(self, name: str, topic_id: str) -> None:
        """Does nothing: a test changes the metadata by `learn`."""

    def connection(self, node_id: int) -> object:
        def open_fetch() -> ScriptedStream:
            return ScriptedStream(self, node_id)

        made = SimpleNamespace(open_fetch=open_fetch, endpoint=Endpoint(f"host-{node_id}", 1))
        return self._connections.setdefault(node_id, made)

    def require_connection(self, node_id: int) -> object:
        return self.connection(node_id)

    def refresh_soon(self, avoid: Collection[Endpoint] = ()) -> None:
        self.refreshes += 1
        self.avoid.update(avoid)
        self.on_refresh()


def raw_fetch(cluster: ScriptedCluster, to_offset: int, topic_id: str = "", **options: int) -> RawFetch:
    """A read of [0, to_offset) whose requests do not wait at the broker."""
    config = consumer_config({"fetch_max_wait_ms": 1, **options})
    return RawFetch(cluster, config, RawRange(TP, 0, to_offset, topic_id), {}, stepped_threads())  # type: ignore[arg-type]
