"""NodeConfig from flat names: what is filled in, and the one line that each kind of bad value gets."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from broker.config.config import load_config, parse_config
from broker.config.config_reference import reference
from broker.config.keys.config_table import KEYS
from broker.config.keys.kafka_keys import KAFKA_KEYS, hint
from broker.config.node_config import NodeConfig
from broker.quorum.metadata_publisher import topic_defaults
from metadata.topic_config import TOPIC_CONFIGS
from penstock.config_keys import REQUIRED
from penstock.errors import ConfigError
from penstock.types import Endpoint
from raft.voters import NO_VOTERS

INTERNAL = "INTERNAL://127.0.0.1:9194"
GOOD: dict[str, object] = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "listeners": f"BROKER://127.0.0.1:9192,{INTERNAL},CONTROLLER://127.0.0.1:9193",
    "controller.quorum.voters": "1@127.0.0.1:9193,2@127.0.0.1:9195",
    "log.dirs": "/nowhere/a,/nowhere/b",
}


def parse(**changes: object) -> NodeConfig:
    """GOOD with some keys changed (underscores for dots); None removes a key."""
    values = GOOD | {name.replace("_", "."): value for name, value in changes.items()}
    return parse_config({name: value for name, value in values.items() if value is not None})


def refusal(**changes: object) -> str:
    """The one line with which a changed GOOD is refused."""
    with pytest.raises(ConfigError) as caught:
        parse(**changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_key_of_the_table_is_an_attribute_and_nothing_else_is() -> None:
    attributes = {field.name for field in dataclasses.fields(NodeConfig)}
    assert {key.attribute for key in KEYS.values()} == attributes - {
        "begins_together",
        "given",
        "listener_limits",
        "listener_security",
        "lost_log_dirs",
    }


def test_every_default_is_acceptable_to_its_own_key() -> None:
    given = {name: key.default for name, key in KEYS.items() if key.default is not REQUIRED}
    explicit = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    assert parse_config(explicit | GOOD) == parse_config(GOOD)


def test_a_good_configuration_has_typed_attributes() -> None:
    config = parse(metrics_listener="127.0.0.1:9404", log_segment_bytes=4096)
    assert config.node_id == 1
    assert config.roles == {"broker", "controller"} and config.is_broker and config.is_controller
    assert config.listener("BROKER") == config.advertised == Endpoint("127.0.0.1", 9192)
    assert config.first_voters.listed("CONTROLLER") == "1@127.0.0.1:9193, 2@127.0.0.1:9195"
    assert config.log_dirs == ("/nowhere/a", "/nowhere/b")
    assert config.metadata_log_dir == "/nowhere/a"
    assert config.metrics_listener == Endpoint("127.0.0.1", 9404)
    assert config.log_segment_bytes == 4096 and config.flush_policy == "fsync"


def test_a_list_may_be_a_toml_list_or_one_string_with_commas() -> None:
    assert parse(log_dirs=["/nowhere/a", "/nowhere/b"]) == parse()


def test_relative_log_dirs_are_made_absolute() -> None:
    assert parse(log_dirs="data").log_dirs == (os.path.abspath("data"),)


def test_ipv6_hosts_are_written_in_brackets() -> None:
    config = parse(listeners="BROKER://[::1]:9192,INTERNAL://[::1]:9194,CONTROLLER://[::1]:9193")
    assert config.listener("BROKER") == Endpoint("::1", 9192)


def test_a_controller_on_all_addresses_is_advertised_as_the_voter_list_names_it() -> None:
    config = parse(listeners=f"BROKER://127.0.0.1:9192,{INTERNAL},CONTROLLER://0.0.0.0:9193")
    assert config.advertised_listeners["CONTROLLER"] == Endpoint("127.0.0.1", 9193)


def test_a_broker_on_all_addresses_may_be_advertised_by_name() -> None:
    config = parse(
        listeners=f"BROKER://:9192,{INTERNAL},CONTROLLER://127.0.0.1:9193",
        advertised_listeners="BROKER://log.example.org:9192",
    )
    assert config.listener("BROKER").host == "0.0.0.0"
    assert config.advertised == Endpoint("log.example.org", 9192)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("log.segment.byte", "log.segment.bytes"), ("nodeid", "node.id"), ("min.insync.replica", "min.insync.replicas")],
)
def test_an_unknown_key_names_the_nearest_known_one(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f'unknown key "{name}"; did you mean {nearest}\\?'):
        parse_config(GOOD | {name: 1})


def test_a_key_of_kafkas_that_is_not_here_is_answered_with_what_does_it_or_why_nothing_does() -> None:
    with pytest.raises(ConfigError, match=r"log.retention.hours is log.retention.ms here: .* hours × 3600000"):
        parse_config(GOOD | {"log.retention.hours": 168})
    with pytest.raises(ConfigError, match="no such key here: the key is not encrypted"):
        parse_config(GOOD | {"ssl.key.password": "x"})


def test_the_table_of_kafkas_keys_points_to_keys_that_are_here_and_repeats_none() -> None:
    names = [key.name for key in KAFKA_KEYS]
    assert {key.ours for key in KAFKA_KEYS} - {""} <= KEYS.keys()
    assert len(names) == len(set(names)) and not set(names) & KEYS.keys()
    assert [name for name in names if not hint(name.replace("*", "x"))] == []


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("segment.ms", "log.roll.ms"),
        ("flush.ms", "log.flush.interval.ms"),
        ("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    ],
)
def test_a_topics_key_is_answered_with_the_nodes_and_not_with_a_similar_one(name: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"it is a topic's key; for a node it is {ours}$"):
        parse_config(GOOD | {name: 1000})


def test_an_unknown_key_like_no_other_is_to_be_removed() -> None:
    with pytest.raises(ConfigError, match='unknown key "xyzzy"; remove it'):
        parse_config(GOOD | {"xyzzy": 1})


def test_every_unknown_key_of_a_file_is_named_at_once_up_to_a_limit() -> None:
    assert re.findall(r'unknown key "([a-z.]+)"', refusal(num_network_threads=3, xyzzy=1, log_dir="/d")) == [
        "num.network.threads",
        "xyzzy",
        "log.dir",
    ]
    many = refusal(**{f"xyzzy{number}": 1 for number in range(25)})
    assert many.count("unknown key") == 20 and many.endswith(". And 5 more")


@pytest.mark.parametrize("name", ["node.id", "process.roles", "listeners", "log.dirs"])
def test_a_key_without_default_must_be_set(name: str) -> None:
    assert refusal(**{name.replace(".", "_"): None}).startswith(f"{name} is not set")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("log_segment_bytes", "1GB", "must be an integer of bytes; write 1073741824"),
        ("log_segment_bytes", "4096", "write 4096 without quotes"),
        ("log_segment_bytes", "4096ms", "write it like 1073741824"),
        ("log_roll_ms", "7d", "write 604800000"),
        ("log_roll_ms", 1.5, "log.roll.ms = 1.5: must be an integer of ms"),
        ("num_io_threads", True, "num.io.threads = true: must be an integer"),
        ("num_io_threads", 0, "out of range; must be from 1 to 1024"),
        ("message_max_bytes", 2**31, "must be from 0 to 2147483647 bytes"),
        ("node_id", -1, "node.id = -1: out of range"),
        ("unclean_leader_election_enable", "yes", "write true or false"),
        ("flush_policy", "fsnc", "must be one of fsync, os; did you mean fsync?"),
        (
            "compression_type",
            "zst",
            "must be one of producer, uncompressed, gzip, snappy, lz4, zstd; did you mean zstd?",
        ),
        ("compression_gzip_level", 0, "must be from 1 to 9, or -1"),
        ("compression_lz4_level", 18, "must be from 1 to 17"),
        ("compression_zstd_level", 23, "must be from -131072 to 22"),
        (
            "log_cleaner_min_cleanable_ratio",
            1.5,
            "= 1.5: out of range; must be from 0 to 1",
        ),
        ("log_cleaner_min_cleanable_ratio", float("nan"), "out of range"),
        ("log_cleaner_min_cleanable_ratio", "half", "must be a number; write it like 0.5"),
        ("log_retention_ms", -2, "must be from -1 to"),
        ("log_cleanup_policy", "compcat", "did you mean compact?"),
        ("broker_rack", 7, "must be a string of one line"),
        ("log_dirs", 7, "must be a list of strings"),
        ("log_dirs", ["/a", 7], "must be a list of strings"),
        ("log_dirs", "/a,,/b", "has an empty item"),
        ("log_dirs", "", "log.dirs is empty"),
        ("log_dirs", [], "log.dirs is empty"),
        ("metrics_listener", "9404", "must be host:port"),
        ("metrics_listener", "127.0.0.1:99999", "port 99999 is out of range"),
        ("metrics_listener", "127.0.0.1:9192", "127.0.0.1:9192 is used twice"),
    ],
)
def test_a_bad_value_gets_its_key_its_value_and_the_remedy(key: str, value: object, says: str) -> None:
    message = refusal(**{key: value})
    assert message.startswith(key.replace("_", ".")) or "used twice" in message
    assert says in message


def test_numbers_of_more_digits_than_python_reads_are_refused_like_others() -> None:
    for key, value, says in (
        ("log_segment_bytes", "9" * 5_000, "write it like 1073741824"),
        ("log_segment_bytes", "9" * 5_000 + "k", "write it like 1073741824"),
        ("log_segment_bytes", 1 << 20_000, "= a number of thousands of digits: out of range; must be from"),
        ("log_cleaner_min_cleanable_ratio", 1 << 20_000, "= a number of thousands of digits: out of range; must be"),
        ("log_dirs", [1 << 20_000], "must be a list of strings"),
        ("controller_quorum_voters", "9" * 5_000 + "@h:1", "must be id@host:port"),
    ):
        message = refusal(**{key: value})
        assert message.startswith(key.replace("_", ".")) and says in message and len(message) < 400


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"process_roles": ""}, "process.roles is empty"),
        ({"process_roles": "brokr"}, "did you mean broker?"),
        ({"process_roles": "broker,broker"}, "broker is given twice"),
        ({"listeners": f"BROKER://127.0.0.1:9192,{INTERNAL}"}, "add CONTROLLER://host:port"),
        ({"listeners": "BROKER://127.0.0.1:9192,CONTROLLER://127.0.0.1:9193"}, "add INTERNAL://host:port"),
        ({"inter_broker_listener_name": "NODES"}, "add NODES://host:port"),
        ({"inter_broker_listener_name": "BROKER"}, "must be a name in capitals other than BROKER and CONTROLLER"),
        ({"inter_broker_listener_name": "nodes"}, "must be a name in capitals"),
        ({"listeners": "CONTROLLER://127.0.0.1:9193"}, "add BROKER://host:port"),
        ({"process_roles": "controller"}, "process.roles does not have broker"),
        ({"listeners": "PLAINTEXT://127.0.0.1:9192"}, "add BROKER://host:port"),
        ({"listeners": "BROKER://127.0.0.1:0,CONTROLLER://127.0.0.1:9193"}, "port 0 is out of range"),
        ({"listeners": f"BROKER://127.0.0.1:1,{INTERNAL},CONTROLLER://127.0.0.1:1"}, "127.0.0.1:1 is used twice"),
        ({"listeners": "BROKER://a:1,BROKER://a:2"}, "BROKER is given twice"),
        (
            {"listeners": f"BROKER://0.0.0.0:9192,{INTERNAL},CONTROLLER://127.0.0.1:9193"},
            'set advertised.listeners = "BROKER://',
        ),
        (
            {"listeners": "BROKER://127.0.0.1:9192,INTERNAL://:9194,CONTROLLER://127.0.0.1:9193"},
            'set advertised.listeners = "INTERNAL://',
        ),
        ({"advertised_listeners": "BROKER://0.0.0.0:9192"}, "nobody can connect to BROKER://0.0.0.0:9192"),
        ({"advertised_listeners": "BROKER://:9192"}, "nobody can connect"),
        ({"advertised_listeners": "BROKER://0:9192"}, "nobody can connect"),
        ({"advertised_listeners": "BROKER://[::0]:9192"}, "nobody can connect"),
    ],
)
def test_roles_and_listeners_must_agree(changes: dict[str, object], says: str) -> None:
    assert says in refusal(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"controller_quorum_voters": "2@127.0.0.1:9195"}, "this controller is missing; add 1@host:port"),
        ({"controller_quorum_voters": "1@a:1,1@a:2"}, "node id 1 is given twice"),
        ({"controller_quorum_voters": "1@a:1,2@a:1"}, "a:1 is given twice"),
        ({"controller_quorum_voters": "1@0.0.0.0:9193"}, "name the host"),
        ({"controller_quorum_voters": "1@[0::0]:9193"}, "name the host"),
        ({"controller_quorum_voters": "127.0.0.1:9193"}, "must be id@host:port"),
        (
            {"process_roles": "broker", "listeners": f"BROKER://127.0.0.1:9192,{INTERNAL}"},
            "node 1 is a voter, but its process.roles does not have controller",
        ),
    ],
)
def test_the_voter_list_must_fit_this_node(changes: dict[str, object], says: str) -> None:
    message = refusal(**changes)
    assert message.startswith("controller.quorum.voters") and says in message


def test_a_node_without_voters_finds_them_by_bootstrap_servers() -> None:
    changes = {"controller_quorum_voters": None, "controller_quorum_bootstrap_servers": "127.0.0.1:9193,[::1]:9195"}
    config = parse(**changes, controller_quorum_auto_join_enable=True)
    assert config.controller_quorum_bootstrap_servers == (Endpoint("127.0.0.1", 9193), Endpoint("::1", 9195))
    assert config.first_voters == NO_VOTERS and config.controller_quorum_auto_join_enable
    assert parse().controller_quorum_bootstrap_servers == ()
    assert not parse().controller_quorum_auto_join_enable, "as in Kafka, only who says so joins"
    both = parse(controller_quorum_bootstrap_servers=["127.0.0.1:9193"])
    assert len(both.first_voters) == 2, "the file of a node whose quorum is on its way from static to dynamic"


@pytest.mark.parametrize("role", ["broker", "controller"])
@pytest.mark.parametrize("voters", [None, "", []])
def test_every_node_needs_a_way_to_the_controllers(role: str, voters: object) -> None:
    listeners = "CONTROLLER://127.0.0.1:9193" if role == "controller" else f"BROKER://127.0.0.1:9192,{INTERNAL}"
    message = refusal(process_roles=role, listeners=listeners, controller_quorum_voters=voters)
    assert message.startswith("controller.quorum.voters and controller.quorum.bootstrap.servers are not set")
    assert "give the second, with the host:port of every controller" in message


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        ("1@127.0.0.1:9193", "must be host:port, without an id"),
        ("127.0.0.1", "must be host:port"),
        ("CONTROLLER://h:9193", "must be host:port"),
        ("h:70000", "port 70000 is out of range"),
        ("a..b:9193", '"a..b" is neither the name of a host nor an address'),
        (":9193", "is neither the name of a host nor an address"),
        ("0.0.0.0:9193", "nobody can connect to 0.0.0.0:9193; name the host"),
        ("[::]:9193", "name the host"),
        (["[::1]:1", "[::1]:01"], "[::1]:1 is given twice; keep one"),
    ],
)
def test_bootstrap_servers_must_be_addresses(servers: object, says: str) -> None:
    message = refusal(controller_quorum_voters=None, controller_quorum_bootstrap_servers=servers)
    assert message.startswith("controller.quorum.bootstrap.servers = ") and says in message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "no voter joins while controller.quorum.voters names the voters"),
        (
            {
                "process_roles": "broker",
                "listeners": f"BROKER://127.0.0.1:9192,{INTERNAL}",
                "controller_quorum_voters": "2@127.0.0.1:9195",
            },
            "process.roles does not have controller; remove it",
        ),
    ],
)
def test_only_a_controller_of_a_quorum_that_changes_joins_by_itself(changes: dict[str, object], says: str) -> None:
    message = refusal(**changes, controller_quorum_auto_join_enable=True)
    assert message.startswith("controller.quorum.auto.join.enable = true: ") and says in message


def test_a_controller_that_others_cannot_reach_is_refused_without_voters_too() -> None:
    message = refusal(
        controller_quorum_voters=None,
        controller_quorum_bootstrap_servers="127.0.0.1:9193",
        listeners=f"BROKER://127.0.0.1:9192,{INTERNAL},CONTROLLER://:9193",
    )
    assert 'set advertised.listeners = "CONTROLLER://THIS-HOST:9193"' in message


def test_min_isr_above_the_replication_factor_is_refused() -> None:
    message = refusal(min_insync_replicas=2)
    assert message.startswith("min.insync.replicas = 2: above default.replication.factor = 1")


@pytest.mark.parametrize("heartbeat_ms", [3000, 4000])
def test_a_heartbeat_not_below_the_session_is_refused(heartbeat_ms: int) -> None:
    assert "not below broker.session.timeout.ms = 3000" in refusal(broker_heartbeat_interval_ms=heartbeat_ms)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"log_roll_jitter_ms": 11, "log_roll_ms": 10}, "log.roll.jitter.ms = 11: above log.roll.ms = 10"),
        ({"log_cleanup_policy": "compact", "log_cleaner_enable": False}, "topics would grow for ever"),
        (
            {"log_cleaner_min_compaction_lag_ms": 9, "log_cleaner_max_compaction_lag_ms": 8},
            "log.cleaner.min.compaction.lag.ms = 9: above log.cleaner.max.compaction.lag.ms = 8",
        ),
        (
            {"log_cleaner_threads": 4, "log_cleaner_dedupe_buffer_size": 3 << 20},
            "below 1 MiB for each of log.cleaner.threads = 4; raise it to 4194304",
        ),
    ],
)
def test_keys_of_the_log_that_contradict_each_other_are_refused(changes: dict[str, object], says: str) -> None:
    assert says in refusal(**changes)


def test_a_fetch_that_would_always_wait_is_refused() -> None:
    says = "replica.fetch.min.bytes = 2000: above replica.fetch.response.max.bytes = 1000, so every fetch would wait"
    assert says in refusal(replica_fetch_min_bytes=2000, replica_fetch_response_max_bytes=1000)


def test_a_fetch_that_would_wait_until_its_follower_lags_is_refused() -> None:
    says = "replica.fetch.wait.max.ms = 500: above replica.lag.time.max.ms = 499, so a follower that waits"
    assert says in refusal(replica_lag_time_max_ms=499)
    assert parse(replica_lag_time_max_ms=500).replica_fetch_wait_max_ms == 500


def test_the_node_gives_every_topic_key_its_default_and_the_same_one_as_the_topics_table() -> None:
    assert topic_defaults(parse()) == {
        definition.broker_key: definition.default for definition in TOPIC_CONFIGS.values()
    }


def test_log_dirs_twice_are_refused(tmp_path: Path) -> None:
    assert "are the same directory" in refusal(log_dirs=f"{tmp_path}/a,{tmp_path}/./a")


def test_nested_log_dirs_are_refused(tmp_path: Path) -> None:
    assert f"{tmp_path}/a/b is inside {tmp_path}/a" in refusal(log_dirs=f"{tmp_path}/a/b,{tmp_path}/a")


def test_log_dirs_that_are_one_through_a_symlink_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "are the same directory" in refusal(log_dirs=f"{tmp_path}/a,{tmp_path}/b")


def test_log_dirs_of_one_inode_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.setattr("broker.config.config_check._inode", lambda path: (1, 1))  # as a bind mount has it
    assert "same inode" in refusal(log_dirs=f"{tmp_path}/a,{tmp_path}/b")


def test_the_metadata_log_dir_is_one_of_the_log_dirs() -> None:
    assert parse(metadata_log_dir="/nowhere/b").metadata_log_dir == "/nowhere/b"
    assert "is not one of log.dirs = /nowhere/a,/nowhere/b" in refusal(metadata_log_dir="/nowhere/c")


def test_the_brokers_own_listener_has_the_name_that_the_configuration_gives_it() -> None:
    config = parse()
    assert config.inter_broker_advertised == Endpoint("127.0.0.1", 9194)
    config = parse(
        inter_broker_listener_name="NODES",
        listeners="BROKER://127.0.0.1:9192,NODES://0.0.0.0:9194,CONTROLLER://127.0.0.1:9193",
        advertised_listeners="NODES://node-1.internal:9194",
    )
    assert config.inter_broker_advertised == Endpoint("node-1.internal", 9194)
    assert config.advertised == Endpoint("127.0.0.1", 9192)


def test_a_listener_that_is_not_there_is_an_error_and_not_a_guess() -> None:
    config = parse(process_roles="controller", listeners="CONTROLLER://127.0.0.1:9193")
    assert config.advertised == Endpoint("127.0.0.1", 9193)
    with pytest.raises(ConfigError, match="no BROKER listener"):
        config.listener("BROKER")


def test_a_message_of_a_file_begins_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("node.id = 'one'\n")
    with pytest.raises(ConfigError, match=f"^{path}: node.id = "):
        load_config(str(path))


def test_the_reference_page_is_what_the_table_says() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "configuration.md"
    assert page.read_text(encoding="utf-8") == reference(), "run python -m broker.config.config_reference"
    assert all(f"| `{name}` |" in reference() for name in KEYS)
    of_a_topic = reference().partition("## Of a topic")[2]
    for key in TOPIC_CONFIGS.values():
        assert f"\n| `{key.name}` |" in of_a_topic and f"| `{key.broker_key}` |" in of_a_topic


@pytest.mark.parametrize(
    ("given", "cordoned"),
    [(None, set()), ("*", {"/nowhere/a", "/nowhere/b"}), ("/nowhere/b/", {"/nowhere/b"}), (["/nowhere/a", "*"], ...)],
)
def test_cordoned_log_dirs_are_some_of_the_log_dirs_or_all(given: object, cordoned: object) -> None:
    expected = {"/nowhere/a", "/nowhere/b"} if cordoned is ... else cordoned
    assert parse(cordoned_log_dirs=given).cordoned_dirs == expected


def test_a_cordoned_log_dir_that_is_none_of_the_nodes_is_refused() -> None:
    message = refusal(cordoned_log_dirs="/nowhere/c")
    assert "/nowhere/c is not one of log.dirs = /nowhere/a,/nowhere/b; name some of these, or * for all" in message
