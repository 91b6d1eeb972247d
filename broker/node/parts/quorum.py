"""The quorum's part of a node: its member of the quorum, the metadata's image, the controller, and the way to it.

Every node has it, whatever its roles; only a node with the controller role has a controller here, and a listener for
other nodes. Made before the broker's parts, which stand on it, and stopped after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.node_config import NodeConfig
from broker.load.busy_time import BusyTimes
from broker.metrics.metrics import Reading
from broker.metrics.quorum_readings import feature_readings, quorum_readings
from broker.network.listeners import ControllerService, Listener
from broker.network.transport import NodeTransport
from broker.node.environment import Environment
from broker.node.parts.consensus import make_controller, make_raft
from broker.node.process.descriptors import plan_descriptors
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.describe_metadata import OwnMetadata
from broker.quorum.features.feature_requests import FeatureRequests
from broker.quorum.features.node_features import features_info
from broker.quorum.lead_lease import LeadLease
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import METADATA_PARTITION
from broker.quorum.quorum_addresses import QuorumAddresses
from broker.quorum.voter_requests import VoterRequests
from broker.quorum.voter_upkeep import VoterUpkeep, own_voter
from broker.quorum.voters.newcomers import Newcomers
from broker.quorum.voters.unregistration import unregister_controller
from metadata.features import FeatureTable, ranges_of
from metadata.image import MetadataImage
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import InvariantViolation, NotControllerError
from penstock.messages.features import DescribeFeaturesRequest, FeaturesInfo, UpdateFeaturesRequest
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo, QuorumReplicaInfo
from penstock.messages.voters import UnregisterControllerRequest, VoterRequest
from penstock.types import NO_LEADER, Endpoint, LeaderHint, ListenerEndpoint
from raft.driver.driver import FAREWELL_MS
from raft.driver.protocols import LoadedSnapshot
from raft.statistics import ReplicaDescription
from storage.disk.file_names import partition_directory
from storage.disk.stop_wait import StopWait
from storage.log_dirs.log_manager import LogManager


class QuorumParts:
    """The quorum's part of a node, and the listener of its own member of the quorum. There is one per node, on the
    event loop."""

    def __init__(
        self,
        config: NodeConfig,
        environment: Environment,
        log_manager: LogManager,
        dynamic: DynamicBrokerConfig,
        *,
        features: FeatureTable,
        busy: BusyTimes,
        commit_timed: Callable[[float], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`features`: the feature levels that this node knows."""
        self._config, self.features = config, features
        clock, rng = environment.clock, environment.random
        self.cluster_id = next(iter(log_manager.meta_properties.values())).cluster_id
        self.loader = MetadataLoader(features)
        self.loader.subscribe(dynamic.published)  # BEFORE the parts that act on the images
        self._executor = environment.threads.executor("raft-disk", 2)
        self.addresses = self._make_addresses()
        bytes_max = config.socket_request_max_bytes
        self.peers = environment.transport(self.addresses.endpoint, self._broker_endpoint, bytes_max)
        self.incarnation_id = environment.ids.new_id()
        """New for each process: its broker registers by it first, and it fetches the metadata by it."""
        self.raft, self.snapshotter, self._other_quorums = make_raft(
            config=config,
            environment=environment,
            log_manager=log_manager,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            supports=features.said,
            loader=self.loader,
            peers=self.peers,
            addresses=self.addresses,
            executor=self._executor,
            busy=busy,
            on_fatal=on_fatal,
        )
        self.controller: ControllerDriver | None = None
        if config.is_controller:
            self.controller = make_controller(
                config,
                environment,
                cluster_id=self.cluster_id,
                features=features,
                raft=self.raft,
                loader=self.loader,
                commit_timed=commit_timed,
                on_fatal=on_fatal,
            )
        newcomers = self._make_newcomers(environment, log_manager)
        self._voter_requests = VoterRequests(self.raft, self.cluster_id, clock, rng, newcomers.check, self._unfit_for)
        self._feature_requests = self._make_feature_requests(environment)
        length_ms = min(config.broker_session_timeout_ms, config.replica_lag_time_max_ms)
        self.lease = LeadLease(length_ms, clock.boot_ms, lambda: self.loader.image.offset)
        remote, local = self.peers.call_controller, self._asked
        self.channel = ControllerChannel(config.node_id, self, clock, remote=remote, local=local, random=rng)
        self._upkeep = self._make_upkeep(log_manager, rng, on_fatal) if config.is_controller else None
        self.raft.subscribe(self)
        self._listener = self._make_listener(environment, busy) if config.is_controller else None
        self.own_metadata = OwnMetadata(
            config.node_id,
            log_manager.file_system,
            f"{config.metadata_log_dir}/{partition_directory(METADATA_PARTITION)}",
            lambda: self.loader.image.offset,
            lambda: self.snapshotter.kept_from,
        )

    def _make_feature_requests(self, environment: Environment) -> FeatureRequests | None:
        if self.controller is None:
            return None
        voters, clock = self._voter_requests, environment.clock
        return FeatureRequests(self.raft, self.controller, voters, self.loader, clock, self.features)

    def _make_addresses(self) -> QuorumAddresses:
        config = self._config
        at = config.advertised_listeners.get(CONTROLLER_LISTENER) if config.is_controller else None
        own = ListenerEndpoint(CONTROLLER_LISTENER, at) if at is not None else None
        servers = config.controller_quorum_bootstrap_servers
        return QuorumAddresses(own, config.node_id, servers, voters=lambda: self.raft.voters)

    def _make_listener(self, environment: Environment, busy: BusyTimes) -> Listener:
        """The listener for other nodes."""
        handle = self.addresses.handling(self.raft.handle)
        service = ControllerService(
            quorum=lambda request: busy.raft.timed(handle(request)),
            controller=self._asked,
            connections_max=plan_descriptors(environment.descriptors_max).node_connections_max,
            cluster_id=self.cluster_id,
        )
        return environment.listeners.controller(self._config, service)

    def _make_newcomers(self, environment: Environment, log_manager: LogManager) -> Newcomers:
        config = self._config

        def transport_to(endpoint: Endpoint) -> NodeTransport:
            bytes_max = config.socket_request_max_bytes
            return environment.transport(lambda _: endpoint, self._broker_endpoint, bytes_max)

        return Newcomers(
            transport_to,
            self.cluster_id,
            config.node_id,
            log_manager.directory_id(config.metadata_log_dir),
            lambda: self.raft.leader_and_epoch[1],
        )

    def _make_upkeep(
        self, log_manager: LogManager, rng: Random, on_fatal: Callable[[BaseException], None]
    ) -> VoterUpkeep:
        config = self._config
        return VoterUpkeep(
            self.raft,
            self.channel,
            lambda: own_voter(config, log_manager.directory_id(config.metadata_log_dir)),
            rng,
            cluster_id=self.cluster_id,
            joins=config.controller_quorum_auto_join_enable,
            recent_ms=config.controller_quorum_fetch_timeout_ms,
            on_fatal=on_fatal,
        )

    @property
    def leader_id(self) -> int:
        """The quorum's leader, -1 when unknown."""
        return self.raft.leader_and_epoch[0]

    def may_lead(self, broker_id: int) -> bool:
        """False for this broker while it may be deposed; of others nothing is known here."""
        return broker_id != self._config.node_id or self.lease.is_held()

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def _broker_endpoint(self, broker_id: int) -> Endpoint | None:
        broker = self.loader.image.brokers.get(broker_id)
        return broker.inter_broker_endpoint if broker is not None else None

    def on_snapshot(self, snapshot: LoadedSnapshot) -> None:
        """Replaces the records by the image that stands for them, as a listener of the quorum."""
        if not isinstance(snapshot.contents, MetadataImage):
            raise InvariantViolation(f"{snapshot.snapshot_id} holds no image")
        self.loader.on_snapshot(snapshot.contents)
        self.snapshotter.on_snapshot(snapshot.snapshot_id)

    def on_committed(self, base_offset: int, records: bytes) -> None:
        """Makes the next image of committed metadata, as a listener of the quorum."""
        self.loader.on_committed(base_offset, records)
        self.snapshotter.on_committed(len(records))

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        """Passes on a change of leader, as a listener of the quorum. Called AFTER the image has everything that was
        committed before."""
        self.channel.leader_changed(leader_id)
        if self.controller is not None:
            self.controller.on_leader_change(leader_id, epoch)
        if self._upkeep is not None:
            self._upkeep.leader_changed(leader_id)

    async def _asked(self, request: object) -> object:
        """A request to this node as the active controller, by another node or by its own broker."""
        if isinstance(request, DescribeQuorumRequest):
            return self.describe_quorum()
        if self.controller is None or self._feature_requests is None:
            raise NotControllerError(f"node {self._config.node_id} has no controller role")
        if isinstance(request, VoterRequest):
            return await self._voter_requests.handle(request)
        if isinstance(request, UnregisterControllerRequest):
            return unregister_controller(self.raft, request)
        if isinstance(request, DescribeFeaturesRequest):
            return self._feature_requests.describe()
        if isinstance(request, UpdateFeaturesRequest):
            return await self._feature_requests.update(request)
        return await self.controller.handle(request)

    def describe_quorum(self) -> QuorumInfo:
        """The quorum as its leader sees it; NotControllerError elsewhere."""
        if self.leader_id != self._config.node_id:
            leader_id, epoch = self.raft.leader_and_epoch
            raise NotControllerError(
                f"node {self._config.node_id} does not lead the quorum", leader=LeaderHint(leader_id, epoch)
            )
        return self._quorum_view(only_own=False)

    async def committed_end(self, timeout_ms: int) -> int:
        """The end of the committed metadata, as the quorum's leader knows it; ApiError if it does not answer in time,
        and at once where no leader is known."""
        if self.leader_id == NO_LEADER:
            raise NotControllerError("the quorum has no leader")
        found: QuorumInfo = await self.channel.call(DescribeQuorumRequest(), timeout_ms)
        return found.high_watermark

    def own_view(self) -> QuorumInfo:
        """The quorum as this node sees it."""
        return self._quorum_view(only_own=True)

    def _unfit_for(self, supports: str) -> str:
        """Why a node that supports this must not vote; also where a level is not committed yet."""
        try:
            ranges = ranges_of(supports)
        except ValueError as error:
            return str(error)
        levels = self.controller.levels if self.controller is not None else self.loader.image.levels
        return self.features.unfit(levels, ranges)

    def own_features(self) -> FeaturesInfo:
        """The feature levels as this node knows them."""
        return features_info(self.features, self.loader.image, self.raft.voters, None)

    def _quorum_view(self, *, only_own: bool) -> QuorumInfo:
        found = self.raft.describe()
        return QuorumInfo(
            leader_id=found.leader_id,
            leader_epoch=found.leader_epoch,
            high_watermark=found.high_watermark,
            voters=tuple(_replica_view(replica) for replica in found.voters),
            observers=tuple(_replica_view(replica) for replica in found.observers),
            only_own_view=only_own,
            is_dynamic=found.is_dynamic,
        )

    def readings(self) -> Iterator[Reading]:
        """The metrics of this room."""
        yield from quorum_readings(self.raft, self.controller, self.loader, self.snapshotter)
        yield from feature_readings(self.features, self.loader.image, self.raft.voters)

    # -- start and stop, in order --------------------------------------------------------------------------------------

    async def start(self) -> None:
        if self._other_quorums is not None:
            await self._other_quorums.require_none()  # BEFORE this node elects itself, and another quorum begins
        await self.raft.start()
        self.snapshotter.start()
        if self._listener is not None:
            await self._listener.start()
            await self._listener.serving(True)

    async def stop(self, wait: StopWait) -> None:
        """Changes no metadata any more; the parts that stand on it are still there. `close` comes after them."""
        if self._upkeep is not None:
            await self._upkeep.stop()
        if self.controller is not None:
            self.controller.resign()
        await self._stop_raft(wait)

    async def _stop_raft(self, wait: StopWait) -> None:
        """Stops raft. Its farewell needs no disk, so it has time for that even if the metadata log's dir hangs
        already."""
        stopping = asyncio.create_task(self._end_quorum(), name="raft-stop")
        await asyncio.wait([stopping], timeout=2 * FAREWELL_MS / 1000)
        await wait.until_idle(lambda: () if stopping.done() else (self._config.metadata_log_dir,))
        if stopping.done():
            stopping.result()
        else:
            stopping.cancel()

    async def _end_quorum(self) -> None:
        await self.raft.stop()
        await self.snapshotter.stop()

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
        await self.peers.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        return f"QuorumParts({self.raft!r})"


def _replica_view(replica: ReplicaDescription) -> QuorumReplicaInfo:
    ago, caught_up = replica.last_fetch_ms_ago, replica.last_caught_up_ms_ago
    return QuorumReplicaInfo(
        replica.replica_id,
        replica.log_end_offset,
        -1 if ago is None else ago,
        0 if caught_up is None else max(1, caught_up),
        replica.directory_id,
        replica.endpoints,
    )
