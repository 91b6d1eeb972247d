"""The controller's facts about the cluster at its start, and its limits with the reason for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from metadata.broker_config import BrokerConfigs
from metadata.features import TABLE, FeatureTable
from penstock.config_keys import ConfigValue
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.acl_rules import ACLS_MAX


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Fixed for the life of a controller. Values that the metadata has for all brokers win (cluster_defaults.py)."""

    cluster_id: str
    session_timeout_ms: int = 9_000  # broker.session.timeout.ms
    num_partitions: int = 1  # num.partitions
    default_replication_factor: int = 1  # default.replication.factor
    leader_rebalance_enable: bool = True  # auto.leader.rebalance.enable
    leader_imbalance_percentage: int = 10  # leader.imbalance.per.broker.percentage
    leader_imbalance_check_interval_ms: int = 300_000  # leader.imbalance.check.interval.seconds
    replica_balance_enable: bool = False  # auto.replica.balance.enable
    replica_balance_check_interval_ms: int = 300_000  # auto.replica.balance.check.interval.seconds
    one_replica_per_rack: bool = False  # replica.placement.one.per.rack
    topic_defaults: Mapping[str, ConfigValue] = field(default_factory=dict)  # typed, by topic key or broker key
    broker_configs: BrokerConfigs = field(default_factory=BrokerConfigs)  # the keys that the metadata may have
    features: FeatureTable = TABLE  # what this node knows of levels
    max_brokers: int = 1_000  # every heartbeat and every placement looks at all of them
    max_partitions_per_topic: int = 10_000  # a change to a topic copies the table of its partitions
    max_partitions: int = 100_000  # of the cluster: the image is in every node's memory
    max_partitions_per_principal_percent: int = 50  # max.partitions.per.principal.percent
    max_records_per_decision: int = 11_000  # one atomic batch of the log: the largest topic with all of its configs
    max_elections_per_step: int = 500  # 25 ms of the event loop, one batch of the log; Kafka elects 1,000 at a time
    max_leader_looks_per_step: int = 5_000  # those of a broker that is in no ISR yet elect nobody
    max_moving_partitions: int = 20  # of the schedule: few enough that their copies do not crowd out clients
    max_replica_looks_per_step: int = 1_000  # some 10 ms of the event loop
    max_acls: int = ACLS_MAX
    max_acls_compared: int = 500_000  # with the filters of one request: 0.3 s. One with every field compares none
    max_items_per_request: int = 10_000  # topics, partitions or resources that one request may name
