"""The broker's half of a node: request path, replicas, replication, and its standing with the controller.

Made in `__init__`, started and stopped in an order that node.py relies on: requests are taken only AFTER the parts that
answer them run, and a part is closed only AFTER the last one that writes to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.apis.alter_replica_log_dirs import log_dir_apis
from broker.apis.delete_records import DeleteRecordsApi
from broker.apis.describe_cluster import DescribeClusterApi, Standing
from broker.apis.describe_configs import DescribeConfigsApi
from broker.apis.describe_quorum import DescribeQuorumApi
from broker.apis.fetch import FetchApi
from broker.apis.fetch_session import FetchSession, SessionMemory
from broker.apis.forwarding import ForwardedRequests
from broker.apis.init_producer_id import InitProducerIdApi
from broker.apis.list_offsets import ListOffsetsApi
from broker.apis.metadata import MetadataApi
from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from broker.apis.produce import ProduceApi
from broker.apis.produce_conversion import ProduceConverter, threads_for
from broker.apis.router import Router
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.jobs.checkpoint_jobs import CheckpointJobs
from broker.jobs.cleaner_job import CleanerJob, cleaner_config
from broker.jobs.disk_room import DiskRooms
from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_dir_moves.move_swap import MovedReplicas
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.replica_upkeep import ReplicaUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.wall_clock import WallClockGuard
from broker.load.busy_time import BusyTimes
from broker.network.dispatcher import Dispatcher
from broker.network.doors import BrokerService
from broker.network.failed_requests import FailedRequests
from broker.network.io_threads import IoThreads
from broker.network.memory_budget import MemoryBudget
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.network.transport import Transport
from broker.node.broker_lifecycle import BrokerLifecycle
from broker.node.broker_registration import as_refusal, hosted_replicas, registration
from broker.node.configuration.told_parts import tell_parts
from broker.node.descriptors import plan_descriptors
from broker.node.environment import Environment
from broker.node.own_standing import own_standing
from broker.node.replica_losses import ReplicaLosses
from broker.producer_ids.producer_id_manager import ProducerIdManager
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.describe_metadata import DescribeMetadataApi, OwnMetadata
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.durability import Durability
from broker.replication.follower.fetcher_config import fetcher_config
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.follower_node import FollowerNode
from broker.replication.hosting.replica_parts import KnownReplicas, ReplicaPorts, known_replicas, replica_parts
from broker.replication.leader.alter_partition import AlterPartitionManager
from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.leader.log_start_commit import LogStartCommit
from broker.replication.move_throttle import MoveThrottle
from metadata.image import MetadataImage
from penstock.messages.quorum import QuorumInfo
from penstock.tasks import watch
from penstock.types import TopicPartition
from storage.disk.stop_wait import StopWait
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)

ANSWERS_STREAM_SHARE = 16
"""Of the answers' budget: a stream that does not read keeps 1/16 of it, until it is closed."""


class BrokerMeters(Protocol):
    """Observes what happens in the broker, for its metrics; see metrics.py."""

    def request_sent(self, request: Request, sent_ns: int) -> None: ...

    def flush_timed(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts and values of its node that the broker role needs."""

    cluster_id: str
    incarnation_id: str
    dynamic: DynamicBrokerConfig
    log_manager: LogManager
    loader: MetadataLoader
    transport: Transport
    controller: ControllerChannel
    controller_id: Callable[[], int]
    busy: BusyTimes
    meters: BrokerMeters
    on_log_dir_failed: Callable[[str, Exception], None]
    on_fatal: Callable[[BaseException], None]
    metadata_age_ms: Callable[[], int]
    own_quorum_view: Callable[[], QuorumInfo]
    own_metadata: OwnMetadata
    failed_log_dirs: Callable[[], Mapping[str, Exception]]


class BrokerParts:
    """Everything that a node with the broker role has besides the quorum.

    Made from the bottom up: every part is given the parts that it needs. A part that lower parts report to is made
    before them (`ReplicaLosses`, the tables of `KnownReplicas`).
    """

    def __init__(self, config: NodeConfig, environment: Environment, node: NodeParts) -> None:
        self.config = config
        self._environment = environment
        self._node = node
        self.log_manager = node.log_manager
        self._losses = ReplicaLosses()
        clock, threads, told = environment.clock, environment.threads, (self._losses.post, self._log_dir_failed)
        known = known_replicas(config.node_id, node.log_manager, clock, threads, *told)
        self._make_disk_work(known)
        self._make_replicas(known)
        self._make_upkeep()
        self._make_request_path()
        self._make_doors()
        self._make_standing()

    # -- parts, in the order in which they are made --------------------------------------------------------------------

    def _make_disk_work(self, known: KnownReplicas) -> None:
        """What is done to the logs of all replicas: flushes, checkpoints of log starts, cleaning."""
        config, node, checkpoints = self.config, self._node, self._node.log_manager.checkpoints
        clock, threads = self._environment.clock, self._environment.threads
        self.group_commit = GroupCommit(known.failures.directory_failed, threads, on_timed=node.meters.flush_timed)
        self.log_starts = LogStartCommit(
            checkpoints.try_log_starts, threads.executor("log-starts", len(checkpoints.log_dirs))
        )
        self.scheduler = Scheduler(clock, threads, node.on_fatal)
        self._wall_clock = WallClockGuard(clock)
        self.cleaner = CleanerJob(
            cleaner_config(config),
            known.hosted,
            known.failures,
            node.log_manager,
            self.scheduler,
            self._wall_clock.believed_wall_ms,
            clock,
            self.log_manager.file_system,
            threads,
        )

    def _make_replicas(self, known: KnownReplicas) -> None:
        """How they follow, lead, come and go; the metadata says which."""
        config, clock, node = self.config, self._environment.clock, self._node
        random, threads = self._environment.random, self._environment.threads
        durability = Durability(self.group_commit, self.log_starts)

        call, on_fatal = node.controller.call, node.on_fatal

        def broker_epoch() -> int:
            return known.lost.broker_epoch

        self.alter_partition = AlterPartitionManager(config.node_id, broker_epoch, call, on_fatal, random)
        isrs = IsrUpkeep(self.alter_partition, broker_epoch, config.replica_lag_time_max_ms)
        contacts = FollowerContacts(config.node_id, clock.now_ms, config.replica_lag_time_max_ms)
        self.leader_throttle = MoveThrottle(config.leader_replication_throttled_rate)
        self.follower_throttle = MoveThrottle(config.follower_replication_throttled_rate)
        self.fetchers = FetcherManager(
            fetcher_config(config, node.cluster_id),
            config.num_replica_fetchers,
            clock,
            random,
            node.transport.open_fetch_stream,
            FollowerNode(known.lost, known.hosted, durability, node.log_manager.checkpoints.expect_cut),
            node.on_fatal,
            self.follower_throttle,
            node.busy.fetchers.timed,
        )
        self.directories = DirectoryReports(
            config.node_id,
            broker_epoch,
            node.log_manager.directory_id,
            node.controller.call,
            node.on_fatal,
            random,
        )
        self.producer_ids = ProducerIdManager(config.node_id, broker_epoch, call, clock, on_fatal, random)

        def on_log_gone(partition: TopicPartition) -> None:
            self.cleaner.cleaner.forget(partition)
            self.log_dir_moves.give_up(partition)

        ports = ReplicaPorts(durability, isrs, contacts, self.fetchers, self.directories, on_log_gone, node.on_fatal)
        self.replicas = replica_parts(known, node.log_manager, clock, threads, ports)
        throttle = MoveThrottle(config.replica_alter_log_dirs_io_max_bytes_per_second)
        moved = MovedReplicas(self.replicas, self.fetchers, self.cleaner.cleaner.forget, self.directories)
        self.log_dir_moves = LogDirMoves(node.log_manager, moved, self.scheduler, throttle, clock, threads)
        self.publisher = MetadataPublisher(
            self.replicas.assignments, node.log_manager, topic_defaults(config), clock.now_ms, node.on_fatal
        )
        tell_parts(node.dynamic, self.publisher, self.cleaner, self.leader_throttle, self.follower_throttle, throttle)
        node.loader.subscribe(self.publisher.publish)
        node.loader.subscribe(self.replicas.traffic.by_topic.published)

    def _make_upkeep(self) -> None:
        """The named periodic jobs; they run from `start` on."""
        config, scheduler, replicas = self.config, self.scheduler, self.replicas
        hosted, failures, clock = replicas.hosted, replicas.failures, self._environment.clock
        fs, wall_clock = self.log_manager.file_system, self._wall_clock
        self.upkeep = LogUpkeep(hosted, failures, self.log_manager, scheduler, clock, fs, wall_clock)
        self.upkeep.schedule(config)
        read, checkpoints = replicas.high_watermarks.current, self.log_manager.checkpoints
        CheckpointJobs(checkpoints, read, failures.directory_failed, scheduler).schedule(config)
        revive_lost = replicas.revival.revive_all
        ReplicaUpkeep(hosted, replicas.durability, replicas.isrs, revive_lost, scheduler, clock).schedule(config)
        self.disk_rooms = DiskRooms(lambda: checkpoints.log_dirs, failures.directory_failed, fs, scheduler)
        if config.log_cleaner_enable:
            self.cleaner.schedule()

    def _make_request_path(self) -> None:
        """From the bounded queue to the APIs."""
        config, node = self.config, self._node
        self.channel = RequestChannel(
            config.queued_max_requests, node.busy, self._environment.clock.now_ns, node.meters.request_sent
        )
        self.failed_requests = FailedRequests(node.on_fatal)
        self.forwarded = ForwardedRequests(node.controller, node.loader, self.failed_requests.fail)
        self.io_threads = IoThreads(
            self._environment.threads,
            config.num_io_threads,
            len(config.log_dirs),
            node.busy.handlers,
            self._environment.clock.now_ns,
        )
        threads, fail = self._environment.threads, self.failed_requests.fail
        self.describe_metadata = DescribeMetadataApi(node.own_metadata, threads, fail)
        self.dispatcher = Dispatcher(self.channel, self._router().handle, fail)

    def _make_doors(self) -> None:
        """The two listeners, and the limits of their bytes and connections."""
        config, hosted = self.config, self.replicas.hosted
        clock, threads = self._environment.clock, self._environment.threads
        converting = threads.executor("produce-conversion", threads_for(self._environment.processors))
        self.converter = ProduceConverter(hosted.find, clock, converting, config.socket_request_max_bytes)
        descriptors = plan_descriptors(self._environment.descriptors_max)
        self.request_memory = RequestMemory(config.queued_max_request_bytes)
        self.answer_memory = MemoryBudget(config.queued_max_response_bytes, ANSWERS_STREAM_SHARE)
        self.session_memory = MemoryBudget(config.fetch_sessions_max_bytes, 1)

        def new_session(host: str) -> FetchSession:
            memory = SessionMemory(self.answer_memory.open(host), self.session_memory.open(host))
            count_out, fail, io = self.replicas.traffic.count_out, self.failed_requests.fail, self.io_threads
            throttle = self.leader_throttle
            return FetchSession(hosted.get, clock, config.fetch_max_bytes, count_out, memory, fail, io, throttle)

        service = BrokerService(
            self.channel,
            new_session,
            self.converter.begin,
            self.request_memory,
            RequestMemory(config.queued_max_request_bytes),
            descriptors.client_connections_max,
            descriptors.node_connections_max,
        )
        self.listeners = self._environment.doors.broker(config, service)

    def _make_standing(self) -> None:
        """Registration and heartbeats: what takes this broker into service, and out of it."""
        config, node = self.config, self._node
        self._announcements: set[asyncio.Task[None]] = set()
        self.lifecycle = BrokerLifecycle(
            registration(config, node.cluster_id, node.incarnation_id, node.log_manager),
            node.controller,
            node.loader,
            self._environment.ids,
            self._environment.random,
            config.broker_heartbeat_interval_ms,
            config.broker_session_timeout_ms,
            self._losses,
            lambda: hosted_replicas(node.log_manager),
            self.replicas.revival.registered,
            self._caught_up,
            self._standing_changed,
            lambda: node.log_manager.directory_ids(node.failed_log_dirs()),
        )

    def _router(self) -> Router:
        node, replicas = self._node, self.replicas
        hosted = replicas.hosted

        def image() -> MetadataImage:
            return node.loader.image

        def standing() -> Standing:
            known = node.metadata_age_ms(), node.failed_log_dirs(), node.log_manager.calls.ages_ms()
            return own_standing(self.config, self.lifecycle, replicas, image(), *known)

        fetch = FetchApi(lambda: replicas.isrs.registered_epochs, node.cluster_id, replicas.contacts.fetched).handle
        fail, rooms = self.failed_requests.fail, self.disk_rooms.statistics
        log_dirs = log_dir_apis(self.config.node_id, node.log_manager, rooms, self.log_dir_moves, fail)
        return Router(
            {
                "Produce": ProduceApi(hosted, replicas.durability, replicas.traffic, self._environment.clock).handle,
                "FetchConsumer": fetch,
                "FetchFollower": fetch,
                "ListOffsets": ListOffsetsApi(hosted, self.io_threads, self.failed_requests.fail).handle,
                "OffsetForLeaderEpoch": OffsetForLeaderEpochApi(hosted).handle,
                "Metadata": MetadataApi(
                    node.cluster_id, image, node.controller_id, replicas.lost.why_offline, node.metadata_age_ms
                ).handle,
                "DescribeCluster": DescribeClusterApi(node.cluster_id, image, node.controller_id, standing).handle,
                "DescribeQuorum": DescribeQuorumApi(self.forwarded, node.own_quorum_view).handle,
                "DescribeMetadata": self.describe_metadata.handle,
                **log_dirs,
                **self.forwarded.handlers(),
                "DeleteRecords": DeleteRecordsApi(hosted, replicas.durability.make_log_start_durable).handle,
                "InitProducerId": InitProducerIdApi(self.producer_ids.request).handle,
                "DescribeConfigs": DescribeConfigsApi(node.dynamic, image).handle,
            }
        )

    def _log_dir_failed(self, log_dir: str, error: Exception) -> None:
        self.replicas.creation.log_dir_failed(log_dir, error)
        self._node.on_log_dir_failed(log_dir, error)
        self._losses.log_dir_failed()

    def _caught_up(self) -> None:
        self.publisher.caught_up(self._node.loader.image)
        self.listeners.open()

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take requests, then ask the controller to be unfenced."""
        self.dispatcher.start()
        self.alter_partition.calls.start()
        self.directories.calls.start()
        self.producer_ids.start()
        await self.listeners.start()
        self.scheduler.start()
        watch(self.lifecycle.start(), lambda error: self._node.on_fatal(as_refusal(error, self.log_manager)))

    def _standing_changed(self, may_serve: bool) -> None:
        """A load balancer that asks the health service then sends no more clients to a broker that leads nothing."""
        task = asyncio.create_task(self.serving(may_serve))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def serving(self, is_serving: bool) -> None:
        """What the health service of both listeners answers."""
        await self.listeners.serving(is_serving)

    async def stop(self, wait: StopWait, *, in_order: bool = True) -> None:
        """Hand the leaders over, stop taking requests, let what was taken finish, write the checkpoints; `wait` says
        how long for each log dir.

        `in_order` is False after a fatal error: the controller is then not asked to move the leaders first.
        """
        if in_order and self.config.controlled_shutdown_enable and self.lifecycle.unfenced.is_set():
            await self.lifecycle.controlled_shutdown()
        await self.lifecycle.stop()  # BEFORE the next line: an answer to a heartbeat would say SERVING again
        await self.serving(False)
        self.replicas.creation.stop()
        self.publisher.reconfiguration.stop()
        self.describe_metadata.close()
        await self.listeners.stop()
        self.converter.close()
        await self.dispatcher.stop()
        self.io_threads.close()
        await self.forwarded.stop()
        await self.fetchers.stop()
        await self.log_starts.close(wait)
        await self.alter_partition.calls.stop()
        await self.directories.calls.stop()
        await self.producer_ids.stop()
        self.cleaner.stop()
        self.log_dir_moves.stop()
        await self.scheduler.stop(wait)
        self.cleaner.close()
        self.log_dir_moves.close()
        await self.group_commit.close(wait)
        await wait.each(self.log_manager.checkpoints.log_dirs, self._write_high_watermarks)

    def _write_high_watermarks(self, log_dir: str) -> None:
        failure = self.log_manager.checkpoints.try_high_watermarks(log_dir, self.replicas.high_watermarks.current)
        if failure is not None:  # a full disk: the rest of the stop must not miss its turn
            _log.error("the high watermarks were not written: %s", failure)
