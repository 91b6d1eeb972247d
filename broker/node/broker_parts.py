"""The broker's half of a node: request path, replicas, replication, and its registration with the controller.

Made part by part (`parts/`), from the bottom up: each is given the parts that it stands on, and nothing is told of
another one afterwards. Started and stopped in an order that node.py relies on: requests are taken only AFTER the parts
that answer them run, and a part is closed only AFTER the last one that writes to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Protocol

from broker.metrics.field_readings import record_readings
from broker.metrics.metrics import Reading
from broker.metrics.storage_readings import log_readings, lost_replica_readings
from broker.network.broker_calls import BrokerCalls
from broker.network.dispatcher import Dispatcher
from broker.network.failed_requests import FailedRequests
from broker.network.request_channel import Request
from broker.node.configuration.changed_parts import tell_cordoned
from broker.node.parts.apis import make_apis
from broker.node.parts.coordinators import make_coordinators
from broker.node.parts.disk_work import make_disk_work, schedule_jobs
from broker.node.parts.foundation import Foundation
from broker.node.parts.replication import make_replication
from broker.node.parts.request_path import make_request_path
from broker.node.registration.broker_lifecycle import BrokerLifecycle
from broker.node.registration.broker_registration import as_refusal, hosted_replicas, registration
from broker.node.registration.replica_losses import ReplicaLosses
from broker.producer_ids.producer_id_manager import ProducerIdManager
from broker.replication.hosting.replica_parts import known_replicas
from broker.replication.replica_statistics import Traffic
from penstock.tasks import watch
from storage.disk.stop_wait import StopWait

_log = logging.getLogger(__name__)


class BrokerMeters(Protocol):
    """Observes what happens in the broker, for its metrics; see metrics.py."""

    def request_sent(self, request: Request, sent_ns: int) -> None: ...

    def flush_timed(self, seconds: float) -> None: ...


class BrokerParts:
    """Everything that a node with the broker role has besides the quorum."""

    def __init__(self, base: Foundation, meters: BrokerMeters) -> None:
        config, environment, quorum, log_manager = base.config, base.environment, base.quorum, base.log_manager
        clock, on_fatal, failures = environment.clock, base.on_fatal, base.failures
        self.config, self.log_manager, self._on_fatal = config, log_manager, on_fatal
        self._announcements = set[asyncio.Task[None]]()
        losses = ReplicaLosses()

        def log_dir_failed(log_dir: str, error: Exception) -> None:
            failures.directory_failed(log_dir, error)
            losses.log_dir_failed()

        known = known_replicas(
            config.node_id,
            log_manager,
            clock,
            environment.threads,
            on_replica_lost=losses.post,
            on_log_dir_failed=log_dir_failed,
        )
        self.disks = make_disk_work(base, known, meters.flush_timed)
        self.producer_ids = ProducerIdManager(
            config.node_id,
            lambda: known.lost.broker_epoch,
            call=quorum.channel.call,
            clock=clock,
            on_fatal=on_fatal,
            random=environment.random,
        )
        call_broker = BrokerCalls(
            config.node_id,
            others=quorum.peers.call_broker,
            handle=self._handle_own,
            fail=FailedRequests(on_fatal).fail,
            now_ns=clock.now_ns,
        )
        durability, traffic, request_id = self.disks.durability, Traffic(), self.producer_ids.request
        self.coordinators = make_coordinators(
            base, known, durability, traffic, request_id=request_id, call_broker=call_broker
        )
        role_listeners = self.coordinators.role_listeners
        self.replication = make_replication(base, known, self.disks, traffic=traffic, role_listeners=role_listeners)
        self.coordinators.subscribe(quorum.loader)
        self.jobs = schedule_jobs(base, self.disks, self.replication.replicas)
        self.requests = make_request_path(base, self.replication, meters.request_sent)
        self.lifecycle = self._make_lifecycle(base, losses)
        self.apis = make_apis(
            base,
            replication=self.replication,
            coordinators=self.coordinators,
            jobs=self.jobs,
            requests=self.requests,
            producer_ids=self.producer_ids,
            lifecycle=self.lifecycle,
            wall_clock=self.disks.wall_clock,
        )
        self.dispatcher = Dispatcher(
            self.requests.channel,
            self.apis.router.handle,
            fail=self.requests.failed_requests.fail,
            probe=environment.probe,
            nodes_listener=config.inter_broker_listener_name,
        )

    def _make_lifecycle(self, base: Foundation, losses: ReplicaLosses) -> BrokerLifecycle:
        config, quorum, log_manager, failures = base.config, base.quorum, base.log_manager, base.failures

        def caught_up() -> None:
            self.replication.publisher.caught_up(base.image())
            self.requests.listeners.open()

        tell_cordoned(base.dynamic, log_manager, losses.hasten)
        return BrokerLifecycle(
            registration(config, quorum.cluster_id, quorum.incarnation_id, log_manager, quorum.features.said),
            quorum.channel,
            quorum.loader,
            ids=base.environment.ids,
            random=base.environment.random,
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            lease=quorum.lease,
            losses=losses,
            hosted_replicas=lambda: hosted_replicas(log_manager),
            on_registered=self.replication.replicas.revival.registered,
            on_caught_up=caught_up,
            on_fenced_changed=self._fenced_changed,
            failed_log_dirs=lambda: log_manager.directory_ids(failures.offline_log_dirs()),
            cordoned_log_dirs=lambda: log_manager.directory_ids(log_manager.cordoned),
            calendar=self.disks.wall_clock,
        )

    def readings(self) -> Iterator[Reading]:
        """The metrics of the parts, and of what stands between them."""
        yield from record_readings(self.lifecycle.statistics())
        yield from self.disks.readings()
        yield from self.replication.readings()
        yield from self.coordinators.readings()
        yield from self.jobs.readings()
        yield from self.requests.readings()
        yield from lost_replica_readings(self.replication.replicas.lost, self.log_manager)
        yield from log_readings(self.log_manager)

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take requests, then ask the controller to be unfenced."""
        self.dispatcher.start()
        self.replication.alter_partition.calls.start()
        self.replication.directories.calls.start()
        self.producer_ids.start()
        self.coordinators.start()
        await self.requests.listeners.start()
        self.disks.scheduler.start()
        watch(self.lifecycle.start(), lambda error: self._on_fatal(as_refusal(error, self.log_manager)))

    def _handle_own(self, request: Request) -> None:
        """A request of this broker to itself."""
        self.apis.router.handle(request)

    def _fenced_changed(self, may_serve: bool) -> None:
        """A load balancer that asks the health service then sends no more clients to a broker that leads nothing."""
        task = asyncio.create_task(self.serving(may_serve))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    async def serving(self, is_serving: bool) -> None:
        """Sets the answer of the health service of both listeners."""
        await self.requests.listeners.serving(is_serving)

    async def stop(self, wait: StopWait, *, in_order: bool = True) -> None:
        """Hand the leaders over, stop taking requests, let what was taken finish, write the checkpoints; `wait` says
        how long for each log dir.

        `in_order` is False after a fatal error: the controller is then not asked to move the leaders first.
        """
        if in_order and self.config.controlled_shutdown_enable and self.lifecycle.unfenced.is_set():
            await self.lifecycle.controlled_shutdown()
        await self.lifecycle.stop()  # BEFORE the next line: an answer to a heartbeat would say SERVING again
        await self.serving(False)
        replication, disks, requests = self.replication, self.disks, self.requests
        replication.replicas.creation.stop()
        replication.publisher.reconfiguration.stop()
        self.apis.describe_metadata.close()
        await self.coordinators.stop()  # BEFORE the listeners close: requests that wait are answered
        await requests.arrivals.close()
        await requests.listeners.stop()
        requests.converter.close()
        requests.authentication.logins.close()
        await self.dispatcher.stop()
        requests.io_threads.close()
        await self.apis.forwarded.stop()
        await replication.fetchers.stop()
        await disks.log_starts.close(wait)
        await replication.alter_partition.calls.stop()
        await replication.directories.calls.stop()
        await self.producer_ids.stop()
        disks.cleaner.stop()
        replication.log_dir_moves.stop()
        await disks.scheduler.stop(wait)
        disks.cleaner.close()
        replication.log_dir_moves.close()
        await disks.group_commit.close(wait)
        await wait.each(self.log_manager.checkpoints.log_dirs, self._write_high_watermarks)

    def _write_high_watermarks(self, log_dir: str) -> None:
        current = self.replication.replicas.high_watermarks.current
        failure = self.log_manager.checkpoints.try_high_watermarks(log_dir, current)
        if failure is not None:  # a full disk: the rest of the stop must not miss its turn
            _log.error("the high watermarks were not written: %s", failure)
