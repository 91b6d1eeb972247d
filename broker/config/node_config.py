"""The configuration of one node, checked and complete: the parts of a node are made from this value.

Made by config.py from a file; the rules between its keys are in config_check.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from broker.config.keys.security_keys import METRICS_LISTENER, ClientAuth, TlsSettings
from metadata.cordon import EVERY_DIR
from metadata.listeners import CONTROLLER_LISTENER, KAFKA_LISTENER
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.types import CLIENT_LISTENER, Endpoint, ListenerEndpoint, ListenerType, SecurityProtocol
from raft.voters import Voter, VoterSet


@dataclass(frozen=True, slots=True)
class ListenerOverrides:
    """The values of listener.name.<name>.… for one listener; None where it sets nothing."""

    max_connections: int | None = None
    max_connection_creation_rate: int | None = None
    connections_max_idle_ms: int | None = None


NO_OVERRIDES = ListenerOverrides()


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The configuration of one node. Attributes are Kafka's names with underscores; see config_table.py for each."""

    node_id: int
    process_roles: frozenset[str]
    listeners: dict[str, Endpoint]
    listener_type_map: Mapping[str, ListenerType]
    advertised_listeners: dict[str, Endpoint]
    inter_broker_listener_name: str
    listener_security_protocol_map: Mapping[str, SecurityProtocol]
    ssl_keystore_location: str
    ssl_keystore_type: str
    ssl_truststore_location: str
    ssl_truststore_type: str
    ssl_client_auth: str
    ssl_principal_mapping_rules: str
    sasl_enabled_mechanisms: tuple[str, ...]
    connections_max_reauth_ms: int
    allow_plaintext_node_listeners: bool
    sasl_oauthbearer_jwks_endpoint_url: str
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    sasl_oauthbearer_expected_audience: tuple[str, ...]
    sasl_oauthbearer_expected_issuer: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_clock_skew_seconds: int
    connection_failed_authentication_delay_ms: int
    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool
    broker_rack: str
    metrics_listener: Endpoint | None
    audit_log_location: str
    controller_quorum_voters: dict[int, Endpoint]
    controller_quorum_bootstrap_servers: tuple[Endpoint, ...]
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_timeout_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    controlled_shutdown_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_per_broker_percentage: int
    leader_imbalance_check_interval_seconds: int
    auto_replica_balance_enable: bool
    auto_replica_balance_check_interval_seconds: int
    replica_placement_one_per_rack: bool
    max_partitions_per_principal_percent: int
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    log_dir_hang_ms_max: int
    cordoned_log_dirs: tuple[str, ...]
    logger_level: tuple[str, ...]
    logger_format: str
    num_io_threads: int
    queued_max_requests: int
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    queued_max_response_bytes: int
    fetch_sessions_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    min_incremental_fetch_session_eviction_ms: int
    max_connections: int
    max_connections_per_ip: int
    max_connection_creation_rate: int
    connections_max_idle_ms: int
    connections_max_write_stall_ms: int
    fetch_max_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    num_partitions: int
    default_replication_factor: int
    min_insync_replicas: int
    message_max_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    log_record_validation: str
    unclean_leader_election_enable: bool
    auto_create_topics_enable: bool
    num_replica_fetchers: int
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_backoff_ms: int
    replica_selector_class: str
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    replica_alter_log_dirs_io_max_bytes_per_second: int
    replica_high_watermark_checkpoint_interval_ms: int
    log_segment_bytes: int
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    num_recovery_threads_per_data_dir: int
    flush_policy: str
    log_cleanup_policy: tuple[str, ...]
    log_retention_ms: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_segment_delete_delay_ms: int
    producer_id_expiration_ms: int
    producer_id_max_per_partition: int
    producer_id_max_per_node: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_max_bytes_per_second: int
    log_cleaner_backoff_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_commit_timeout_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    group_max_size: int
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_coordinator_memory_max_bytes: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    transaction_coordinator_memory_max_bytes: int
    listener_limits: Mapping[str, ListenerOverrides]
    """The values of the keys listener.name.…, by listener."""
    listener_security: Mapping[str, Mapping[str, Any]]
    """The values of the keys listener.name.… of security, by listener and attribute."""
    given: Mapping[str, object] = field(compare=False)
    """The keys that the file gives, by Kafka's names; every other key has its default."""
    lost_log_dirs: tuple[str, ...] = ()
    """Not from the file but from the command line of one start: directory ids that the operator has given up."""
    begins_together: bool = False
    """Not from the file either: all controllers start alike, and the first bootstrap server begins the cluster."""

    @property
    def roles(self) -> frozenset[str]:
        return self.process_roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def first_voters(self) -> VoterSet:
        """The voters that the file names, with which a static quorum begins. None where the metadata log names them
        (broker/quorum/first_voters.py). The quorum's state knows the present ones (raft/voters.py)."""
        at = sorted(self.controller_quorum_voters.items())
        return VoterSet(tuple(Voter(one, endpoints=(ListenerEndpoint(CONTROLLER_LISTENER, to),)) for one, to in at))

    @property
    def cordoned_dirs(self) -> frozenset[str]:
        """The log dirs that get no new replicas. The metadata may name others, which other brokers have."""
        if EVERY_DIR in self.cordoned_log_dirs:
            return frozenset(self.log_dirs)
        return frozenset(map(os.path.normpath, self.cordoned_log_dirs)).intersection(self.log_dirs)

    def listener(self, name: str) -> Endpoint:
        """Where this node listens as `name`; ConfigError if it does not."""
        if name not in self.listeners:
            raise ConfigError(f"listeners: no {name} listener on node {self.node_id}; add {name}://host:port")
        return self.listeners[name]

    @property
    def advertised(self) -> Endpoint:
        """Where clients connect: the broker listener, or on a controller-only node that of the controller."""
        return self.advertised_listeners[CLIENT_LISTENER if self.is_broker else CONTROLLER_LISTENER]

    @property
    def client_listeners(self) -> tuple[str, ...]:
        """The names of the listeners for clients, of both types, BROKER first; none on a node that is a controller
        alone."""
        not_for_clients = (CONTROLLER_LISTENER, self.inter_broker_listener_name)
        return tuple(sorted(set(self.listeners).difference(not_for_clients), key=lambda n: (n != CLIENT_LISTENER, n)))

    def listener_type(self, name: str) -> ListenerType:
        """The protocol that the listener speaks, given or by its name."""
        by_name = ListenerType.KAFKA if name == KAFKA_LISTENER else ListenerType.GRPC
        return self.listener_type_map.get(name, by_name)

    def security_protocol(self, listener: str) -> SecurityProtocol:
        """The security of the listener of that name, on this node and on every other one."""
        return self.listener_security_protocol_map.get(listener, SecurityProtocol.PLAINTEXT)

    def security_of(self, listener: str, attribute: str) -> Any:
        """The value of a key of security at one listener: its own, or that of all."""
        return self.listener_security.get(listener, {}).get(attribute, getattr(self, attribute))

    def tls(self, listener: str) -> TlsSettings:
        """The certificates at a listener with TLS. Nodes always show each other theirs."""
        is_of_nodes = listener in (CONTROLLER_LISTENER, self.inter_broker_listener_name)
        client_auth = ClientAuth(self.security_of(listener, "ssl_client_auth"))
        return TlsSettings(
            self.security_of(listener, "ssl_keystore_location"),
            self.security_of(listener, "ssl_truststore_location"),
            ClientAuth.REQUIRED if is_of_nodes else client_auth,
            self.security_of(listener, "ssl_principal_mapping_rules"),
        )

    @property
    def tls_listeners(self) -> tuple[str, ...]:
        """The listeners with TLS where this node listens or to which it connects, by name."""
        here = {*self.listeners, CONTROLLER_LISTENER} | ({self.inter_broker_listener_name} if self.is_broker else set())
        here |= set() if self.metrics_listener is None else {METRICS_LISTENER}
        return tuple(sorted(name for name in here if self.security_protocol(name).is_tls))

    @property
    def super_user_principals(self) -> tuple[str, ...]:
        """The principals of super.users. Distinguished names have commas, so semicolons part them."""
        return tuple(name.strip() for name in self.super_users.split(";") if name.strip())

    @property
    def grpc_client_listeners(self) -> tuple[str, ...]:
        """The listeners for clients that speak gRPC, BROKER first."""
        return tuple(n for n in self.client_listeners if self.listener_type(n) is ListenerType.GRPC)

    @property
    def kafka_listeners(self) -> tuple[str, ...]:
        """The listeners for clients that speak Kafka's protocol."""
        return tuple(n for n in self.client_listeners if self.listener_type(n) is ListenerType.KAFKA)

    @property
    def more_advertised(self) -> tuple[ListenerEndpoint, ...]:
        """Where clients connect besides BROKER, by listener."""
        names = [name for name in self.client_listeners if name != CLIENT_LISTENER]
        return tuple(ListenerEndpoint(name, self.advertised_listeners[name]) for name in names)

    def overrides(self, listener: str) -> ListenerOverrides:
        """The values that are set for this listener alone."""
        return self.listener_limits.get(listener, NO_OVERRIDES)

    @property
    def inter_broker_advertised(self) -> Endpoint:
        """The endpoint that the other brokers connect to."""
        return self.advertised_listeners[self.inter_broker_listener_name]
