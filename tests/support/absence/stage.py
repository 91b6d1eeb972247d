"""A cluster of three nodes of which the last one is away, with both protocols, in one simulated process.

A kind of absence is how the node goes, and how it comes back (`Kind`). Everything else is the product: three whole
nodes as in memory_cluster.py, with a listener of Kafka's protocol besides, each on a machine of its own whose links
can be cut. Not here: the acts that are tried meanwhile (audited_requests.py), and what is said of them (table.py).
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from broker.config.node_config import NodeConfig
from broker.kafka.kafka_listeners import KafkaListeners
from broker.network.listeners import BrokerService
from broker.node.both_protocols import BothProtocols
from broker.node.commands.format import format_node
from broker.node.environment import Environment
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from metadata.image import MetadataImage
from penstock import AsyncAdmin
from penstock.testing.layout import Layout
from penstock.testing.ports import fixed_ports
from penstock.types import Endpoint, TopicPartition
from tests.simulation.cluster.kafka.sockets import SimulatedBind
from tests.simulation.cluster.machine import make_parents
from tests.simulation.cluster.network import CLIENTS
from tests.support.absence.kafka_calls import KafkaCalls
from tests.support.losing_fs import LosingFileSystem
from tests.support.memory_cluster import MemoryCluster

NODES, AWAY = 3, 2
PRESENT = (0, 1)
PORT = 9192
CONFIG: Mapping[str, object] = MappingProxyType(
    {
        "auto.create.topics.enable": True,
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "min.insync.replicas": 2,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
    }
)
POLL_SECONDS = 0.05


class BothProtocolsCluster(MemoryCluster):
    """A memory cluster with a listener for Kafka's clients on each node, and a network that knows the machines."""

    def __init__(self, seed: int, config: Mapping[str, object], log_dirs: int = 1) -> None:
        super().__init__(seed, NODES, {**CONFIG, **config})
        self._layout: Layout = replace(self._layout, ports=fixed_ports(NODES, PORT))
        self._log_dirs = log_dirs
        self.network.machine_at = self._machine_at
        self.lost_log_dirs: tuple[str, ...] = ()
        """The log dirs that the node which was away has lost, by their ids."""

    def _machine_at(self, endpoint: Endpoint) -> str:
        indexes = (index for index, ports in enumerate(self._layout.ports) if endpoint.port in ports)
        return f"node-{next(indexes)}"

    def config(self, index: int) -> NodeConfig:
        config = super().config(index)
        more = tuple(f"{config.log_dirs[0]}-{number}" for number in range(1, self._log_dirs))
        lost = self.lost_log_dirs if index == AWAY else ()
        return replace(config, log_dirs=(*config.log_dirs, *more), lost_log_dirs=lost)

    def environment(self, index: int) -> Environment:
        found, memory, name = super().environment(index), self.memory, f"node-{index}"
        bind = SimulatedBind(memory.network, memory.process, name, lambda: False)

        def listeners(config: NodeConfig, service: BrokerService) -> KafkaListeners:
            return KafkaListeners(config, service, memory.time, bind)

        return replace(found, listeners=BothProtocols(memory.listeners(name), listeners))

    def node(self, index: int) -> Node:
        config, environment = self.config(index), self.environment(index)
        return Node(config, open_log_dirs(config, environment, lambda progress: None), environment)

    def kafka_endpoint(self, index: int) -> Endpoint:
        return self.config(index).listener("KAFKA")

    def links(self, index: int) -> list[tuple[str, str]]:
        """The links of a node with everybody, in both directions."""
        name = f"node-{index}"
        others = [CLIENTS, *(f"node-{other}" for other in range(NODES) if other != index)]
        return [pair for other in others for pair in ((name, other), (other, name))]

    def replace_disk(self, index: int) -> None:
        """The node gets an empty disk, and is formatted to vote again when the others have told it what it had."""
        self.lost_log_dirs = self.nodes[0].loader.image.brokers[index].log_dirs
        self.disks[index] = LosingFileSystem()
        config = self.config(index)
        make_parents(self.disks[index], config.log_dirs)
        format_node(config, self._layout.cluster_id, self.disks[index], self._ids(), rejoin=True)


Step = Callable[["Stage"], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """A kind of absence of one of three nodes."""

    name: str
    goes: Step
    comes: Step
    each: Step | None = None
    """Done before each act."""
    log_dirs: int = 1
    serves: bool = False
    """The node is in service, but for what it has lost."""


@dataclass
class Stage:
    """The cluster, its clients, and what the acts have made so far."""

    cluster: BothProtocolsCluster
    admin: AsyncAdmin
    kafka: KafkaCalls
    kind: Kind
    made: set[str] = field(default_factory=set)
    """Topics whose replicas must all be in sync when the node is back."""

    @property
    def image(self) -> MetadataImage:
        """The metadata, as a node that is present has it."""
        return self.cluster.nodes[PRESENT[0]].loader.image

    async def pause(self) -> None:
        await asyncio.sleep(POLL_SECONDS)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.pause()

    @property
    def factor(self) -> int:
        """As many replicas as brokers are registered."""
        return len(self.image.brokers)

    def log_dir_of(self, node: int, partition: TopicPartition) -> str | None:
        """Where the replica on the node is."""
        topic_id = self.image.topics_by_name[partition.topic].topic_id
        log = self.cluster.nodes[node].log_manager.get(partition, topic_id)
        return None if log is None else log.log_dir

    async def until_in_sync(self) -> None:
        """Until every replica of every partition is in sync."""

        def is_whole() -> bool:
            partitions = (p for topic in self.image.topics_by_id.values() for p in topic.partitions.values())
            return all(set(partition.isr) == set(partition.replicas) for partition in partitions)

        await self.until(is_whole)

    async def until_fenced(self) -> None:
        def is_fenced() -> bool:
            images = [self.cluster.nodes[index].loader.image for index in PRESENT]
            return all(AWAY not in image.brokers or image.brokers[AWAY].fenced for image in images)

        await self.until(is_fenced)

    async def cut_off(self) -> None:
        for pair in self.cluster.links(AWAY):
            self.cluster.network.cut(*pair)

    async def mend(self) -> None:
        for pair in self.cluster.links(AWAY):
            self.cluster.network.mend(*pair)

    async def start(self) -> None:
        """Starts the node on what its disk holds."""
        node = self.cluster.nodes[AWAY] = self.cluster.node(AWAY)
        await node.start()
        await node.wait_ready()


async def _cut_off(stage: Stage) -> None:
    await stage.cut_off()


async def _cut_off_and_fenced(stage: Stage) -> None:
    await stage.cut_off()
    await stage.until_fenced()


async def _silent_anew(stage: Stage) -> None:
    """Back, in service and in sync; and then it falls silent."""
    await stage.mend()
    await stage.until(lambda: stage.image.is_active(AWAY))
    await stage.until_in_sync()
    await stage.cut_off()


async def _stopped(stage: Stage) -> None:
    await stage.cluster.nodes[AWAY].stop()


async def _unregistered(stage: Stage) -> None:
    await stage.cluster.nodes[AWAY].stop()
    await stage.admin.unregister_broker(AWAY)


async def _killed_for_good(stage: Stage) -> None:
    """No one hears of it again; its process is ended where nobody sees it."""
    await stage.cut_off()
    await stage.until_fenced()
    await stage.cluster.nodes[AWAY].stop()


async def _with_another_disk(stage: Stage) -> None:
    stage.cluster.replace_disk(AWAY)
    await stage.mend()
    await stage.start()


async def _log_dir_failed(stage: Stage) -> None:
    """The one that the metadata log is not in."""
    config, broker = stage.cluster.config(AWAY), stage.cluster.nodes[AWAY].broker
    (failing,) = (path for path in config.log_dirs if path != config.metadata_log_dir)
    assert broker is not None
    broker.replication.replicas.failures.directory_failed(failing, OSError(errno.EIO, os.strerror(errno.EIO), failing))
    await stage.until(lambda: bool(stage.image.brokers[AWAY].offline_log_dirs))


async def _restarted(stage: Stage) -> None:
    await stage.cluster.nodes[AWAY].stop()
    await stage.start()


async def _mended(stage: Stage) -> None:
    await stage.mend()


async def _started(stage: Stage) -> None:
    await stage.start()


SILENT = Kind("falls silent at that moment", _cut_off, _mended, each=_silent_anew)
FENCED = Kind("silent and fenced", _cut_off_and_fenced, _mended)
STOPPED = Kind("stopped in order", _stopped, _started, log_dirs=2)
GONE = Kind("dead, its disks gone", _killed_for_good, _with_another_disk, log_dirs=2)
DIR_FAILED = Kind("in service, a log dir failed", _log_dir_failed, _restarted, log_dirs=2, serves=True)
UNREGISTERED = Kind("stopped and unregistered", _unregistered, _started)
KINDS = (SILENT, FENCED, STOPPED, GONE, DIR_FAILED, UNREGISTERED)
