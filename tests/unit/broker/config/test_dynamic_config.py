"""Promises of a running node's configuration: who wins, who is told, and that a file is taken whole or not at all."""

from __future__ import annotations

import io
import logging
from dataclasses import replace

import pytest

from broker.config.config import parse_config
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.dynamic_keys import DYNAMIC
from broker.config.keys.config_table import KEYS
from broker.config.node_config import NodeConfig
from broker.node.process.log_output import OF_NODES_LOG, NodeLog
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import ConfigRecord
from penstock.config_keys import Update, config_text
from penstock.errors import ConfigError
from penstock.messages.configs import ConfigSource
from tests.unit.broker.config.test_config import GOOD

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
NEWER = "configuration of a newer release does nothing here: "


class Running:
    """A node's configuration, and the metadata that it hears of."""

    def __init__(self, **file: object) -> None:
        self.dynamic = DynamicBrokerConfig(self.parsed(**file))
        self.image: MetadataImage = EMPTY_IMAGE
        self.heard: list[NodeConfig] = []

    @staticmethod
    def parsed(**file: object) -> NodeConfig:
        return parse_config(GOOD | {name.replace("_", "."): value for name, value in file.items()})

    def commit(self, name: str, /, *pairs: tuple[str, str | None]) -> None:
        """One batch of the metadata log."""
        delta = MetadataDelta(self.image)
        for key, value in pairs:
            delta.replay(ConfigRecord("broker", name, key, value))
        self.image = delta.apply(self.image.offset + len(pairs), 1)
        self.dynamic.published(delta, self.image)

    def listen(self, *keys: str) -> None:
        self.dynamic.listen(self.heard.append, *keys)

    @property
    def rate(self) -> int:
        return self.dynamic.current.leader_replication_throttled_rate

    @property
    def source(self) -> ConfigSource:
        return self.dynamic.source_of(LEADER_RATE)


def test_the_brokers_own_value_wins_over_that_of_all_and_that_over_the_file_and_that_over_the_default() -> None:
    node = Running()
    seen = [(node.rate, node.source)]
    node.dynamic.file_changed(node.parsed(leader_replication_throttled_rate=1))
    seen.append((node.rate, node.source))
    node.commit("1", (LEADER_RATE, "3"))
    seen.append((node.rate, node.source))
    node.commit("", (LEADER_RATE, "2"))
    seen.append((node.rate, node.source))
    node.commit("1", (LEADER_RATE, None))
    seen.append((node.rate, node.source))
    node.commit("", (LEADER_RATE, None))
    seen.append((node.rate, node.source))
    assert seen == [
        (2**63 - 1, ConfigSource.DEFAULT_CONFIG),
        (1, ConfigSource.STATIC_BROKER_CONFIG),
        (3, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (3, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (2, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (1, ConfigSource.STATIC_BROKER_CONFIG),
    ]


def test_who_listens_is_told_once_a_change_and_only_of_its_own_keys() -> None:
    node = Running()
    node.listen(LEADER_RATE, FOLLOWER_RATE)
    node.commit("", (LEADER_RATE, "5"), (FOLLOWER_RATE, "6"))
    assert [c.follower_replication_throttled_rate for c in node.heard] == [6] and node.heard[0] is node.dynamic.current
    node.commit("", ("log.retention.ms", "7"))
    node.commit("2", (LEADER_RATE, "8"))
    node.commit("1", (LEADER_RATE, "5"))  # another source, the same value
    assert len(node.heard) == 1


def test_a_node_takes_what_a_snapshot_of_the_metadata_has_and_lacks() -> None:
    node = Running()
    node.listen(LEADER_RATE)
    node.commit("", (LEADER_RATE, "5"))
    newer = Running()
    newer.commit("1", (LEADER_RATE, "6"))
    node.dynamic.published(MetadataDelta.between(node.image, newer.image), newer.image)
    assert (node.rate, node.source) == (6, ConfigSource.DYNAMIC_BROKER_CONFIG)
    node.dynamic.published(MetadataDelta.between(newer.image, EMPTY_IMAGE), EMPTY_IMAGE)
    assert (node.rate, node.source) == (2**63 - 1, ConfigSource.DEFAULT_CONFIG)
    assert [config.leader_replication_throttled_rate for config in node.heard] == [5, 6, 2**63 - 1]


def test_what_a_newer_release_has_written_does_nothing_and_ends_no_node(caplog: pytest.LogCaptureFixture) -> None:
    node = Running()
    node.commit("", (LEADER_RATE, "5"), ("quantum.flux", "on"), ("node.id", "7"), (FOLLOWER_RATE, "fast"))
    node.commit("1", ("min.insync.replicas", "3"), ("log.roll.ms", "1"), ("log.roll.jitter.ms", "2"))
    assert node.dynamic.current == replace(node.dynamic.file, leader_replication_throttled_rate=5)
    says = NEWER
    assert f"{says}follower.replication.throttled.rate, node.id, quantum.flux" in caplog.messages
    assert f"{says}min.insync.replicas" in caplog.messages
    why = "log.roll.jitter.ms = 2: above log.roll.ms = 1; lower it, or raise the other"
    assert f"{says}log.roll.jitter.ms, log.roll.ms, because of {why}" in caplog.messages


def test_a_rule_that_committed_values_break_takes_its_own_keys_out_and_leaves_the_others_in_force(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Running(log_roll_ms=9)
    for name in ("", "1"):
        node.commit(name, ("logger.level", "raft=trace"), ("log.retention.ms", "-1"))
        node.commit(name, ("log.roll.ms", "1"), ("log.roll.jitter.ms", "2"), (LEADER_RATE, "5"))
        expected = replace(node.dynamic.file, leader_replication_throttled_rate=5, log_retention_ms=-1)
        assert node.dynamic.current == expected
        node.commit(name, ("log.roll.ms", "3"))
        assert (node.dynamic.current.log_roll_ms, node.dynamic.current.log_roll_jitter_ms) == (3, 2)
        for key in ("log.retention.ms", "log.roll.ms", "log.roll.jitter.ms", LEADER_RATE):
            node.commit(name, (key, None))
    assert any(line.startswith(NEWER + "logger.level, because of logger.level = ") for line in caplog.messages)


def test_the_level_of_a_room_of_a_newer_release_does_nothing_and_the_other_levels_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Running()
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        log = NodeLog(stream, node.dynamic.current)
        node.dynamic.listen(log.apply, *OF_NODES_LOG)
        node.commit("", ("logger.level", "warning,asyncio=error,raft=error"), ("log.retention.ms", "-1"))
        assert node.dynamic.current.log_retention_ms == -1
        levels = [logging.getLogger(name).level for name in ("", "asyncio", "raft")]
        assert levels == [logging.WARNING, logging.NOTSET, logging.ERROR]
        assert "logger.level: there is no module asyncio; its level does nothing" in caplog.messages
    finally:
        node.commit("", ("logger.level", None))
        root.handlers[:] = handlers
        root.setLevel(level)


def test_values_in_force_that_do_not_go_together_are_an_error_with_the_remedy_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Running(log_cleaner_enable=False, log_roll_ms=10)
    says = "the metadata sets values that do not go together with others: "
    compact = (
        f"{says}log.cleaner.enable = false: but log.cleanup.policy has compact, so topics would grow for ever; set it "
        "to true, or the policy to delete"
    )
    jitter = f"{says}log.roll.jitter.ms = 11: above log.roll.ms = 10, so a segment could be rolled before it is begun;"

    def errors() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        caplog.clear()
        return found

    node.commit("", ("log.cleanup.policy", "delete,compact"))
    assert errors() == [compact]
    node.commit("", (LEADER_RATE, "5"))
    node.commit("1", ("log.cleanup.policy", "compact"))
    assert errors() == [], "it was said"
    node.commit("1", ("log.cleanup.policy", "delete"), ("log.roll.jitter.ms", "11"))
    assert errors() == [f"{jitter} lower it"]
    node.commit("1", ("log.cleanup.policy", None), ("log.roll.jitter.ms", None))
    assert errors() == [compact]
    node.commit("", ("log.cleanup.policy", None), ("min.insync.replicas", "2"))
    assert errors() == [], "topics may have more replicas than the file's default"


def test_a_file_is_taken_whole(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Running()
    node.listen(LEADER_RATE)
    changed = node.dynamic.file_changed(node.parsed(leader_replication_throttled_rate=5, log_retention_ms=6))
    assert changed == [LEADER_RATE, "log.retention.ms"] and len(node.heard) == 1
    assert (
        "the file, read again, changes the configuration: "
        "leader.replication.throttled.rate = 5 (was 9223372036854775807), log.retention.ms = 6 (was 604800000)"
        in caplog.messages
    )
    assert node.dynamic.file_changed(node.dynamic.file) == [] and len(node.heard) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_io_threads": 9}, "num.io.threads changed: restart the node for that, or take it back"),
        ({"log_dirs": "/nowhere/c"}, "log.dirs, metadata.log.dir changed: restart the node"),
        (
            {"min_insync_replicas": 1, "unclean_leader_election_enable": True},
            "unclean.leader.election.enable changed: take it back, and set it for all brokers with "
            "`penstock configs alter --broker-default`",
        ),
    ],
)
def test_a_file_with_one_key_that_cannot_change_is_refused_whole(changes: dict[str, object], says: str) -> None:
    node = Running(leader_replication_throttled_rate=4)
    node.listen(LEADER_RATE)
    before = node.dynamic.file
    with pytest.raises(ConfigError) as refused:
        node.dynamic.file_changed(node.parsed(leader_replication_throttled_rate=5, **changes))
    assert says in str(refused.value)
    assert (node.dynamic.file, node.dynamic.current, node.heard) == (before, before, [])


def test_what_an_operator_gave_up_at_the_start_outlives_a_reload() -> None:
    dynamic = DynamicBrokerConfig(replace(Running.parsed(), lost_log_dirs=("d",)))
    dynamic.file_changed(Running.parsed(log_retention_ms=5))
    assert dynamic.current.lost_log_dirs == ("d",)


@pytest.mark.parametrize("keys", [(), ("num.io.threads",), (LEADER_RATE, "nope")])
def test_nobody_listens_to_a_key_that_never_changes(keys: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="does not change while a node runs"):
        Running().listen(*keys)


def test_the_default_of_every_key_that_may_change_reads_back_as_its_text() -> None:
    for name, definition in DYNAMIC.items():
        assert definition.parse(config_text(definition.default)) == KEYS[name].default
        assert KEYS[name].update is not Update.RESTART


def test_cordoned_log_dirs_change_while_a_node_runs_and_a_path_of_no_log_dir_is_told_and_cordons_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = Running(cordoned_log_dirs="/nowhere/a")
    running.listen("cordoned.log.dirs")
    running.commit("1", ("cordoned.log.dirs", "/nowhere/b,/elsewhere"))
    assert running.heard[-1].cordoned_dirs == {"/nowhere/b"} and "/elsewhere is not one of log.dirs" in caplog.text
    running.commit("1", ("cordoned.log.dirs", ""))
    assert running.heard[-1].cordoned_dirs == frozenset()
    running.commit("1", ("cordoned.log.dirs", None))
    assert running.heard[-1].cordoned_dirs == {"/nowhere/a"}
