"""The broker's half of a node: request path, replicas, replication, and its standing with the controller.

Put together in `__init__`, started and stopped in an order that node.py relies on: nothing takes requests before what
answers them runs, and nothing is closed while something may still write to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.apis.alter_configs import AlterConfigsApi
from broker.apis.create_topics import CreateTopicsApi
from broker.apis.delete_records import DeleteRecordsApi
from broker.apis.delete_topics import DeleteTopicsApi
from broker.apis.describe_cluster import DescribeClusterApi
from broker.apis.describe_configs import DescribeConfigsApi
from broker.apis.describe_quorum import DescribeQuorumApi
from broker.apis.fetch import FetchApi
from broker.apis.fetch_session import FetchSession, SessionMemory
from broker.apis.forwarding import ForwardedRequests
from broker.apis.list_offsets import ListOffsetsApi
from broker.apis.metadata import MetadataApi
from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from broker.apis.produce import ProduceApi
from broker.apis.produce_conversion import ProduceConverter, threads_for
from broker.apis.router import Router
from broker.config.node_config import NodeConfig
from broker.jobs.cleaner_job import CleanerJob, cleaner_config
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.scheduler import Scheduler
from broker.network.busy_time import BusyTimes
from broker.network.doors import BrokerService
from broker.network.failed_requests import FailedRequests
from broker.network.handler_pool import HandlerPool
from broker.network.memory_budget import MemoryBudget
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from broker.network.transport import Transport
from broker.node.descriptors import plan_descriptors
from broker.node.environment import Environment
from broker.node.lifecycle import BrokerLifecycle
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import METADATA_PARTITION
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.follower.fetcher_driver import FetcherConfig
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.leader.alter_partition import AlterPartitionManager
from broker.replication.replica_manager import ReplicaManager
from metadata.requests import HostedReplicas, RegisterBrokerRequest
from penstock.clock import Clock
from penstock.errors import (
    InconsistentClusterIdError,
    InvalidRegistrationError,
    MetaPropertiesError,
)
from storage.disk.stop_wait import StopWait
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)

FETCH_BACKOFF_MS = 200
ANSWERS_STREAM_SHARE = 16
"""Of the answers' budget: a stream that does not read keeps 1/16 of it, until it is closed."""


class BrokerParts:
    """Everything that a node with the broker role has besides the quorum."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        log_manager: LogManager,
        loader: MetadataLoader,
        transport: Transport,
        controller: ControllerChannel,
        controller_id: Callable[[], int],
        environment: Environment,
        busy: BusyTimes,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.config = config
        self._environment = environment
        clock, threads = environment.clock, environment.threads
        self.log_manager = log_manager
        self.loader = loader
        self.group_commit = GroupCommit(self._directory_failed, threads)
        self.replicas = ReplicaManager(
            config.node_id, log_manager, self.group_commit, clock, threads, config.replica_lag_time_max_ms, on_fatal
        )
        self.fetchers = FetcherManager(
            FetcherConfig(
                config.node_id,
                cluster_id,
                config.replica_fetch_wait_max_ms,
                config.replica_fetch_response_max_bytes,
                config.replica_fetch_max_bytes,
                FETCH_BACKOFF_MS,
            ),
            config.num_replica_fetchers,
            clock,
            transport.open_fetch_stream,
            self.replicas,
            on_fatal,
            busy.fetchers.timed,
        )
        self.replicas.fetchers = self.fetchers
        self.alter_partition = AlterPartitionManager(
            config.node_id, lambda: self.replicas.broker_epoch, controller.call, on_fatal
        )
        self.replicas.isrs.proposals = self.alter_partition
        self.publisher = MetadataPublisher(self.replicas, log_manager, topic_defaults(config))
        loader.subscribe(self.publisher.publish)
        self.channel = RequestChannel(config.queued_max_requests, busy, clock.now_ns)
        self.forwarded = ForwardedRequests()
        router = self._router(cluster_id, controller, controller_id)
        self.failed_requests = FailedRequests(on_fatal)
        self.handlers = HandlerPool(self.channel, router.handle, config.num_io_threads, self.failed_requests.fail)
        self._make_doors(clock)
        self.lifecycle = BrokerLifecycle(
            self._registration(cluster_id),
            controller,
            loader,
            environment.ids,
            config.broker_heartbeat_interval_ms,
            config.broker_session_timeout_ms,
            self._hosted_replicas,
            self._registered,
            self._caught_up,
            self._standing_changed,
        )
        self._announcements: set[asyncio.Task[None]] = set()
        self.replicas.on_replica_lost = self.lifecycle.leave_isrs
        self.scheduler = Scheduler(clock, threads, on_fatal)
        self._schedule_jobs(clock)
        self._on_fatal = on_fatal

    def _make_doors(self, clock: Clock) -> None:
        """The two listeners, and what bounds the bytes and the connections that come in at them."""
        config = self.config
        converting = self._environment.threads.executor("produce-conversion", threads_for(self._environment.processors))
        self.converter = ProduceConverter(self.replicas.find, clock, converting, config.socket_request_max_bytes)
        descriptors = plan_descriptors(self._environment.descriptors_max)
        self.request_memory = RequestMemory(config.queued_max_request_bytes)
        self.answer_memory = MemoryBudget(config.queued_max_response_bytes, ANSWERS_STREAM_SHARE)
        self.session_memory = MemoryBudget(config.fetch_sessions_max_bytes, 1)

        def new_session(host: str) -> FetchSession:
            memory = SessionMemory(self.answer_memory.open(host), self.session_memory.open(host))
            count_bytes, fail = self.replicas.traffic.count_out, self.failed_requests.fail
            return FetchSession(self.replicas.get, clock, config.fetch_max_bytes, count_bytes, memory, fail)

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
        self.decoders = self.listeners.decoders

    def _schedule_jobs(self, clock: Clock) -> None:
        """The named periodic jobs; they run from `start` on."""
        config, log_manager = self.config, self.log_manager
        file_system, threads = self._environment.file_system, self._environment.threads
        self.upkeep = LogUpkeep(self.replicas, log_manager, self.scheduler, clock, file_system)
        self.upkeep.schedule(config)
        self.cleaner = CleanerJob(
            cleaner_config(config),
            self.replicas,
            log_manager,
            self.scheduler,
            clock,
            file_system,
            threads,
        )
        self.cleaner.wall_ms = self.upkeep.believed_wall_ms
        self.replicas.on_log_gone = self.cleaner.cleaner.forget
        if config.log_cleaner_enable:
            self.cleaner.schedule()

    def _router(self, cluster_id: str, controller: ControllerChannel, controller_id: Callable[[], int]) -> Router:
        config, loader, replicas = self.config, self.loader, self.replicas
        return Router(
            {
                "Produce": ProduceApi(replicas).handle,
                "Fetch": FetchApi(replicas, cluster_id).handle,
                "ListOffsets": ListOffsetsApi(replicas).handle,
                "OffsetForLeaderEpoch": OffsetForLeaderEpochApi(replicas).handle,
                "Metadata": MetadataApi(
                    cluster_id, lambda: loader.image, controller_id, replicas.lost.why_offline
                ).handle,
                "DescribeCluster": DescribeClusterApi(cluster_id, lambda: loader.image, controller_id).handle,
                "DescribeQuorum": DescribeQuorumApi(controller, self.forwarded).handle,
                "CreateTopics": CreateTopicsApi(controller, loader, self.forwarded).handle,
                "DeleteTopics": DeleteTopicsApi(controller, loader, self.forwarded).handle,
                "DeleteRecords": DeleteRecordsApi(replicas).handle,
                "AlterConfigs": AlterConfigsApi(controller, loader, self.forwarded).handle,
                "DescribeConfigs": DescribeConfigsApi(config, topic_defaults(config), lambda: loader.image).handle,
            }
        )

    def _registration(self, cluster_id: str) -> RegisterBrokerRequest:
        endpoint, inter_broker = self.config.advertised, self.config.inter_broker_advertised
        return RegisterBrokerRequest(
            cluster_id,
            self.config.node_id,
            self._environment.ids.new_id(),
            endpoint.host,
            endpoint.port,
            self.config.broker_rack,
            self.log_manager.previous_broker_epoch,
            tuple(properties.directory_id for properties in self.log_manager.meta_properties.values()),
            failed_log_dirs=len(self.config.log_dirs) - len(self.log_manager.meta_properties),
            lost_log_dirs=self.config.lost_log_dirs,
            inter_broker_host=inter_broker.host,
            inter_broker_port=inter_broker.port,
        )

    def _hosted_replicas(self) -> tuple[HostedReplicas, ...]:
        """Whose logs the log dirs hold now, damaged ones left out: those count as lost until they are repaired."""
        numbers: dict[str, list[int]] = {}
        for found in self.log_manager.logs():
            if found.topic_partition != METADATA_PARTITION and found.topic_id:
                numbers.setdefault(found.topic_id, []).append(found.topic_partition.partition)
        return tuple(HostedReplicas(topic_id, tuple(sorted(held))) for topic_id, held in numbers.items())

    def _registered(self, broker_epoch: int) -> None:
        self.replicas.registered(broker_epoch)

    def _caught_up(self) -> None:
        self.publisher.caught_up(self.loader.image)
        self.listeners.open()

    def _directory_failed(self, directory: str, error: Exception) -> None:
        self.replicas.failures.directory_failed(directory, error)

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take requests, then ask the controller to be unfenced."""
        self.handlers.start()
        self.alter_partition.start()
        await self.listeners.start()
        self.scheduler.start()
        self.lifecycle.start().add_done_callback(self._task_done)

    def _standing_changed(self, may_serve: bool) -> None:
        """Whoever asks the health service does not go on sending clients to a broker that leads nothing."""
        task = asyncio.create_task(self.serving(may_serve))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def serving(self, is_serving: bool) -> None:
        """What the health service of both listeners answers."""
        await self.listeners.serving(is_serving)

    async def stop(self, wait: StopWait, *, in_order: bool = True) -> None:
        """Hand the leaders over, stop taking requests, let what was taken finish, write the checkpoints; `wait` says
        how long for each log dir.

        Not in order, after something fatal: nobody is asked first, and requests are taken no longer than it takes.
        """
        if in_order and self.config.controlled_shutdown_enable and self.lifecycle.unfenced.is_set():
            await self.lifecycle.controlled_shutdown()
        await self.serving(False)
        await self.lifecycle.stop()
        self.replicas.to_create.stop()
        await self.listeners.stop()
        self.converter.close()
        await self.handlers.stop()
        await self.forwarded.stop()
        await self.fetchers.stop()
        await self.replicas.log_starts.close(wait)
        await self.alter_partition.stop()
        self.cleaner.stop()
        await self.scheduler.stop(wait)
        self.cleaner.close()
        await self.group_commit.close(wait)
        await wait.each(self.log_manager.checkpoints.log_dirs, self._write_high_watermarks)

    def _write_high_watermarks(self, log_dir: str) -> None:
        failure = self.log_manager.checkpoints.try_high_watermarks(log_dir, self.replicas.high_watermarks)
        if failure is not None:  # a full disk: the rest of the stop must not miss its turn
            _log.error("the high watermarks were not written: %s", failure)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fatal(self._as_refusal(error))

    def _as_refusal(self, error: BaseException) -> BaseException:
        """What the controller will never accept from this node is a matter of its log dirs: with their names."""
        if not isinstance(error, (InconsistentClusterIdError, InvalidRegistrationError)):
            return error
        known = self.log_manager.meta_properties.items()
        dirs = ", ".join(f"{path} (directory.id {properties.directory_id})" for path, properties in known)
        refusal = MetaPropertiesError(f"{error}. This node's log dirs: {dirs}")
        refusal.__cause__ = error
        return refusal
