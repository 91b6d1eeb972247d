"""Makes the node's member of the quorum over its metadata log, and the controller over that. Wiring only."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from broker.config.dynamic_keys import BROKER_CONFIGS
from broker.config.node_config import NodeConfig
from broker.load.busy_time import BusyTimes
from broker.network.transport import NodeTransport
from broker.node.environment import Environment
from broker.quorum.bootstrap_users import read_bootstrap_users
from broker.quorum.cluster_guard import ClusterGuard, Configured
from broker.quorum.controller_driver import ControllerDriver
from broker.quorum.features.bootstrap_levels import read_bootstrap_levels
from broker.quorum.first_voters import beginning_of, write_first_voters
from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import METADATA_BATCH_BYTES_MAX, MetadataLog, QuorumStateFile, nothing_to_note
from broker.quorum.metadata_log_opening import open_metadata_log
from broker.quorum.metadata_log_start import find_beginning
from broker.quorum.metadata_publisher import topic_defaults
from broker.quorum.metadata_snapshotter import MetadataSnapshotter, SnapshotLimits
from broker.quorum.quorum_addresses import QuorumAddresses
from broker.quorum.voter_memory import VoterMemory
from broker.quorum.voters.other_quorums import OtherQuorums, is_only_beginner
from metadata.controller.config import ControllerConfig
from metadata.controller.controller import Controller
from metadata.features import FeatureTable
from metadata.image import MetadataImage
from metadata.listeners import CONTROLLER_LISTENER
from penstock.types import Endpoint
from raft.config import RaftConfig
from raft.driver.driver import RaftDriver
from raft.driver.protocols import QuorumTransport
from raft.voters import NO_VOTERS, VoterSet
from storage.disk.file_system import FileSystem
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.meta_properties import METADATA_SNAPSHOTS, raise_version


def make_raft(
    *,
    config: NodeConfig,
    environment: Environment,
    log_manager: LogManager,
    cluster_id: str,
    incarnation_id: str,
    supports: str,
    loader: MetadataLoader,
    peers: NodeTransport,
    addresses: QuorumAddresses,
    executor: Executor,
    busy: BusyTimes,
    on_fatal: Callable[[BaseException], None],
) -> tuple[RaftDriver, MetadataSnapshotter, OtherQuorums | None]:
    """The driver, what makes snapshots of the image, and what is to be asked before an only voter begins; `executor`
    has threads for the disk of the metadata log."""
    fs, clock, log_dir = log_manager.file_system, environment.clock, config.metadata_log_dir
    found = log_manager.meta_properties.get(log_dir)
    version = 1 if found is None else found.version
    first = beginning_of(fs, log_dir, config.first_voters, version)
    metadata_log, snapshots = open_metadata_log(
        log_manager, fs, config.metadata_log_dir, is_voter=config.is_controller, voters=len(first)
    )
    quorum_state, on_flushed, before_voters = _own_state(config, fs, metadata_log, first, version)
    before_cut = partial(raise_version, fs, config.metadata_log_dir, METADATA_SNAPSHOTS)
    beginning = find_beginning(metadata_log, snapshots, before_cut)
    raft_log = MetadataLog(
        metadata_log, clock, on_flushed, snapshots, beginning, before_cut=before_cut, before_voters=before_voters
    )
    known = config.first_voters
    own = () if first.ids == (config.node_id,) else _own_addresses(config)  # a quorum of one needs nobody else's word
    configured = Configured.voters(known) if known else Configured.servers(addresses.servers, own)
    guard = ClusterGuard(peers, config.node_id, cluster_id, configured, on_fatal)
    directory_id, stored = log_manager.directory_id(log_dir), quorum_state.load()
    begins_alone = is_only_beginner(first, config.node_id, stored, raft_log.log_end_offset)
    raft = RaftDriver(
        config=RaftConfig(
            cluster_id=cluster_id,
            node_id=config.node_id,
            first_voters=first,
            directory_id=directory_id,
            bootstrap_ids=tuple(addresses.servers),
            incarnation_id=incarnation_id,
            supports=supports,
            **_raft_limits(config),
        ),
        log=raft_log,
        store=quorum_state,
        transport=addresses.sending(guard),
        clock=clock,
        random=environment.random,
        executor=executor,
        on_fatal=on_fatal,
        timed=busy.raft.timed,
        probe=environment.probe,
    )
    snapshotter = MetadataSnapshotter(
        limits=_snapshot_limits(config),
        log=raft_log,
        snapshots=snapshots,
        loader=loader,
        quorum=raft,
        clock=clock,
        executor=executor,
        on_fatal=on_fatal,
    )
    others = _other_quorums(config, addresses, guard, cluster_id, directory_id, fs) if begins_alone else None
    return raft, snapshotter, others


def _other_quorums(
    config: NodeConfig,
    addresses: QuorumAddresses,
    transport: QuorumTransport,
    cluster_id: str,
    directory_id: str,
    fs: FileSystem,
) -> OtherQuorums:
    """The question to the other servers before this node begins a quorum."""
    if not config.begins_together:
        return OtherQuorums(transport, addresses.servers, cluster_id, config.node_id, directory_id)
    own = _own_addresses(config)
    others = {server: at for server, at in addresses.servers.items() if at not in own}
    join = partial(write_first_voters, fs, config.metadata_log_dir, NO_VOTERS)
    return OtherQuorums(transport, others, cluster_id, config.node_id, directory_id, join)


def _own_state(
    config: NodeConfig, fs: FileSystem, log: Log, first: VoterSet, version: int
) -> tuple[QuorumStateFile, Callable[[], None], Callable[[], None]]:
    """The quorum-state file, and what a voter notes after its records are flushed and before its log names voters."""
    if not config.is_controller:
        return QuorumStateFile(log.directory, fs), nothing_to_note, nothing_to_note
    memory = VoterMemory(config.metadata_log_dir, fs, version=version)
    quorum_state = QuorumStateFile(log.directory, fs, memory.note_voted)
    memory.recall(quorum_state, log, first.ids, gave_up_dirs=bool(config.lost_log_dirs))
    return quorum_state, memory.note_records, memory.note_dynamic


def _own_addresses(config: NodeConfig) -> tuple[Endpoint, ...]:
    """The addresses at which other controllers reach this one; none without the controller role."""
    found = (config.advertised_listeners.get(CONTROLLER_LISTENER), config.listeners.get(CONTROLLER_LISTENER))
    return tuple(at for at in found if at is not None) if config.is_controller else ()


def _raft_limits(config: NodeConfig) -> dict[str, int]:
    """The time-outs (ms) and limits (bytes) of the node's member of the quorum."""
    return {
        "election_timeout_ms": config.controller_quorum_election_timeout_ms,
        "fetch_timeout_ms": config.controller_quorum_fetch_timeout_ms,
        "batch_max_bytes": METADATA_BATCH_BYTES_MAX,
        "uncommitted_max_bytes": 2 * METADATA_BATCH_BYTES_MAX,
    }


def _snapshot_limits(config: NodeConfig) -> SnapshotLimits:
    return SnapshotLimits(
        config.metadata_log_max_record_bytes_between_snapshots,
        config.metadata_log_max_snapshot_interval_ms,
        config.metadata_max_retention_bytes,
        config.metadata_max_retention_ms,
    )


def make_controller(
    config: NodeConfig,
    environment: Environment,
    cluster_id: str,
    features: FeatureTable,
    raft: RaftDriver,
    loader: MetadataLoader,
    commit_timed: Callable[[float], None],
    on_fatal: Callable[[BaseException], None],
) -> ControllerDriver:
    """The controller of this node; it decides only while the node leads the quorum."""
    controller_config = ControllerConfig(
        cluster_id=cluster_id,
        session_timeout_ms=config.broker_session_timeout_ms,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_percentage=config.leader_imbalance_per_broker_percentage,
        leader_imbalance_check_interval_ms=1_000 * config.leader_imbalance_check_interval_seconds,
        replica_balance_enable=config.auto_replica_balance_enable,
        replica_balance_check_interval_ms=1_000 * config.auto_replica_balance_check_interval_seconds,
        one_replica_per_rack=config.replica_placement_one_per_rack,
        max_partitions_per_principal_percent=config.max_partitions_per_principal_percent,
        topic_defaults=topic_defaults(config),
        broker_configs=BROKER_CONFIGS,
        features=features,
    )

    def make(image: MetadataImage, rng: random.Random, now_ms: int) -> Controller:
        return Controller(
            image=image,
            config=controller_config,
            rng=rng,
            now_ms=now_ms,
            ids=environment.ids,
            voters=lambda: raft.voters,
        )

    clock, rng = environment.clock, environment.random
    fs, log_dir = environment.file_system, config.metadata_log_dir
    return ControllerDriver(
        node_id=config.node_id,
        raft=raft,
        loader=loader,
        make_controller=make,
        clock=clock,
        rng=rng,
        on_fatal=on_fatal,
        on_committed=commit_timed,
        first_users=read_bootstrap_users(fs, log_dir),
        first_levels=read_bootstrap_levels(fs, log_dir),
    )
