"""Variables of the environment stand for keys where they are asked for, and a mistyped one is refused by its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.config.config import load_config, parse_config_file
from broker.config.config_variables import (
    OF_CLIENTS,
    OF_THE_COMMAND,
    VARIABLE_PREFIX,
    file_of,
    is_of_variables,
    shown_source,
    variable_of,
    variable_values,
)
from broker.config.keys.config_table import KEYS
from broker.config.node_config import NodeConfig
from penstock.client.options.options import BOOTSTRAP_VARIABLE
from penstock.client.options.security_options import VARIABLES
from penstock.errors import ConfigError

GOOD = {
    "PENSTOCK_NODE_ID": "1",
    "PENSTOCK_PROCESS_ROLES": "broker,controller",
    "PENSTOCK_LISTENERS": "BROKER://10.0.0.1:9192,INTERNAL://10.0.0.1:9194,CONTROLLER://10.0.0.1:9193",
    "PENSTOCK_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "10.0.0.1:9193",
    "PENSTOCK_LOG_DIRS": "/nowhere/a,/nowhere/b",
}
FILE = b"""
node.id = 7
num.partitions = 3
broker.rack = "a"
"""


def parse(source: str = "env:", data: bytes = b"", **changes: str) -> NodeConfig:
    return parse_config_file(source, data, environ=GOOD | {f"PENSTOCK_{name}": text for name, text in changes.items()})


def refusal(**changes: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(**changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_node_is_configured_by_variables_alone() -> None:
    config = parse(
        LOG_CLEANER_MIN_CLEANABLE_RATIO="0.25", AUTO_CREATE_TOPICS_ENABLE="true", LOG_RETENTION_MS="-1", BROKER_RACK="b"
    )
    assert config.node_id == 1 and config.roles == {"broker", "controller"}
    assert config.log_dirs == ("/nowhere/a", "/nowhere/b")
    assert config.log_cleaner_min_cleanable_ratio == 0.25 and config.auto_create_topics_enable
    assert config.log_retention_ms == -1 and config.broker_rack == "b"


def test_a_variable_wins_over_the_file_and_the_file_keeps_the_rest() -> None:
    config = parse("env:/etc/penstock/node.toml", FILE, BROKER_RACK="b")
    assert (config.node_id, config.num_partitions, config.broker_rack) == (1, 3, "b")


def test_a_file_alone_takes_no_variable() -> None:
    with pytest.raises(ConfigError, match=r"^/etc/node\.toml: process\.roles is not set"):
        parse("/etc/node.toml", FILE)


def test_an_empty_variable_counts_as_not_set() -> None:
    assert parse("env:/etc/node.toml", FILE, BROKER_RACK="").broker_rack == "a"


def test_a_key_of_one_listener_is_found_whatever_underscores_its_name_has() -> None:
    listeners = GOOD["PENSTOCK_LISTENERS"] + ",OUT_SIDE://10.0.0.1:9195"
    config = parse(LISTENERS=listeners, LISTENER_NAME_OUT_SIDE_MAX_CONNECTIONS="5")
    assert config.overrides("OUT_SIDE").max_connections == 5
    assert "PENSTOCK_LISTENER_NAME_MAX_CONNECTIONS" in refusal(LISTENER_NAME_MAX_CONNECTIONS="5")


def test_every_key_has_a_variable_of_its_own_that_no_client_has() -> None:
    variables = {variable_of(name) for name in KEYS}
    others = {f"PENSTOCK_{name}" for name in (*OF_CLIENTS, *OF_THE_COMMAND)}
    assert len(variables) == len(KEYS) and not variables & others
    assert {*VARIABLES.values(), BOOTSTRAP_VARIABLE} <= others


def test_every_mistyped_variable_is_named_with_the_nearest_one() -> None:
    said = refusal(NODEID="1", LOG_RETENTION="5")
    assert said.startswith(
        "the environment: unknown variable PENSTOCK_LOG_RETENTION; did you mean PENSTOCK_LOG_RETENTI"
    )
    assert ". Also unknown variable PENSTOCK_NODEID; did you mean PENSTOCK_NODE_ID?" in said


def test_a_key_of_kafkas_that_is_not_here_says_what_is_in_its_place() -> None:
    assert "unknown variable PENSTOCK_ZOOKEEPER_CONNECT; Kafka's zookeeper.connect is" in refusal(
        ZOOKEEPER_CONNECT="z:2181"
    )


def test_at_most_twenty_unknown_variables_are_named() -> None:
    said = refusal(**{f"NO_SUCH_{number:02}": "1" for number in range(23)})
    assert said.count("unknown variable") == 20 and said.endswith("And 3 more")


@pytest.mark.parametrize(
    "name",
    [
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_CLIENTS",
        "PORT",
        "PORT_9192_TCP",
        "PORT_9192_TCP_ADDR",
        "HEADLESS_SERVICE_HOST",
        "HEADLESS_PORT_9192_TCP_PROTO",
        "BOOTSTRAP",
        "TLS_CA",
        "CLUSTER_ID",
    ],
)
def test_a_variable_of_a_service_of_kubernetes_or_of_a_client_is_no_mistake(name: str) -> None:
    assert parse(**{name: "tcp://10.1.2.3:9192"}) == parse()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("NODE_ID", "one", 'PENSTOCK_NODE_ID: node.id = "one": must be an integer'),
        ("LOG_SEGMENT_BYTES", "1 GiB", "write 1073741824"),
        ("AUTO_CREATE_TOPICS_ENABLE", "yes", "must be a boolean"),
        ("LOG_CLEANER_MIN_CLEANABLE_RATIO", "half", "must be a number"),
        ("BROKER_RACK", "${ZONE}", '"${ZONE}" is not filled in here'),
        ("NODE_ID", "9" * 30, "must be an integer"),
        ("METADATA_LOG_DIR", "/elsewhere", "PENSTOCK_METADATA_LOG_DIR: metadata.log.dir"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable_and_its_key(name: str, text: str, said: str) -> None:
    assert said in refusal(**{name: text})


def test_a_key_that_is_missing_is_named_without_a_variable_that_set_it() -> None:
    with pytest.raises(ConfigError, match=r"^the environment: node\.id is not set"):
        parse_config_file("env:", b"", environ={})


def test_the_source_is_told_apart_from_a_file() -> None:
    assert is_of_variables("env:") and is_of_variables("env:/a") and not is_of_variables("./env:")
    assert (file_of("env:"), file_of("env:/a"), file_of("/a")) == ("", "/a", "/a")
    assert shown_source("env:") == "the environment" and shown_source("/a") == "/a"
    assert shown_source("env:/a") == "/a and the environment"


def test_the_file_beside_the_variables_is_read_from_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(VARIABLE_PREFIX)]:  # of the tests themselves
        monkeypatch.delenv(name)
    for name, text in GOOD.items():
        monkeypatch.setenv(name, text)
    (tmp_path / "node.toml").write_text('broker.rack = "c"\n')
    assert load_config(f"env:{tmp_path}/node.toml").broker_rack == "c"
    assert load_config("env:").broker_rack == ""
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(f"env:{tmp_path}/other.toml")


def test_other_variables_are_left_alone() -> None:
    assert variable_values({"PATH": "/bin", "KAFKA_NODE_ID": "1"}) == {}
