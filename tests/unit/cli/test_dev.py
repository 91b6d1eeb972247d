"""The words of `penstock dev` about nodes that it stopped, and nodes that ended by themselves."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.node.process.preflight import check_ports
from penstock.cli.dev import (
    PORT_IN_USE,
    _opened,
    checked_host,
    dev,
    how_ended,
    node_configs,
    node_keys,
    note_ended,
    parse_racks,
    require_stopped,
    why_not_started,
)
from penstock.cli.dev_ports import KafkaPorts
from penstock.errors import ConfigError, PenstockError
from penstock.testing import NodeFailedError
from penstock.types import Endpoint


def log_path(index: int) -> Path:
    return Path(f"node-{index}/node.log")


def test_a_node_that_fails_while_it_is_stopped_is_named_with_its_log() -> None:
    require_stopped({0: 0, 1: 0, 2: 0}, log_path)
    with pytest.raises(
        PenstockError, match=r"node 1 ended with exit code 1 while it was stopped; see node-1/node\.log"
    ):
        require_stopped({0: 0, 1: 1, 2: 0}, log_path)


AGAIN = "see node-1/node.log. To start it again, in another terminal: penstock node start --config node-1/node.toml"


@pytest.mark.parametrize(
    ("left", "expected"), [(2, "2 that this command started still run"), (1, "1 that this command started still runs")]
)
def test_a_node_that_ends_is_named_with_the_command_that_starts_it_again(
    left: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    note_ended("node 1 was ended by SIGKILL", left, log_path(1), Path("node-1/node.toml"))
    assert capsys.readouterr().err == f"node 1 was ended by SIGKILL; {expected}; {AGAIN}\n"


def test_the_last_node_that_the_command_started_is_an_error_though_others_may_run() -> None:
    with pytest.raises(PenstockError) as caught:
        note_ended("node 1 was ended by SIGKILL", 0, log_path(1), Path("node-1/node.toml"))
    assert str(caught.value) == f"node 1 was ended by SIGKILL, and none that this command started is left; {AGAIN}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, "ended by itself with exit code 3"),
        (0, "ended by itself with exit code 0"),
        (-9, "was ended by SIGKILL"),
        (-40, "was ended by signal 40"),
    ],
)
def test_the_end_of_a_node_is_told_by_its_signal_or_exit_code(code: int, expected: str) -> None:
    assert how_ended(code) == expected


def test_a_node_that_says_why_it_does_not_start_is_quoted() -> None:
    failure = NodeFailedError("node 1 ended with code 2", log_path(1), ["INFO: a", "penstock: port taken"])
    assert str(failure) == (
        "node 1 ended with code 2; the end of node-1/node.log:\n    INFO: a\n    penstock: port taken"
    )
    assert why_not_started(failure) == "port taken"


def test_a_port_that_is_taken_is_told_with_the_option_that_chooses_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = {"BROKER": Endpoint(*taken.getsockname())}
        config = SimpleNamespace(listeners=listeners, kafka_listeners=(), metrics_listener=None)
        with pytest.raises(ConfigError) as refused:
            check_ports(config)  # type: ignore[arg-type]
    failure = NodeFailedError("node 0 ended with code 2", log_path(0), [f"penstock: {refused.value}"])
    assert why_not_started(failure) == f"{refused.value}; `penstock dev --port PORT` takes other ports"
    for_kafka = NodeFailedError("", log_path(0), [f"penstock: {refused.value}".replace("BROKER", "KAFKA")])
    assert why_not_started(for_kafka).endswith("; `penstock dev --kafka-port PORT` takes another, and 0 leaves it out")


def test_a_port_for_kafkas_clients_that_is_lost_before_its_use_is_chosen_again_unless_asked_for_by_name() -> None:
    lost = NodeFailedError("", log_path(0), [f"penstock: listeners = KAFKA://127.0.0.1:9092: {PORT_IN_USE}"])
    tried: list[tuple[int, ...]] = []

    def cluster(kafka: KafkaPorts) -> Any:
        def opened() -> str:
            tried.append(kafka.chosen)
            if kafka.chosen == (9092,):
                raise lost
            return "open"

        return SimpleNamespace(open=opened)

    choices = iter([KafkaPorts((9092,), (9092,)), KafkaPorts((9092,), (9093,)), KafkaPorts((9092,), (9093,))])
    assert _opened(cluster, lambda: next(choices)) == ("open", ((9092,), (9093,))) and tried == [(9092,), (9093,)]
    with pytest.raises(PenstockError, match="--kafka-port PORT"):
        _opened(cluster, lambda: KafkaPorts((9092,), (9092,)))


@pytest.mark.parametrize("log", [[], ["INFO: 3 of 9 logs opened"]])
def test_a_node_that_is_killed_while_it_starts_is_named_with_its_log(log: list[str]) -> None:
    failure = NodeFailedError("node 1 ended with code -9", log_path(1), log)
    assert why_not_started(failure) == "node 1 ended with code -9; see node-1/node.log"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "0", "[::]", "a b", "a:9192", "http://a", 'a"b'])
def test_a_host_that_clients_could_not_connect_to_is_refused(host: str) -> None:
    assert checked_host("box.example") == "box.example" and checked_host(None) is None
    with pytest.raises(ConfigError, match="--host"):
        checked_host(host)


def test_the_configuration_is_printed_and_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev(2, tmp_path / "data", 20_000, 0, "box.example", print_config=True)
    said = capsys.readouterr().out
    assert f"# {tmp_path}/data/node-1/node.toml" in said and "advertised.listeners" in said and "KAFKA" not in said
    dev(2, tmp_path / "data", 20_000, print_config=True, as_json=True)
    files = json.loads(capsys.readouterr().out)
    assert list(files) == [f"{tmp_path}/data/node-{index}/node.toml" for index in range(2)]
    assert "node.id = 1" in files[f"{tmp_path}/data/node-1/node.toml"]
    assert '"KAFKA://127.0.0.1:' in files[f"{tmp_path}/data/node-1/node.toml"]
    assert not (tmp_path / "data").exists()


def test_keys_of_the_nodes_have_the_values_that_a_file_would_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [
        "a=true",
        "b=7",
        "c=0.5",
        'd=["x", "y"]',
        "e=plain text",
        "f=2026-01-01",
        "g=",
        'h="7"',
        "i=[2026-01-01]",
        "j=inf",
    ]
    assert node_keys(pairs) == {
        "a": True, "b": 7, "c": 0.5, "d": ["x", "y"], "e": "plain text", "f": "2026-01-01", "g": "", "h": "7",
        "i": "[2026-01-01]", "j": "inf",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="must be key=value"):
        node_keys(["auto.create.topics.enable"])
    dev(1, tmp_path / "data", 20_000, 0, config=["auto.create.topics.enable=true"], print_config=True)
    assert "auto.create.topics.enable = true\n" in capsys.readouterr().out


def test_each_node_has_its_rack_and_serves_the_consumers_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev(data=tmp_path / "data", port=20_000, kafka_port=0, racks="a, b,c", print_config=True, as_json=True)
    files = json.loads(capsys.readouterr().out)
    assert [
        line
        for text in files.values()
        for line in text.splitlines()
        if line.startswith(("replica.selector", "broker.rack"))
    ] == [line for rack in "abc" for line in ('replica.selector.class = "rack-aware"', f'broker.rack = "{rack}"')]
    racks = [keys["broker.rack"] for keys in node_configs(5, {}, parse_racks("a,b"))]
    assert racks == ["a", "b", "a", "b", "a"], "more nodes than racks"
    given = node_configs(2, {"replica.selector.class": "leader"}, ("a",))
    assert all(keys["replica.selector.class"] == "leader" for keys in given)
    assert node_configs(2, {"a": 1}, parse_racks("")) == [{"a": 1}, {"a": 1}]


@pytest.mark.parametrize("racks", ["a,,b", ",", " ", "a,", ",".join("abcdefghij")])
def test_racks_without_a_name_and_more_racks_than_nodes_are_refused(racks: str) -> None:
    with pytest.raises(ConfigError, match="--racks"):
        parse_racks(racks)
