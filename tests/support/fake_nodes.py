"""A fake cluster with one topic on a fake network, for the client's own code in virtual time.

    nodes = FakeNodes(leaders={0: 1, 1: 1}, count=3)
    cluster = ClusterClient(nodes.bootstrap, config, fake_environment(nodes.network))

Nodes hang, resume, move leaders and lag behind. Node n is at port n. A node that hangs takes what it is sent and
answers when it goes on.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.record.builder import build_batch
from penstock.record.reader import read_records
from penstock.types import Endpoint, TopicPartition
from tests.support.fake_broker import FakeCluster, MemoryHost
from tests.support.fake_network import FakeNetwork

TOPIC = "t"


class FakeNodes:
    """Nodes 1…count; `leaders` is partition → node. Every log begins with `records` records."""

    def __init__(self, leaders: Mapping[int, int], count: int, records: int = 0) -> None:
        self.network = FakeNetwork()
        self._records = records
        self.cluster = FakeCluster(count, host=MemoryHost(self.network)).__enter__()
        self._create(leaders)

    def _create(self, leaders: Mapping[int, int]) -> None:
        self.cluster.create_topic(TOPIC, leaders=leaders)
        for partition in leaders if self._records else ():
            values = [b"%d" % n for n in range(self._records)]
            self.cluster.append(TOPIC, partition, build_batch(values, timestamps_ms=0))

    @property
    def bootstrap(self) -> tuple[Endpoint, ...]:
        return tuple(self.cluster.endpoints.values())

    @property
    def topic_id(self) -> str:
        return self.cluster.topics[TOPIC]

    @property
    def asked(self) -> list[int]:
        """The nodes that were asked for metadata, in order."""
        return [port for port, method in self.network.asked if method.endswith("/Metadata")]

    def forget_asked(self) -> None:
        self.network.asked.clear()

    @property
    def produced(self) -> list[tuple[int, tuple[int, ...]]]:
        """Node and partitions of each produce request, in order."""
        return [(node, tuple(part.partition for part in call.partitions)) for node, call in self.cluster.produced]

    def log(self, partition: int) -> list[tuple[int, bytes | None]]:
        """Node and value of each record, in order."""
        log = self.cluster.logs[TopicPartition(TOPIC, partition)]
        return [(log.writers[base], r.value) for base, _, data, _ in log.batches for r in read_records(data)]

    def hang(self, node: int) -> None:
        self.network.hang(self.cluster.endpoints[node])

    def resume(self, node: int) -> None:
        self.network.resume(self.cluster.endpoints[node])

    def forget_news(self, node: int) -> None:
        """Cuts the node off from the others: its metadata stays as it is at this moment."""
        self.cluster.freeze_metadata(node, TOPIC)

    def elect(self, partition: int, node: int) -> None:
        self.cluster.move_leader(TOPIC, partition, node)

    def add_partition(self, partition: int, leader: int) -> None:
        self.cluster.add_partition(TOPIC, partition, leader)

    def make_anew(self, leaders: Mapping[int, int]) -> None:
        """Deletes the topic and creates another one of its name."""
        self.cluster.delete_topic(TOPIC)
        self._create(leaders)
