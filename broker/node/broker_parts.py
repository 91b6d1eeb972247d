"""The broker's half of a node: request path, replicas, replication, and its standing with the controller.

Made room by room (`rooms/`), from the bottom up: each is given the rooms that it stands on, and nothing is told of
another one afterwards. Started and stopped in an order that node.py relies on: requests are taken only AFTER the parts
that answer them run, and a part is closed only AFTER the last one that writes to it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.groups.coordinator.group_statistics import GroupFigures
from broker.groups.lag.lag_watch import LagWatch
from broker.load.busy_time import BusyTimes
from broker.network.broker_calls import BrokerCalls
from broker.network.dispatcher import Dispatcher
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.node.environment import Environment
from broker.node.node_failures import NodeFailures
from broker.node.rooms.apis import make_apis
from broker.node.rooms.disk_work import make_disk_work, schedule_upkeep
from broker.node.rooms.quorum import QuorumParts
from broker.node.rooms.replication import make_replication
from broker.node.rooms.request_path import make_request_path
from broker.node.standing.broker_lifecycle import BrokerLifecycle
from broker.node.standing.broker_registration import as_refusal, hosted_replicas, registration
from broker.node.standing.replica_losses import ReplicaLosses
from broker.producer_ids.producer_id_manager import ProducerIdManager
from broker.replication.hosting.replica_parts import known_replicas
from broker.transactions.coordinator.coordinator_figures import TransactionFigures
from penstock.tasks import watch
from storage.disk.stop_wait import StopWait
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)


class BrokerMeters(Protocol):
    """Observes what happens in the broker, for its metrics; see metrics.py."""

    def request_sent(self, request: Request, sent_ns: int) -> None: ...

    def flush_timed(self, seconds: float) -> None: ...


class BrokerParts:
    """Everything that a node with the broker role has besides the quorum."""

    def __init__(
        self,
        config: NodeConfig,
        environment: Environment,
        quorum: QuorumParts,
        log_manager: LogManager,
        dynamic: DynamicBrokerConfig,
        busy: BusyTimes,
        meters: BrokerMeters,
        failures: NodeFailures,
    ) -> None:
        self.config, self.log_manager, self._on_fatal = config, log_manager, failures.on_fatal
        clock, random, threads, on_fatal = environment.clock, environment.random, environment.threads, failures.on_fatal
        losses = ReplicaLosses()

        def log_dir_failed(log_dir: str, error: Exception) -> None:
            failures.directory_failed(log_dir, error)
            losses.log_dir_failed()

        known = known_replicas(config.node_id, log_manager, clock, threads, losses.post, log_dir_failed)
        disks = make_disk_work(config, environment, log_manager, known, meters.flush_timed, on_fatal)
        self.group_commit, self.log_starts = disks.group_commit, disks.log_starts
        self.scheduler, self.cleaner = disks.scheduler, disks.cleaner

        by = quorum.channel.call, clock, on_fatal, random
        self.producer_ids = ProducerIdManager(config.node_id, lambda: known.lost.broker_epoch, *by)
        handled = self._handle_own, FailedRequests(on_fatal).fail, clock.now_ns
        call_broker = BrokerCalls(config.node_id, quorum.peers.call_broker, *handled)
        over = quorum, log_manager, dynamic, busy, known, disks, self.producer_ids.request, call_broker
        replication = make_replication(config, environment, *over, on_fatal)
        self.alter_partition, self.directories = replication.alter_partition, replication.directories
        self.leader_throttle, self.follower_throttle = replication.leader_throttle, replication.follower_throttle
        self.fetchers, self.replicas, self.groups = replication.fetchers, replication.replicas, replication.groups
        self.log_dir_moves, self.publisher = replication.log_dir_moves, replication.publisher
        self.verifier, self.transactions = replication.verifier, replication.transactions
        upkeep = schedule_upkeep(config, environment, log_manager, disks, self.replicas)
        self.upkeep, self.disk_rooms, self.stable_offsets = upkeep
        requests = make_request_path(config, environment, busy, quorum, replication, meters.request_sent, on_fatal)
        self.channel, self.io_threads, self.converter = requests.channel, requests.io_threads, requests.converter
        self.request_memory, self.answer_memory = requests.request_memory, requests.answer_memory
        self.log_in_memory, self.session_memory = requests.log_in_memory, requests.session_memory
        self.authentication, self.audit, self.listeners = requests.authentication, requests.audit, requests.listeners
        self.named_sessions, self._announcements = requests.named_sessions, set[asyncio.Task[None]]()

        def caught_up() -> None:
            replication.publisher.caught_up(quorum.loader.image)
            requests.listeners.open()

        self.lifecycle = BrokerLifecycle(
            registration(config, quorum.cluster_id, quorum.incarnation_id, log_manager),
            quorum.channel,
            quorum.loader,
            environment.ids,
            random,
            config.broker_heartbeat_interval_ms,
            config.broker_session_timeout_ms,
            quorum.lease,
            losses,
            lambda: hosted_replicas(log_manager),
            self.replicas.revival.registered,
            caught_up,
            self._standing_changed,
            lambda: log_manager.directory_ids(failures.offline_log_dirs()),
            disks.wall_clock,
        )
        stands_on = replication, *upkeep[1:], requests, self.producer_ids, self.lifecycle, failures, disks.wall_clock
        self._apis = make_apis(config, environment, quorum, log_manager, dynamic, *stands_on)
        self.quotas, self.gatekeeper, self.arrivals = requests.quotas, requests.gatekeeper, requests.arrivals
        given = requests.failed_requests.fail, environment.probe, config.inter_broker_listener_name
        self.dispatcher = Dispatcher(self.channel, self._apis.router.handle, *given)

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take requests, then ask the controller to be unfenced."""
        self.dispatcher.start()
        self.alter_partition.calls.start()
        self.directories.calls.start()
        self.producer_ids.start()
        self.groups.start()
        self.transactions.start()
        await self.listeners.start()
        self.scheduler.start()
        watch(self.lifecycle.start(), lambda error: self._on_fatal(as_refusal(error, self.log_manager)))

    @property
    def group_figures(self) -> GroupFigures:
        return self.groups.figures

    @property
    def group_lag(self) -> LagWatch:
        return self.groups.lag

    @property
    def transaction_figures(self) -> TransactionFigures:
        return self.transactions.figures

    def _handle_own(self, request: Request) -> None:
        """A request of this broker to itself."""
        self._apis.router.handle(request)

    def _standing_changed(self, may_serve: bool) -> None:
        """A load balancer that asks the health service then sends no more clients to a broker that leads nothing."""
        task = asyncio.create_task(self.serving(may_serve))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def serving(self, is_serving: bool) -> None:
        """Sets the answer of the health service of both listeners."""
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
        self._apis.describe_metadata.close()
        await self.transactions.stop()  # BEFORE the doors close, as the groups
        await self.groups.stop()  # BEFORE the doors close: requests that wait are answered
        await self.verifier.stop()
        await self.arrivals.close()
        await self.listeners.stop()
        self.converter.close()
        self.authentication.logins.close()
        await self.dispatcher.stop()
        self.io_threads.close()
        await self._apis.forwarded.stop()
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
