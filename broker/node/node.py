"""One node: the quorum's part of it, the controller if it has that role, and the broker if it has that one.

Start: log dirs (locked, recovered) → metadata log and raft → controller door → broker parts → registered → unfenced.
Stop is the reverse. A fatal error of any part (a disk under the metadata log, an invariant) stops the node at once,
without the clean-shutdown marker: the next start must check the files.
"""

from __future__ import annotations

import asyncio
import logging
import random
from functools import partial

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.dynamic_keys import BROKER_CONFIGS
from broker.config.node_config import NodeConfig
from broker.jobs.log_dir_watch import LogDirWatch
from broker.load.busy_time import BusyTimes
from broker.load.load_sampler import LoadSampler
from broker.load.node_load import NodeLoad
from broker.metrics.metrics import Metrics
from broker.metrics.node_readings import node_readings
from broker.network.doors import ControllerService, Listener
from broker.node.broker_parts import BrokerParts, NodeParts
from broker.node.descriptors import plan_descriptors
from broker.node.environment import Environment
from broker.quorum.cluster_guard import ClusterGuard
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.describe_metadata import OwnMetadata
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import (
    METADATA_BATCH_BYTES_MAX,
    METADATA_PARTITION,
    MetadataLog,
    QuorumStateFile,
    nothing_to_note,
)
from broker.quorum.metadata_log_opening import open_metadata_log
from broker.quorum.metadata_log_start import find_beginning
from broker.quorum.metadata_publisher import topic_defaults
from broker.quorum.metadata_snapshotter import MetadataSnapshotter, SnapshotLimits
from broker.quorum.voter_memory import VoterMemory
from metadata.controller.config import ControllerConfig
from metadata.controller.controller import Controller
from metadata.image import MetadataImage
from penstock.errors import InvariantViolation, MetaPropertiesError, NotControllerError
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo, QuorumReplicaInfo
from penstock.types import Endpoint, LeaderHint
from raft.config import RaftConfig
from raft.driver.driver import FAREWELL_MS, RaftDriver
from raft.driver.protocols import LoadedSnapshot
from raft.statistics import ReplicaDescription
from storage.disk.file_names import partition_directory
from storage.disk.stop_wait import STOP_WAIT_MS, StopWait
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.meta_properties import METADATA_SNAPSHOTS, raise_version

_log = logging.getLogger(__name__)


class Node:
    """See the module. Made on the event loop, after the log dirs were opened."""

    def __init__(
        self,
        config: NodeConfig,
        log_manager: LogManager,
        environment: Environment,
        stop_wait_ms: int = STOP_WAIT_MS,
        dynamic: DynamicBrokerConfig | None = None,
    ) -> None:
        """`dynamic` is given by who changes or hears of the configuration before there is a node."""
        self.config = config
        self._environment = environment
        clock, threads = environment.clock, environment.threads
        self.stop_wait = StopWait(clock, threads, stop_wait_ms)
        self.cluster_id = next(iter(log_manager.meta_properties.values())).cluster_id
        self.log_manager = log_manager
        self.dynamic = dynamic or DynamicBrokerConfig(config)
        self.loader = MetadataLoader()
        self.loader.subscribe(self.dynamic.published)  # BEFORE the parts that act on the images
        self.fatal: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.failed_log_dirs: dict[str, Exception] = {}
        self._clock = clock
        self.load = NodeLoad(threads.own_native_id())
        self._busy = BusyTimes(clock.now_ns)
        self.metrics = Metrics(lambda: tuple(node_readings(self)))
        self._sampler = LoadSampler(
            self.load,
            self._busy,
            self.metrics.loop_lag,
            clock,
            threads,
            environment.thread_times,
            environment.idle_processors,
        )
        self._log_dir_watch = LogDirWatch(
            log_manager.calls, config.log_dir_hang_ms_max, clock, self._log_dir_hangs, self._on_fatal
        )
        self._executor = threads.executor("raft-disk", 2)
        self._peers = environment.transport(config.voters, self._broker_endpoint, config.socket_request_max_bytes)
        self.incarnation_id = environment.ids.new_id() if config.is_broker else ""
        """New for each process: its broker registers by it first, and it fetches the metadata by it."""
        self.raft, self.snapshotter = self._make_raft()
        self.controller: ControllerDriver | None = self._make_controller() if config.is_controller else None
        self._channel = ControllerChannel(
            config.node_id,
            self,
            clock,
            self._peers.call_controller,
            self._asked_of_controller,
            environment.random,
        )
        self.raft.subscribe(self)
        self._controller_server = self._make_controller_server(self.controller) if self.controller else None
        self.broker = self._make_broker() if config.is_broker else None

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _make_raft(self) -> tuple[RaftDriver, MetadataSnapshotter]:
        config = self.config
        fs, voters = self.log_manager.file_system, config.voters
        metadata_log, snapshots = open_metadata_log(
            self.log_manager, fs, config.metadata_log_dir, is_voter=config.is_controller, voters=len(voters)
        )
        on_flushed = nothing_to_note
        if config.is_controller:
            memory = VoterMemory(config.metadata_log_dir, fs)
            quorum_state = QuorumStateFile(metadata_log.directory, fs, memory.note_voted)
            memory.recall(quorum_state, metadata_log, voters, gave_up_dirs=bool(config.lost_log_dirs))
            on_flushed = memory.note_records
        else:
            quorum_state = QuorumStateFile(metadata_log.directory, fs)
        before_cut = partial(raise_version, fs, config.metadata_log_dir, METADATA_SNAPSHOTS)
        beginning = find_beginning(metadata_log, snapshots, before_cut)
        raft_log = MetadataLog(metadata_log, self._clock, on_flushed, snapshots, beginning, before_cut)
        surroundings = self._clock, self._environment.random, self._executor, self._on_fatal, self._busy.raft.timed
        raft = RaftDriver(
            RaftConfig(
                cluster_id=self.cluster_id,
                node_id=config.node_id,
                voters=tuple(sorted(config.voters)),
                incarnation_id=self.incarnation_id,
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
                batch_max_bytes=METADATA_BATCH_BYTES_MAX,
                uncommitted_max_bytes=2 * METADATA_BATCH_BYTES_MAX,
            ),
            raft_log,
            quorum_state,
            ClusterGuard(self._peers, config.node_id, self.cluster_id, config.voters, self._on_fatal),
            *surroundings,
        )
        limits = SnapshotLimits(
            config.metadata_log_max_record_bytes_between_snapshots,
            config.metadata_log_max_snapshot_interval_ms,
            config.metadata_max_retention_bytes,
            config.metadata_max_retention_ms,
        )
        parts = (raft_log, snapshots, self.loader, raft, self._clock, self._executor, self._on_fatal)
        return raft, MetadataSnapshotter(limits, *parts)

    def _make_controller(self) -> ControllerDriver:
        config = self.config
        controller_config = ControllerConfig(
            cluster_id=self.cluster_id,
            session_timeout_ms=config.broker_session_timeout_ms,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            leader_rebalance_enable=config.auto_leader_rebalance_enable,
            leader_imbalance_percentage=config.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_ms=1_000 * config.leader_imbalance_check_interval_seconds,
            replica_balance_enable=config.auto_replica_balance_enable,
            replica_balance_check_interval_ms=1_000 * config.auto_replica_balance_check_interval_seconds,
            topic_defaults=topic_defaults(config),
            broker_configs=BROKER_CONFIGS,
        )

        def make(image: MetadataImage, rng: random.Random, now_ms: int) -> Controller:
            return Controller(image, controller_config, rng, now_ms)

        return ControllerDriver(
            config.node_id,
            self.raft,
            self.loader,
            make,
            self._clock,
            self._environment.random,
            self._on_fatal,
            self.metrics.commit_timed,
        )

    def _make_controller_server(self, controller: ControllerDriver) -> Listener:
        return self._environment.doors.controller(
            self.config,
            ControllerService(
                lambda request: self._busy.raft.timed(self.raft.handle(request)),
                self._asked_of_controller,
                plan_descriptors(self._environment.descriptors_max).node_connections_max,
            ),
        )

    def _make_broker(self) -> BrokerParts:
        parts = NodeParts(
            self.cluster_id,
            self.incarnation_id,
            self.dynamic,
            self.log_manager,
            self.loader,
            self._peers,
            self._channel,
            lambda: self.leader_id,
            self._busy,
            self.metrics,
            self._directory_failed,
            self._on_fatal,
            self.raft.contact_ms_ago,
            self._own_quorum_view,
            OwnMetadata(
                self.config.node_id,
                self.log_manager.file_system,
                f"{self.config.metadata_log_dir}/{partition_directory(METADATA_PARTITION)}",
                lambda: self.loader.image.offset,
                lambda: self.snapshotter.kept_from,
            ),
            lambda: {**self.log_manager.offline_log_dirs, **self.failed_log_dirs},
        )
        return BrokerParts(self.config, self._environment, parts)

    # -- what the parts ask --------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """The quorum's leader, -1 when unknown."""
        return self.raft.leader_and_epoch[0]

    def _broker_endpoint(self, broker_id: int) -> Endpoint | None:
        broker = self.loader.image.brokers.get(broker_id)
        return broker.inter_broker_endpoint if broker is not None else None

    def on_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """As a listener of the quorum: an image instead of the records that it stands for."""
        if not isinstance(snapshot.contents, MetadataImage):
            raise InvariantViolation(f"{snapshot.snapshot_id} holds no image")
        self.loader.on_snapshot(snapshot.contents)
        self.snapshotter.on_snapshot(snapshot.snapshot_id)

    def on_committed(self, base_offset: int, records: bytes) -> None:
        """As a listener of the quorum: committed metadata becomes the next image."""
        self.loader.on_committed(base_offset, records)
        self.snapshotter.on_committed(len(records))

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """As a listener of the quorum: AFTER the image has everything that was committed before."""
        self._channel.leader_changed(leader_id)
        if self.controller is not None:
            self.controller.on_leader_change(leader_id, epoch)

    async def _asked_of_controller(self, request: object) -> object:
        """A request to this node as the active controller, by another node or by its own broker."""
        if isinstance(request, DescribeQuorumRequest):
            return self.describe_quorum()
        if self.controller is None:
            raise NotControllerError(f"node {self.config.node_id} has no controller role")
        return await self.controller.handle(request)

    def describe_quorum(self) -> QuorumInfo:
        """The quorum as its leader sees it; NotControllerError elsewhere."""
        if self.leader_id != self.config.node_id:
            leader_id, epoch = self.raft.leader_and_epoch
            raise NotControllerError(
                f"node {self.config.node_id} does not lead the quorum", leader=LeaderHint(leader_id, epoch)
            )
        return self._quorum_view(only_own=False)

    def _own_quorum_view(self) -> QuorumInfo:
        return self._quorum_view(only_own=True)

    def _quorum_view(self, *, only_own: bool) -> QuorumInfo:
        found = self.raft.describe()
        return QuorumInfo(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            tuple(_replica_view(replica) for replica in found.voters),
            tuple(_replica_view(replica) for replica in found.observers),
            only_own,
        )

    def _on_fatal(self, error: BaseException) -> None:
        if not self.fatal.done():
            if not isinstance(error, MetaPropertiesError):
                _log.critical("fatal: %s: %s", type(error).__name__, error, exc_info=error)
            self.fatal.set_result(error)

    @property
    def refusal(self) -> MetaPropertiesError | None:
        """Why this node may not be part of the cluster, as it was told after its start; it then stops in order."""
        error = self.fatal.result() if self.fatal.done() else None
        return error if isinstance(error, MetaPropertiesError) else None

    def _directory_failed(self, directory: str, error: Exception) -> None:
        """A failed log dir takes its replicas; the node lives on, unless the metadata log is in it."""
        self.failed_log_dirs[directory] = error
        if len(self.failed_log_dirs) == len(self.config.log_dirs) or directory == self.config.metadata_log_dir:
            self._on_fatal(error)

    def _log_dir_hangs(self, directory: str, error: Exception) -> None:
        if self.broker is not None:
            self.broker.replicas.failures.directory_failed(directory, error)
        else:
            self._directory_failed(directory, error)

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything up to taking requests; being unfenced comes later (`wait_ready`)."""
        self._sampler.start()
        self._log_dir_watch.start()
        await self.raft.start()
        self.snapshotter.start()
        if self._controller_server is not None:
            await self._controller_server.start()
            await self._controller_server.serving(True)
        if self.broker is not None:
            await self.broker.start()

    async def wait_ready(self) -> None:
        """Until the controller has unfenced this broker; for a controller alone, until the quorum has a leader."""
        if self.broker is not None:
            await self.broker.lifecycle.unfenced.wait()
            return
        await self.raft.met_quorum.wait()  # what it has in a snapshot says nothing of the quorum
        await self.loader.wait_for_offset(0)

    def status(self) -> str:
        """The state of the node, in a line for people."""
        said = []
        if self.broker is not None:
            replicas = self.broker.replicas.statistics()
            standing = "in service" if self.broker.lifecycle.unfenced.is_set() else "fenced"
            said.append(f"{standing}, leads {replicas.leaders} of {replicas.partitions} partitions")
            if replicas.troubles.under_replicated:
                said.append(f"{replicas.troubles.under_replicated} under-replicated")
        if self.controller is not None:
            leads = self.controller.is_active
            said.append("the active controller" if leads else f"follows controller {self.leader_id}")
        if self.failed_log_dirs:
            said.append(f"failed log dirs: {', '.join(sorted(self.failed_log_dirs))}")
        return "; ".join(said)

    async def stop(self) -> None:
        """The reverse of start; clean only if nothing was fatal, and only where no log dir hangs.

        While `stop_wait.given_up` names any, threads that stand in them keep the process from ending by itself.
        """
        in_order = not self.fatal.done() or self.refusal is not None
        await self._log_dir_watch.stop()
        self.stop_wait.goes_without(self.log_manager.calls.given_up)
        broker_epoch = -1
        if self.broker is not None:
            broker_epoch = self.broker.lifecycle.broker_epoch
            if broker_epoch < 0:  # stopped before it was registered: the last clean stop still holds
                broker_epoch = self.log_manager.previous_broker_epoch
            await self.broker.stop(self.stop_wait, in_order=in_order)
        if self.controller is not None:
            self.controller.resign()
        await self._stop_raft()
        if self.broker is not None:
            await self.broker.replicas.creation.close(self.stop_wait)
        if self._controller_server is not None:
            await self._controller_server.stop()
        await self._peers.close()
        await self._sampler.stop()
        self._executor.shutdown(wait=False, cancel_futures=True)
        await self.log_manager.close_within(self.stop_wait, in_order, broker_epoch)

    async def _stop_raft(self) -> None:
        """Its farewell needs no disk, so it has time for that even where the metadata log's dir hangs already."""
        stopping = asyncio.create_task(self._end_quorum(), name="raft-stop")
        await asyncio.wait([stopping], timeout=2 * FAREWELL_MS / 1000)
        await self.stop_wait.until_idle(lambda: () if stopping.done() else (self.config.metadata_log_dir,))
        if stopping.done():
            stopping.result()
        else:
            stopping.cancel()

    async def _end_quorum(self) -> None:
        await self.raft.stop()
        await self.snapshotter.stop()

    def __repr__(self) -> str:
        return f"Node({self.config.node_id}, {'+'.join(sorted(self.config.roles))}, {self.raft!r})"


def _replica_view(replica: ReplicaDescription) -> QuorumReplicaInfo:
    ago = replica.last_fetch_ms_ago
    return QuorumReplicaInfo(replica.replica_id, replica.log_end_offset, -1 if ago is None else ago)
