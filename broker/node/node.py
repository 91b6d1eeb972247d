"""One node: the quorum's part of it, the controller if it has that role, and the broker if it has that one.

Start: log dirs (locked, recovered) → metadata log and raft → controller listener → broker parts → registered →
unfenced. Stop is the reverse. A fatal error of any part (a disk under the metadata log, an invariant) stops the node at
once, without the clean-shutdown marker: the next start must check the files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.jobs.log_dir_watch import LogDirWatch
from broker.load.busy_time import BusyTimes
from broker.load.load_sampler import LoadSampler
from broker.load.node_load import NodeLoad
from broker.metrics.metrics import Metrics, Reading
from broker.metrics.node_readings import certificate_readings, load_readings
from broker.metrics.storage_readings import log_dir_readings
from broker.node.broker_parts import BrokerParts
from broker.node.environment import Environment
from broker.node.node_failures import NodeFailures
from broker.node.parts.foundation import Foundation
from broker.node.parts.quorum import QuorumParts
from metadata.features import TABLE, FeatureTable
from storage.disk.stop_wait import STOP_WAIT_MS, StopWait
from storage.log_dirs.log_manager import LogManager


class Node:
    """One node, with the parts that its roles need. Made on the event loop, after the log dirs were opened."""

    def __init__(
        self,
        config: NodeConfig,
        log_manager: LogManager,
        environment: Environment,
        stop_wait_ms: int = STOP_WAIT_MS,
        dynamic: DynamicBrokerConfig | None = None,
        features: FeatureTable = TABLE,
    ) -> None:
        """`dynamic` is given by a caller that changes or reads the configuration before there is a node. `features` are
        the feature levels that the node knows: all of this release, or fewer, to stand for an older one."""
        self.config = config
        clock, threads = environment.clock, environment.threads
        self.certificates, self.tokens = environment.certificates, environment.tokens
        self.stop_wait = StopWait(clock, threads, stop_wait_ms)
        self.log_manager = log_manager
        self.failures = failures = NodeFailures(config, log_manager)
        self.load = NodeLoad(threads.own_native_id())
        busy = BusyTimes(clock.now_ns)
        self.metrics = Metrics(lambda: tuple(self.readings()))
        self._sampler = LoadSampler(
            self.load,
            busy,
            self.metrics.loop_lag,
            clock,
            threads,
            thread_times=environment.thread_times,
            idle_processors=environment.idle_processors,
        )
        self.dynamic = dynamic = dynamic or DynamicBrokerConfig(config)
        on_fatal = failures.on_fatal
        self.quorum = quorum = QuorumParts(
            config,
            environment,
            log_manager,
            dynamic,
            features=features,
            busy=busy,
            commit_timed=self.metrics.commit_timed,
            on_fatal=on_fatal,
        )
        self.loader, self.raft, self.snapshotter = quorum.loader, quorum.raft, quorum.snapshotter
        self.controller = quorum.controller
        self.broker: BrokerParts | None = None
        if config.is_broker:
            base = Foundation(
                config=config,
                environment=environment,
                quorum=quorum,
                log_manager=log_manager,
                dynamic=dynamic,
                busy=busy,
                failures=failures,
            )
            self.broker = BrokerParts(base, self.metrics)
            quorum.loader.subscribe(self.broker.lifecycle.published)
        hangs = failures.directory_failed
        if self.broker is not None:
            hangs = self.broker.replication.replicas.failures.directory_failed
        self._log_dir_watch = LogDirWatch(log_manager.calls, config.log_dir_hang_ms_max, clock, hangs, on_fatal)

    @property
    def leader_id(self) -> int:
        """The quorum's leader, -1 when unknown."""
        return self.quorum.leader_id

    @property
    def fatal(self) -> asyncio.Future[BaseException]:
        """The error that ends this node, once there is one."""
        return self.failures.fatal

    @property
    def failed_log_dirs(self) -> Mapping[str, Exception]:
        """The log dirs that failed since the start, each with its error."""
        return self.failures.failed_log_dirs

    def readings(self) -> Iterator[Reading]:
        """The metrics of the node's roles. A node without the broker role has no metrics of a broker."""
        yield from self.quorum.readings()
        yield from load_readings(self.load, is_broker=self.broker is not None)
        if self.broker is not None:
            yield from self.broker.readings()
        yield from log_dir_readings(self.log_manager, self.failed_log_dirs)
        yield from certificate_readings(self.certificates, self.tokens)

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything up to taking requests; being unfenced comes later (`wait_ready`)."""
        self._sampler.start()
        self._log_dir_watch.start()
        await self.quorum.start()
        if self.broker is not None:
            await self.broker.start()

    async def wait_ready(self) -> None:
        """Returns once the controller has unfenced this broker; for a controller alone, once the quorum has a
        leader."""
        if self.broker is not None:
            await self.broker.lifecycle.unfenced.wait()
            return
        await self.raft.met_quorum.wait()  # what it has in a snapshot says nothing of the quorum
        await self.loader.wait_for_offset(0)

    def status(self) -> str:
        """The state of the node, in a line for people."""
        said = []
        if self.broker is not None:
            replicas = self.broker.replication.replicas.statistics()
            state = "in service" if self.broker.lifecycle.unfenced.is_set() else "fenced"
            said.append(f"{state}, leads {replicas.leaders} of {replicas.partitions} partitions")
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
        in_order = not self.fatal.done() or self.failures.refusal is not None
        await self._log_dir_watch.stop()
        self.stop_wait.goes_without(self.log_manager.calls.given_up)
        broker_epoch = -1
        if self.broker is not None:
            broker_epoch = self.broker.lifecycle.broker_epoch
            if broker_epoch < 0:  # stopped before it was registered: the last clean stop still holds
                broker_epoch = self.log_manager.previous_broker_epoch
            await self.broker.stop(self.stop_wait, in_order=in_order)
        await self.quorum.stop(self.stop_wait)
        if self.broker is not None:
            await self.broker.replication.replicas.creation.close(self.stop_wait)
        await self.quorum.close()
        await self._sampler.stop()
        await self.log_manager.close_within(self.stop_wait, in_order, broker_epoch)

    def __repr__(self) -> str:
        return f"Node({self.config.node_id}, {'+'.join(sorted(self.config.roles))}, {self.raft!r})"
