"""One machine of a simulated cluster: disks and a clock that outlive its processes, and the node that runs on it.

A process ends in order, by `kill -9` (its unsynced writes stay in the page cache), or with its machine's power (they
may be lost). Not here: when that happens (faults.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from broker.config.node_config import NodeConfig
from broker.kafka.connection.frame_connection import FrameConnection
from broker.kafka.kafka_listeners import KafkaListeners
from broker.network.listeners import BrokerService
from broker.node.both_protocols import BothProtocols
from broker.node.commands.format import format_node
from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions
from broker.node.environment import UNHEARD, Environment, Probe
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from metadata.features import TABLE, FeatureTable
from metadata.records import UserScramCredentialRecord
from penstock.errors import PenstockError
from penstock.ids import RandomIds
from tests.simulation.cluster.disk import DiskFaults, ProcessDisk
from tests.simulation.cluster.fibers import FiberThreads
from tests.simulation.cluster.kafka.sockets import SimulatedBind
from tests.simulation.cluster.loop import MachineTime, ProcessLoop
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.rpc import SimulatedListeners, SimulatedPeers
from tests.simulation.cluster.scheduler import Process
from tests.support.losing_fs import LosingFileSystem

RESTART_SECONDS = 1.0
"""After which a service manager starts a process again that ended with an error."""
DESCRIPTORS_MAX = 4096
NEW_BROKER = "it is new. Start it without --lost-log-dirs"
"""In the refusal of a broker that gives up what it never had."""
Failed = Callable[[str, str, BaseException | None], None]
"""(Who, what, the error) of an error that nobody has caught."""


@dataclass
class Machine:
    """One that has a node, by its configuration."""

    name: str
    config: NodeConfig
    network: Network
    failed: Failed
    time: MachineTime
    disk: LosingFileSystem = field(default_factory=LosingFileSystem)
    faults: DiskFaults = field(default_factory=DiskFaults)
    listen: Callable[[Machine], Probe] = lambda machine: UNHEARD
    """Makes the probe of each process."""
    lost_power: Callable[[Machine, LosingFileSystem], object] = lambda machine, left: None
    """Called at a power cut with the disk as the cut leaves it, BEFORE the machine gets that disk."""
    process: Process | None = None
    node: Node | None = None
    asked_to_stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to stop the process that runs."""
    features: FeatureTable = TABLE
    """The feature levels that the release of the next process knows."""
    has_power: bool = True
    is_held: bool = False
    """Its operator works on its disks: nobody starts it."""
    kafka: KafkaListeners | None = None
    kafka_connections: Callable[[], list[FrameConnection]] = list
    """Kafka's protocol of the newest process that has one."""
    lives: int = 0
    dead: list[Process] = field(default_factory=list)
    """Processes that were killed, kept where they stood."""
    refusals: list[BaseException] = field(default_factory=list)
    """Starts that the node itself has refused, and fatal errors that ended it in order."""

    def __post_init__(self) -> None:
        self.disk.wall_ms = self.time.wall_ms

    def new_random(self) -> random.Random:
        return random.Random(self.network.scheduler.draw.getrandbits(64))

    # -- a process -----------------------------------------------------------------------------------------------------

    def new_process(self) -> Process:
        self.lives += 1
        name = f"{self.name}#{self.lives}"
        process = self.network.scheduler.process(name)
        ProcessLoop(process, self.time, lambda what, error: self.failed(name, what, error))
        return process

    def environment(self, process: Process) -> Environment:
        return Environment(
            clock=self.time,
            random=self.new_random(),
            ids=RandomIds(self.new_random()),
            file_system=ProcessDisk(self.disk, process, self.faults, lambda: self._runs(process)),
            threads=FiberThreads(process),
            transport=lambda *given: SimulatedPeers(self.network, process, self.name, *given),
            listeners=self._listeners(process),
            descriptors_max=DESCRIPTORS_MAX,
            processors=2,
            thread_times=lambda: {},
            idle_processors=lambda: {},
            probe=self.listen(self),
        )

    def _listeners(self, process: Process) -> BothProtocols:
        bind = SimulatedBind(self.network, process, self.name, lambda: self._runs(process))

        self.kafka_connections = lambda: [end.protocol for end in bind.ends if end.protocol is not None]

        def listeners(config: NodeConfig, service: BrokerService) -> KafkaListeners:
            self.kafka = KafkaListeners(config, service, self.time, bind)
            return self.kafka

        return BothProtocols(SimulatedListeners(self.network, process, self.name, self.time), listeners)

    def _runs(self, process: Process) -> bool:
        return self.process is process and self.node is not None and not self.asked_to_stop.is_set()

    def format(
        self,
        cluster_id: str,
        users: Sequence[UserScramCredentialRecord] = (),
        quorum: QuorumOptions = NO_OPTIONS,
        levels: Mapping[str, int] | None = None,
    ) -> None:
        """Before the first start; takes no time."""
        make_parents(self.disk, self.config.log_dirs)
        format_node(self.config, cluster_id, self.disk, self.ids(), users=users, quorum=quorum, levels=levels)

    def ids(self) -> RandomIds:
        return RandomIds(self.new_random())

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def is_in_service(self) -> bool:
        """Up, and let in by the controller where it is a broker."""
        node = self.node
        return node is not None and (node.broker is None or node.broker.lifecycle.unfenced.is_set())

    def start(self) -> None:
        """Begins the node; nothing where it is up, has no power, or is held."""
        if self.is_up or self.is_held or not self.has_power:
            return
        process = self.process = self.new_process()
        self.asked_to_stop = asyncio.Event()
        assert process.loop is not None
        process.loop.create_task(self._live(process))

    async def _live(self, process: Process) -> None:
        """A life that an unexpected error ends is told at once: nobody else asks for it."""
        try:
            await self._run(process)
        except Exception as error:
            self.failed(process.name, "the node has ended", error)

    async def _run(self, process: Process) -> None:
        """The life of the process: as `broker.node.server.run_node`, without signals and systemd."""
        environment = self.environment(process)
        try:
            log_manager = open_log_dirs(self.config, environment, lambda progress: None)
            node = Node(self.config, log_manager, environment, features=self.features)
        except (PenstockError, OSError) as error:
            self._over(process, error)
            return
        self.node = node
        node.fatal.add_done_callback(lambda _: self.asked_to_stop.set())
        error: BaseException | None = None
        try:
            await node.start()
            await self.asked_to_stop.wait()
        except PenstockError as refused:
            error = refused
        self.node = None
        await node.stop()
        self._over(process, node.fatal.result() if node.fatal.done() else error)

    def _over(self, process: Process, error: BaseException | None) -> None:
        if error is not None:
            self.refusals.append(error)
            if NEW_BROKER in str(error):  # it was forgotten: its operator does what the error says
                self.config = replace(self.config, lost_log_dirs=())
        if self.process is process:
            self._end(process)
            if error is not None:
                scheduler = self.network.scheduler
                scheduler.at(scheduler.now_s + RESTART_SECONDS, self.network.manager, self.start)

    def _end(self, process: Process) -> None:
        process.kill()
        self.dead.append(process)
        self.process = self.node = None
        self.network.process_ended(process)
        self.disk = self.disk.after_kill()

    # -- ends ----------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """SIGTERM: ends in order, which takes a while."""
        if self.process is not None and self.node is not None:
            process = self.process
            self.network.scheduler.at(self.network.scheduler.now_s, process, self.asked_to_stop.set)

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self._end(self.process)

    def cut_power(self) -> None:
        """Kills the process; bytes that were not synced may be lost."""
        ended = [self.process] if self.process is not None else []
        for process in ended:
            process.kill()
            self.dead.append(process)
        self.process, self.node, self.has_power = None, None, False
        self.network.power_cut(self.name, ended)
        left = self.disk.after_crash(self.new_random())
        self.lost_power(self, left)
        self.disk = left

    def power_back(self) -> None:
        self.has_power = True
        self.network.power_back(self.name)

    @property
    def has_offline_logs(self) -> bool:
        """Some cannot be read, and are looked at again when the node is started."""
        node = self.node
        return node is not None and (bool(node.failed_log_dirs) or len(node.log_manager.table.offline) > 0)

    def mend_disks(self) -> None:
        """No fault lasts; a node that met a log dir, or a log, that could not be read has to be started again."""
        had_failed = bool(self.faults.failing) or self.has_offline_logs
        self.faults.failing.clear()
        self.faults.full.clear()
        self.faults.slow_seconds.clear()
        self.end_hangs()
        self.faults.fail_next.clear()
        self.faults.strike = None
        self.faults.cold_share = 0.0
        if had_failed:
            self.kill()

    def end_hangs(self) -> None:
        """Every disk answers again."""
        for hang in self.faults.hung.values():
            hang.is_over = True
        self.faults.hung.clear()

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process is not None:
            self.process.pause()

    def go_on(self) -> None:
        if self.process is not None:
            self.process.go_on()

    def __repr__(self) -> str:
        return f"Machine({self.name}, {'up' if self.is_up else 'down'})"


def make_parents(disk: LosingFileSystem, paths: tuple[str, ...]) -> None:
    """The directories in which log dirs are, durably."""
    for path in paths:
        for parent in reversed(PurePosixPath(path).parents):
            if not disk.exists(str(parent)):
                disk.mkdir(str(parent))
                disk.fsync_dir(str(parent.parent))
