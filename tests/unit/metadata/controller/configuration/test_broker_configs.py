"""Changing the configuration of brokers: which keys, of whom, and what else a value for all brokers changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.dynamic_keys import BROKER_CONFIGS
from broker.config.keys.config_table import KEYS
from metadata.controller.config import ControllerConfig
from metadata.controller.configuration.cluster_defaults import ClusterDefaults
from metadata.controller.state import ControllerState
from metadata.image import image_records
from metadata.records import ConfigRecord, UnregisterBrokerRecord
from penstock.config_keys import Update, config_text
from penstock.errors import (
    BrokerIdNotRegisteredError,
    InvalidConfigError,
    InvalidRequestError,
    PolicyViolationError,
)
from penstock.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from penstock.types import NO_LEADER
from tests.unit.metadata.harness import CLUSTER_ID, SESSION_TIMEOUT_MS, Cluster, is_error, raised_by

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
CONFIG = ControllerConfig(CLUSTER_ID, SESSION_TIMEOUT_MS, broker_configs=BROKER_CONFIGS)
RATE = "leader.replication.throttled.rate"


def cluster_of(brokers: int, config: ControllerConfig = CONFIG) -> Cluster:
    return Cluster(brokers, config)


def alter(cluster: Cluster, name: str, **changes: str | None) -> Exception | None:
    return cluster.configure(name, {key.replace("_", "."): value for key, value in changes.items()}, "broker")


def of(cluster: Cluster, name: str) -> dict[str, str]:
    """The metadata's values for a broker."""
    records = [record for record in image_records(cluster.image) if isinstance(record, ConfigRecord)]
    found = [record for record in records if (record.resource_type, record.resource_name) == ("broker", name)]
    return {record.key: record.value or "" for record in found}


def test_one_broker_and_all_brokers_have_values_of_their_own_which_a_snapshot_keeps() -> None:
    cluster = cluster_of(2)
    assert alter(cluster, "1", leader_replication_throttled_rate=" 5 ", log_retention_ms="-1") is None
    assert alter(cluster, "", leader_replication_throttled_rate="6") is None
    assert of(cluster, "1") == {"log.retention.ms": "-1", RATE: "5"} and of(cluster, "") == {RATE: "6"}
    cluster.fail_over()
    end = cluster.next_offset
    assert alter(cluster, "1", log_retention_ms="-1") is None and cluster.next_offset == end, "no record of no change"
    assert alter(cluster, "1", log_retention_ms=None, leader_replication_throttled_rate=None) is None
    assert alter(cluster, "2", log_retention_ms=None) is None, "it has none"
    assert of(cluster, "1") == of(cluster, "2") == {} and of(cluster, "") == {RATE: "6"}


BAD: dict[str, tuple[str, dict[str, str | None], type[Exception], str]] = {
    "unknown": (
        "",
        {"log.retention.mss": "1"},
        InvalidConfigError,
        "unknown broker config 'log.retention.mss'; did you mean log.retention.ms?",
    ),
    "unknown, to be deleted": (
        "1",
        {"nope": None},
        InvalidConfigError,
        "unknown broker config 'nope'; docs/configuration.md has all keys",
    ),
    "long": ("1", {"x" * 100_000: "1"}, InvalidConfigError, f"unknown broker config '{'x' * 64}';"),
    "a topic's": ("", {"retention.ms": "1"}, InvalidConfigError, "did you mean log.retention.ms?"),
    "fixed": (
        "",
        {"num.io.threads": "9"},
        InvalidConfigError,
        "num.io.threads cannot change while a broker runs; set it in the node's configuration file, and",
    ),
    "identity": ("1", {"node.id": "2"}, InvalidConfigError, "node.id cannot change while a broker runs"),
    "for all only": (
        "1",
        {"min.insync.replicas": "2"},
        InvalidConfigError,
        "min.insync.replicas cannot differ between brokers, because the controller uses it; set it for all",
    ),
    "no number": (
        "",
        {RATE: "fast"},
        InvalidConfigError,
        f"invalid value 'fast' for {RATE}: it must be a number (long) from 1 to",
    ),
    "too low": ("1", {RATE: "0"}, InvalidConfigError, f"invalid value '0' for {RATE}"),
    "no choice": ("", {"compression.type": "lzma"}, InvalidConfigError, "one of producer, uncompressed"),
    "no level": (
        "1",
        {"logger.level": "info,broker.apis=loud"},
        InvalidConfigError,
        'logger.level = "broker.apis=loud": a level is one of debug',
    ),
    "an empty item": ("1", {"logger.level": "info,"}, InvalidConfigError, "logger.level"),
    "long value": (
        "1",
        {"logger.level": "info" + ",broker=debug" * 1_000},
        InvalidConfigError,
        "has 13004 characters; 4096 are allowed",
    ),
    "against another": (
        "",
        {"log.roll.ms": "5", "log.roll.jitter.ms": "6"},
        InvalidConfigError,
        "log.roll.jitter.ms = 6: above log.roll.ms = 5",
    ),
    "no id": (
        "one",
        {RATE: "1"},
        InvalidRequestError,
        "'one' is not a broker id; give a number like '1', or '' for all brokers",
    ),
    "another form": ("01", {RATE: "1"}, InvalidRequestError, "'01' is not a broker id"),
    "negative": ("-1", {RATE: "1"}, InvalidRequestError, "'-1' is not a broker id"),
    "huge": ("9" * 5_000, {RATE: "1"}, InvalidRequestError, "is not a broker id"),
    "not registered": (
        "3",
        {RATE: "1"},
        BrokerIdNotRegisteredError,
        "broker 3 is not registered; `penstock cluster describe` shows",
    ),
    "not registered, deletes": ("3", {RATE: None}, BrokerIdNotRegisteredError, "broker 3 is not registered"),
}


@pytest.mark.parametrize("row", BAD)
def test_one_bad_change_refuses_all_changes_of_its_broker(row: str) -> None:
    name, changes, error, says = BAD[row]
    cluster = cluster_of(2)
    cluster.configure("1", {"log.segment.bytes": "4096"}, "broker")
    before = cluster.image
    assert is_error(cluster.configure(name, {"log.segment.bytes": "8192", **changes}, "broker"), error, says)
    assert is_error(cluster.configure(name, {**changes, "log.segment.bytes": "8192"}, "broker"), error, says)
    if row != "not registered, deletes":
        assert is_error(cluster.configure(name, changes, "broker"), error, says)
    assert cluster.image is before


@pytest.mark.parametrize("key", [key.name for key in KEYS.values()])
def test_every_key_of_a_node_may_change_as_its_table_says_and_no_other_way(key: str) -> None:
    cluster, update = cluster_of(1), KEYS[key].update
    value = "1" if update is Update.RESTART else config_text(KEYS[key].default)
    assert (cluster.configure("", {key: value}, "broker") is None) == (update is not Update.RESTART)
    assert (cluster.configure("1", {key: value}, "broker") is None) == (update is Update.NODE)


def test_what_a_broker_would_have_in_the_end_must_go_together() -> None:
    cluster = cluster_of(2)
    assert alter(cluster, "", log_roll_ms="10") is None
    says = "log.roll.jitter.ms = 11: above log.roll.ms = 10"
    assert is_error(alter(cluster, "1", log_roll_jitter_ms="11"), InvalidConfigError, says)
    assert alter(cluster, "1", log_roll_jitter_ms="9") is None
    assert is_error(alter(cluster, "", log_roll_ms="8"), InvalidConfigError, "log.roll.jitter.ms = 9: above")
    assert of(cluster, "") == {"log.roll.ms": "10"} and of(cluster, "1") == {"log.roll.jitter.ms": "9"}


def test_lists_grow_and_shrink_from_what_the_metadata_has_or_else_from_the_default() -> None:
    cluster = cluster_of(1)

    def change(operation: ConfigOperation, value: str) -> Exception | None:
        return cluster.alter_configs("1", ConfigChange("logger.level", operation, value), resource_type="broker")

    assert change(APPEND, "raft=debug") is None
    assert of(cluster, "1") == {"logger.level": "info,raft=debug"}
    assert change(SUBTRACT, "info") is None and of(cluster, "1") == {"logger.level": "raft=debug"}
    assert is_error(change(SUBTRACT, "raft=debug"), InvalidConfigError, "would be empty")


def test_several_brokers_may_stand_in_a_request_and_all_brokers_only_alone() -> None:
    cluster = cluster_of(2)
    change = (ConfigChange(RATE, SET, "5"),)
    resources = [AlterConfigsResource("broker", name, change) for name in ("1", "3", "2")]
    results = cluster.commit(cluster.controller.alter_configs(AlterConfigsRequest(tuple(resources)), 0)).resources
    assert [type(result.error) for result in results] == [type(None), BrokerIdNotRegisteredError, type(None)]
    assert of(cluster, "1") == of(cluster, "2") == {RATE: "5"}
    request = AlterConfigsRequest((*resources, AlterConfigsResource("broker", "", change)))
    error = raised_by(lambda: cluster.controller.alter_configs(request, 0))
    assert is_error(error, InvalidRequestError, "the configuration of all brokers must be the only resource")


def test_what_is_left_of_a_broker_that_is_gone_can_be_deleted_and_not_changed() -> None:
    cluster = cluster_of(2)
    alter(cluster, "2", leader_replication_throttled_rate="5", log_retention_ms="1")
    epoch = cluster.image.brokers[2].broker_epoch
    record = UnregisterBrokerRecord(2, epoch)
    cluster.controller.replay(record, cluster.next_offset)
    assert is_error(alter(cluster, "2", leader_replication_throttled_rate="6"), BrokerIdNotRegisteredError)
    request = AlterConfigsRequest((AlterConfigsResource("broker", "2", (ConfigChange(RATE, DELETE),)),))
    result = cluster.controller.alter_configs(request, 0)
    assert result.records == (ConfigRecord("broker", "2", RATE, None),)


def test_keys_of_a_newer_release_stay_and_do_nothing() -> None:
    cluster = cluster_of(1, replace(CONFIG, topic_defaults={"min.insync.replicas": 1}))
    for record in (
        ConfigRecord("broker", "", "quantum.flux", "on"),
        ConfigRecord("broker", "", "min.insync.replicas", "many"),
        ConfigRecord("cluster", "", "x", "y"),
    ):
        cluster.log.append(record)
        cluster.controller.replay(record, cluster.next_offset - 1)
    cluster.create("t")
    assert alter(cluster, "", leader_replication_throttled_rate="5") is None
    assert cluster.controller.to_image(1).configs.keys() >= {("broker", ""), ("cluster", "")}
    kept = dict(cluster.controller.to_image(1).configs.items())
    assert {"quantum.flux": "on", "min.insync.replicas": "many", RATE: "5"} in kept.values()
    assert alter(cluster, "", quantum_flux=None) is None, "it can be deleted"


def test_values_that_do_not_go_together_are_out_of_force_and_hold_up_no_other_change() -> None:
    cluster = cluster_of(1, replace(CONFIG, topic_defaults={"log.roll.ms": 9}))
    of_newer = {"logger.level": "quantum=debug", "log.roll.ms": "1", "log.roll.jitter.ms": "2", "log.retention.ms": "7"}
    for key, value in of_newer.items():
        record = ConfigRecord("broker", "", key, value)
        cluster.log.append(record)
        cluster.controller.replay(record, cluster.next_offset - 1)
    texts = cluster.controller.to_image(1).configs[ConfigResource("broker", "")]
    defaults = ClusterDefaults(cluster.config, ControllerState(cluster.controller.to_image(1))).topic_defaults
    expected = {"logger.level": ("quantum=debug",), "log.retention.ms": 7}
    assert BROKER_CONFIGS.in_force(texts, "") == expected, "what brokers use"
    assert defaults == {"log.roll.ms": 9, **expected}, "and the controller"
    assert alter(cluster, "", log_retention_ms="8") is None
    assert is_error(alter(cluster, "", log_roll_jitter_ms="3"), InvalidConfigError, "log.roll.jitter.ms = 3: above")
    assert alter(cluster, "", log_roll_ms="3") is None
    assert is_error(alter(cluster, "", logger_level="quantum=info"), InvalidConfigError, "a logger begins with one of")


def with_elrs(count: int = 1, config: ControllerConfig = CONFIG, **own: str) -> Cluster:
    """Topics 0, 1, … of three replicas: one is in sync, another one eligible, while all brokers say two in sync."""
    cluster = cluster_of(3, config)
    assert alter(cluster, "", min_insync_replicas="2") is None
    for number in range(count):
        cluster.create(str(number), 1, 3, config={key.replace("_", "."): value for key, value in own.items()})
    for broker_id in (1, 2):
        cluster.let_die(broker_id)
    assert all(cluster.partition(str(number)).elr for number in range(count))
    return cluster


def test_a_lower_min_isr_for_all_empties_the_elrs_before_it_counts() -> None:
    cluster = with_elrs()
    end = cluster.next_offset
    assert alter(cluster, "", min_insync_replicas=None) is None
    assert cluster.partition("0").elr == ()
    assert [type(record).__name__ for record in cluster.log[end:]] == ["PartitionChangeRecord", "ConfigRecord"]


def test_a_topics_own_min_isr_does_not_change_with_that_for_all() -> None:
    cluster = with_elrs(min_insync_replicas="2")
    before = cluster.partition("0")
    assert alter(cluster, "", min_insync_replicas="1") is None
    assert cluster.partition("0") == before


@pytest.mark.parametrize("own", [None, "false"])
def test_unclean_elections_for_all_elect_at_once_where_the_topic_does_not_say_no(own: str | None) -> None:
    cluster = cluster_of(2)
    cluster.create("t", 1, 2, config={} if own is None else {"unclean.leader.election.enable": own})
    leader = cluster.partition("t").leader_id
    other = 3 - leader
    cluster.alter(leader, cluster.proposal("t", (leader,)))
    cluster.let_die(leader)
    assert cluster.partition("t").leader_id == NO_LEADER
    assert alter(cluster, "", unclean_leader_election_enable="true") is None
    assert cluster.partition("t").leader_id == (other if own is None else NO_LEADER)
    assert cluster.controller.statistics().unclean_elections == (own is None)


def test_a_new_controller_goes_by_the_same_values() -> None:
    cluster = cluster_of(2, replace(CONFIG, topic_defaults={"unclean.leader.election.enable": False}))
    cluster.create("t", 1, 2)
    alter(cluster, "", unclean_leader_election_enable="true")
    cluster.fail_over()
    leader = cluster.partition("t").leader_id
    cluster.alter(leader, cluster.proposal("t", (leader,)))
    cluster.let_die(leader)
    assert cluster.partition("t").leader_id == 3 - leader


def test_a_value_for_all_that_would_change_too_many_partitions_is_refused_until_topics_have_it() -> None:
    cluster = with_elrs(4, replace(CONFIG, max_records_per_decision=3))
    error = alter(cluster, "", min_insync_replicas="1")
    assert is_error(error, PolicyViolationError, "5 records would be needed, most of them of partitions")
    assert is_error(error, PolicyViolationError, "first, one after the other: `penstock configs alter TOPIC --set KEY=")
    assert of(cluster, "") == {"min.insync.replicas": "2"} and cluster.partition("0").elr
    for topic in ("0", "1"):
        assert cluster.configure(topic, {"min.insync.replicas": "1"}) is None
    assert alter(cluster, "", min_insync_replicas="1") is None, "the other two have room in one batch"
    assert not any(cluster.partition(str(number)).elr for number in range(4))
    for topic in ("0", "1"):
        assert cluster.configure(topic, {"min.insync.replicas": None}) is None, "and then topics need none of their own"


def test_unclean_elections_for_all_that_would_be_too_many_at_once_are_allowed_topic_by_topic() -> None:
    cluster = with_elrs(4, replace(CONFIG, max_records_per_decision=3))
    cluster.let_die(3)
    cluster.start(1, replicas=cluster.held_by(1))
    assert not any(cluster.partition(str(number)).has_leader for number in range(4))
    error = alter(cluster, "", unclean_leader_election_enable="true")
    assert is_error(error, PolicyViolationError, "5 records would be needed, most of them of partitions")
    for topic in ("0", "1"):
        assert cluster.configure(topic, {"unclean.leader.election.enable": "true"}) is None
    assert alter(cluster, "", unclean_leader_election_enable="true") is None
    assert all(cluster.partition(str(number)).leader_id == 1 for number in range(4))


def test_the_schedule_of_preferred_leaders_follows_the_values_for_all() -> None:
    cluster = cluster_of(1)
    balance = cluster.controller._leader_balance

    def due_ms() -> int | None:
        cluster.heartbeat(1)
        cluster.commit(cluster.controller.tick(cluster.now_ms))
        return balance.next_deadline_ms

    assert due_ms() == 300_000
    alter(cluster, "", leader_imbalance_check_interval_seconds="20")
    assert due_ms() == 20_000
    alter(cluster, "", auto_leader_rebalance_enable="false")
    cluster.now_ms = 5_000
    assert due_ms() is None
    alter(cluster, "", auto_leader_rebalance_enable=None)
    assert due_ms() == 25_000, "an interval after it was switched on"
