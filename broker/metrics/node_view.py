"""The parts of a node that its metrics are read from. The metrics are a layer below the node.

A part in a higher layer (the lifecycle, the doors) is a protocol here; every other part is named by its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.apis.arrivals.arrival_waits import ArrivalWaits
from broker.apis.producing.produce_conversion import ProduceConverter
from broker.audit.audit_log import AuditLog
from broker.authentication.authentication import Authentication
from broker.authentication.tokens.ports import Tokens
from broker.authorization.gatekeeper import Gatekeeper
from broker.groups.coordinator.group_statistics import GroupFigures
from broker.groups.lag.lag_watch import LagWatch
from broker.jobs.cleaner_job import CleanerJob
from broker.jobs.disk_room import DiskRooms
from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.stable_offsets import StableOffsets
from broker.load.node_load import NodeLoad
from broker.network.doors import BrokerListeners
from broker.network.io_threads import IoThreads
from broker.network.memory_budget import MemoryBudget
from broker.network.named_sessions import NamedSessions
from broker.network.request_channel import RequestChannel
from broker.network.request_memory import RequestMemory
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_snapshotter import MetadataSnapshotter
from broker.quotas.request_quotas import RequestQuotas
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.leader.log_start_commit import LogStartCommit
from broker.replication.move_throttle import MoveThrottle
from broker.tls.material import Certificates
from broker.transactions.coordinator.coordinator_figures import TransactionFigures
from broker.transactions.verification.verifier import Verifier
from raft.driver.driver import RaftDriver
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager


class LifecycleView(Protocol):
    """Registers the broker and keeps it in service."""

    def statistics(self) -> object:
        """The lifecycle's record of statistics, with the metrics at the fields."""


class BrokerView(Protocol):
    """A node's broker role."""

    @property
    def channel(self) -> RequestChannel: ...

    @property
    def io_threads(self) -> IoThreads: ...

    @property
    def authentication(self) -> Authentication: ...

    @property
    def replicas(self) -> ReplicaParts: ...

    @property
    def group_figures(self) -> GroupFigures: ...

    @property
    def group_lag(self) -> LagWatch: ...

    @property
    def verifier(self) -> Verifier: ...

    @property
    def transaction_figures(self) -> TransactionFigures: ...

    @property
    def stable_offsets(self) -> StableOffsets: ...

    @property
    def fetchers(self) -> FetcherManager: ...

    @property
    def leader_throttle(self) -> MoveThrottle: ...

    @property
    def follower_throttle(self) -> MoveThrottle: ...

    @property
    def log_dir_moves(self) -> LogDirMoves: ...

    @property
    def converter(self) -> ProduceConverter: ...

    @property
    def group_commit(self) -> GroupCommit: ...

    @property
    def log_starts(self) -> LogStartCommit: ...

    @property
    def disk_rooms(self) -> DiskRooms: ...

    @property
    def upkeep(self) -> LogUpkeep: ...

    @property
    def cleaner(self) -> CleanerJob: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def request_memory(self) -> RequestMemory: ...

    @property
    def log_in_memory(self) -> RequestMemory: ...

    @property
    def answer_memory(self) -> MemoryBudget: ...

    @property
    def session_memory(self) -> MemoryBudget: ...

    @property
    def named_sessions(self) -> NamedSessions: ...

    @property
    def arrivals(self) -> ArrivalWaits: ...

    @property
    def gatekeeper(self) -> Gatekeeper | None:
        """None without an authorizer."""

    @property
    def quotas(self) -> RequestQuotas: ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def lifecycle(self) -> LifecycleView: ...

    @property
    def listeners(self) -> BrokerListeners: ...


class NodeView(Protocol):
    """A node; `broker` and `controller` are None without that role."""

    @property
    def load(self) -> NodeLoad: ...

    @property
    def raft(self) -> RaftDriver: ...

    @property
    def snapshotter(self) -> MetadataSnapshotter: ...

    @property
    def controller(self) -> ControllerDriver | None: ...

    @property
    def loader(self) -> MetadataLoader: ...

    @property
    def log_manager(self) -> LogManager: ...

    @property
    def certificates(self) -> Certificates: ...

    @property
    def tokens(self) -> Tokens: ...

    @property
    def failed_log_dirs(self) -> Mapping[str, Exception]: ...

    @property
    def broker(self) -> BrokerView | None: ...
