"""Whole nodes and their clients in one simulated process: no socket, no thread, no file, and one seed for everything.

    async def story(cluster: MemoryCluster) -> ...:
        await cluster.start()
        ...
    run_in_memory(seed, story, nodes=3)

They are the `Node`s that a process runs, on the time, the threads and the network of the cluster simulator
(`tests/simulation/cluster/`), so what passes between them and their clients is what gRPC would carry. All share one
event loop with the story, which may look into them. Not here: faults of machines, and invariants; those are the
simulator's.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.network.transport import MakeTransport
from broker.node.commands.format import format_node
from broker.node.commands.initial_controllers import QuorumOptions
from broker.node.environment import Environment
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from metadata.features import TABLE, FeatureTable
from metadata.listeners import CONTROLLER_LISTENER
from metadata.records import UserScramCredentialRecord
from penstock.client.environment import ClientEnvironment
from penstock.ids import RandomIds
from penstock.messages.apis import APIS
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import Layout
from penstock.testing.ports import fixed_ports
from penstock.types import CLIENT_LISTENER, Endpoint, ListenerEndpoint
from penstock.wire.message_codec import request_codec, response_codec
from raft.voters import Voter
from storage.log_dirs.meta_properties import read_meta_properties
from tests.simulation.cluster.fibers import FiberThreads
from tests.simulation.cluster.loop import MachineTime, ProcessLoop
from tests.simulation.cluster.machine import make_parents
from tests.simulation.cluster.network import CLIENTS, Network, Weather
from tests.simulation.cluster.rpc import SimulatedListeners, SimulatedPeers, SimulatedTransport
from tests.simulation.cluster.scheduler import Process, Scheduler
from tests.support.client_environment import no_background
from tests.support.losing_fs import LosingFileSystem

T = TypeVar("T")
CALM = Weather(late_per_mille=0)
ASK_TIMEOUT_MS = 30_000


class MemoryProcess:
    """One simulated process, and the network that it has to itself."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(random.Random(seed))
        self.process: Process = self.scheduler.process("memory")
        self.time = MachineTime(self.scheduler)
        self.errors: list[BaseException | str] = []
        self.loop = ProcessLoop(self.process, self.time, lambda what, error: self.errors.append(error or what))
        self.threads = FiberThreads(self.process)
        self.network = Network(self.scheduler, lambda endpoint: f"{endpoint.host}:{endpoint.port}")
        self.network.weather = CALM

    def listeners(self, machine: str) -> SimulatedListeners:
        return SimulatedListeners(self.network, self.process, machine, self.time)

    def transport(self, machine: str) -> MakeTransport:
        return lambda *given: SimulatedPeers(self.network, self.process, machine, *given)

    def clients(self, known: Collection[Endpoint]) -> SimulatedTransport:
        """Makes the way of clients that know these addresses, and reach no other."""
        return SimulatedTransport(self.network, self.process, CLIENTS, known)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it to its end, then ends every other task."""
        with _collected_later():
            try:
                return self._result(work)
            finally:
                self._result(end_tasks())
                self.process.kill()

    def _result(self, work: Coroutine[Any, Any, T]) -> T:
        over: list[asyncio.Task[T]] = []
        self.loop.create_task(work).add_done_callback(over.append)
        self.scheduler.run(over)
        return over[0].result()


JOINS: Final = QuorumOptions(join=True)


class MemoryCluster:
    """Nodes 0…n-1, each with a disk that outlives them."""

    def __init__(self, seed: int, nodes: int, config: Mapping[str, object]) -> None:
        self.random = random.Random(seed)
        self.memory = MemoryProcess(self.random.getrandbits(64))
        self.network, self.clock = self.memory.network, self.memory.time
        ports = tuple(node._replace(kafka=0) for node in fixed_ports(nodes, 9192))
        self._layout = Layout(Path("/memory"), self._ids().new_id(), ports)
        self._config = {**TEST_CONFIG, "default.replication.factor": nodes, **config}
        self.disks = [LosingFileSystem() for _ in range(nodes)]
        self.given_up_dirs: dict[int, tuple[str, ...]] = {}
        """By node: the directory ids of disks that are gone for good."""
        self.is_dynamic = False
        """The nodes name no voters: they find the quorum by bootstrap servers, which are all of them."""
        self.begins_together = False
        """The nodes are started by `--first-start together`."""
        self.outside: frozenset[int] = frozenset()
        """The nodes that have a listener OUTSIDE besides, which they advertise under another address than they have."""
        self.clocks: dict[int, MachineTime] = {}
        """The clocks of nodes that have their own."""
        self.features: dict[int, FeatureTable] = {}
        """The feature levels that nodes of another release know."""
        self.nodes: list[Node] = []

    def _random(self) -> random.Random:
        return random.Random(self.random.getrandbits(64))

    def _ids(self) -> RandomIds:
        return RandomIds(self._random())

    def config(self, index: int) -> NodeConfig:
        values = {**self._config, **self._layout.node_config(index)}
        if self.is_dynamic:
            controllers = cast(list[str], values.pop("controller.quorum.voters"))
            values["controller.quorum.bootstrap.servers"] = [at.partition("@")[2] for at in controllers]
        if index in self.outside:
            values["listeners"] = [*cast(list[str], values["listeners"]), f"OUTSIDE://127.0.0.1:{9_700 + index}"]
            values["advertised.listeners"] = [f"OUTSIDE://node-{index}.outside:9093"]
        given_up = self.given_up_dirs.get(index, ())
        return replace(parse_config(values), lost_log_dirs=given_up, begins_together=self.begins_together)

    def environment(self, index: int) -> Environment:
        """Makes the environment of a process of this node that starts now."""
        memory, name = self.memory, f"node-{index}"
        return Environment(
            clock=self.clocks.get(index, memory.time),
            random=self._random(),
            ids=self._ids(),
            file_system=self.disks[index],
            threads=memory.threads,
            transport=memory.transport(name),
            listeners=memory.listeners(name),
            descriptors_max=4096,
            processors=2,
            thread_times=lambda: {},
            idle_processors=lambda: {},
        )

    def format(self, users: Sequence[UserScramCredentialRecord] = (), levels: Mapping[str, int] | None = None) -> None:
        """Formats every disk for its node, with the users and the feature levels that the cluster begins with."""
        for index, disk in enumerate(self.disks):
            config = self.config(index)
            make_parents(disk, config.log_dirs)
            format_node(config, self._layout.cluster_id, disk, self._ids(), users=users, levels=levels)

    def voter(self, index: int) -> Voter:
        """The node as a voter on the disk that it has now."""
        config, disk = self.config(index), self.disks[index]
        properties = read_meta_properties(disk, config.metadata_log_dir)
        assert properties is not None, "the disk is formatted"
        at = ListenerEndpoint(CONTROLLER_LISTENER, config.listener(CONTROLLER_LISTENER))
        return Voter(index, properties.directory_id, (at,))

    def format_dynamic(self, *first: int) -> None:
        """Formats every disk for a quorum whose voters change, and begins with these; the others join."""
        self.is_dynamic = True
        controllers = {index: self.config(index).listener(CONTROLLER_LISTENER) for index in first}
        ids = self._ids()
        listed = ",".join(f"{index}@{at}:{ids.new_id()}" for index, at in controllers.items())
        for index, disk in enumerate(self.disks):
            begins = QuorumOptions(initial_controllers=listed)
            self._format(index, disk, begins if index in first else JOINS)

    def replace_disk(self, index: int, quorum: QuorumOptions = JOINS) -> None:
        """Puts an empty disk into the machine, formatted to join the quorum. Its operator gives up the old one and all
        before it, because the broker may be registered with any of them."""
        self.given_up_dirs[index] = (*self.given_up_dirs.get(index, ()), self.voter(index).directory_id or "")
        self.disks[index] = LosingFileSystem()
        self._format(index, self.disks[index], quorum)

    def _format(self, index: int, disk: LosingFileSystem, quorum: QuorumOptions) -> None:
        config = self.config(index)
        make_parents(disk, config.log_dirs)
        format_node(config, self._layout.cluster_id, disk, self._ids(), quorum=quorum)

    def node(self, index: int) -> Node:
        """Makes a node on what its disk holds."""
        config, environment = self.config(index), self.environment(index)
        features = self.features.get(index, TABLE)
        return Node(config, open_log_dirs(config, environment, lambda progress: None), environment, features=features)

    async def start(self, count: int | None = None) -> None:
        """Starts so many more nodes, or all, on what their disks hold, and waits until they are in service. Raises what
        ends one of them before: nobody waits for a node that the cluster refuses."""
        first = len(self.nodes)
        for index in range(first, len(self.disks) if count is None else first + count):
            self.nodes.append(self.node(index))
        await asyncio.gather(*(node.start() for node in self.nodes[first:]))
        await asyncio.gather(*(in_service(node) for node in self.nodes[first:]))
        for index in self.outside:  # a client outside comes in by the address that is advertised
            config = self.config(index)
            listener = self.network.listeners[config.listener("OUTSIDE")]
            self.network.listeners[config.advertised_listeners["OUTSIDE"]] = listener

    async def stop(self, count: int | None = None) -> None:
        """Stops so many nodes in order, the last ones, or all."""
        first = 0 if count is None else len(self.nodes) - count
        await asyncio.gather(*(node.stop() for node in self.nodes[first:]))
        del self.nodes[first:]

    async def cut_power(self) -> None:
        """Ends all nodes at once; of the writes that were not synced, each disk keeps those that the seed draws."""
        self.disks = [disk.after_crash(self._random()) for disk in self.disks]
        await end_tasks()
        self.nodes.clear()
        self.network.listeners.clear()

    # -- clients -------------------------------------------------------------------------------------------------------

    def endpoint(self, index: int) -> Endpoint:
        """The address at which clients reach a node."""
        return self.config(index).listener("BROKER")

    def bootstrap(self, count: int | None = None) -> str:
        return ",".join(str(self.endpoint(index)) for index in range(len(self.disks) if count is None else count))

    def clients(self, listener: str = CLIENT_LISTENER) -> ClientEnvironment:
        """Makes the environment of clients that can reach this listener of each node that has it, and no other."""
        configs = [self.config(index) for index in range(len(self.disks))]
        known = [of.advertised_listeners[listener] for of in configs if listener in of.listeners]
        memory = self.memory
        return ClientEnvironment(memory.time, memory.clients(known), self._random(), memory.threads, no_background)

    async def ask(self, endpoint: Endpoint, api: str, body: object) -> Any:
        """A client's call at a listener: returns the answer, or raises its typed error."""
        row, channel = APIS[api], self.memory.clients([endpoint]).connect(endpoint)
        try:
            raw = await channel.call(row.method, request_codec(row).encode(body), ASK_TIMEOUT_MS)
            return response_codec(row).decode(raw)
        finally:
            await channel.close()


async def in_service(node: Node) -> None:
    """Waits until the node is in service. Raises its refusal, or the error by which it ends."""
    ready = asyncio.ensure_future(node.wait_ready())
    await asyncio.wait({ready, node.fatal}, return_when=asyncio.FIRST_COMPLETED)
    if not ready.done():
        ready.cancel()
        raise node.failures.refusal or node.fatal.result()
    await ready


async def end_tasks() -> None:
    """Cancels every other task, and the tasks that these begin while they end."""
    while others := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def _collected_later() -> Iterator[None]:
    """Garbage that is collected meanwhile would run code of the process, at a time that no seed decides."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run_in_memory(
    seed: int,
    story: Callable[[MemoryCluster], Awaitable[T]],
    nodes: int = 3,
    config: Mapping[str, object] = MappingProxyType({}),
) -> T:
    """Runs a story in a cluster of its own, to its end; `config` has dotted names."""
    cluster = MemoryCluster(seed, nodes, config)

    async def main() -> T:
        return await story(cluster)

    return cluster.memory.run(main())
