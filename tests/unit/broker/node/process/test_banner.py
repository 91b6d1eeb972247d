"""The first lines of a node's log name everything that an operator asks about first."""

from __future__ import annotations

from broker.config.config import parse_config
from broker.config.config_digest import changed_keys, settings_digest
from broker.node.process.banner import banner

OPEN = "PLAINTEXT: nobody is asked who they are"
GIVEN: dict[str, object] = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "listeners": "BROKER://0.0.0.0:9192,INTERNAL://h1:9194,CONTROLLER://h1:9193,KAFKA://h1:9092,OUT://h1:9093",
    "listener.type.map": "OUT:KAFKA",
    "advertised.listeners": "BROKER://h1:9192,OUT://o1:31093",
    "controller.quorum.voters": "1@h1:9193",
    "log.dirs": "/d1,/d2",
    "metadata.log.dir": "/d2",
    "broker.rack": "host-1",
}


def test_the_banner_is_a_fact_a_line() -> None:
    config = parse_config(GIVEN)
    assert list(banner(config, "/etc/penstock/1.toml", "1.2.3", "CPython 3.11 on Linux", 42)) == [
        "penstock 1.2.3: node 1 (broker, controller) starts; pid 42, CPython 3.11 on Linux",
        f"configuration /etc/penstock/1.toml: 9 keys given, settings digest {settings_digest(config)}",
        "log dirs /d1, /d2; the metadata log is in /d2; flush.policy fsync",
        f"listener BROKER://0.0.0.0:9192 (advertised as h1:9192) speaks gRPC, {OPEN}",
        f"listener CONTROLLER://h1:9193 speaks gRPC, {OPEN}",
        f"listener INTERNAL://h1:9194 speaks gRPC, {OPEN}",
        f"listener KAFKA://h1:9092 speaks Kafka's protocol, {OPEN}",
        f"listener OUT://h1:9093 (advertised as o1:31093) speaks Kafka's protocol, {OPEN}",
        "metrics at no address",
        "voters 1@h1:9193; rack host-1",
    ]


def quorum_line(**changes: object) -> str:
    changed = {f"controller.quorum.{name.replace('_', '.')}": value for name, value in changes.items()}
    return [*banner(parse_config({**GIVEN, **changed}), "", "", "", 1)][-1]


def test_the_banner_says_how_a_node_without_voters_finds_the_quorum() -> None:
    servers = ["h1:9193", "h2:9193"]
    found = "bootstrap servers h1:9193, h2:9193; rack host-1"
    assert quorum_line(voters=[], bootstrap_servers=servers) == f"voters: those of the metadata log; {found}"
    assert quorum_line(bootstrap_servers=servers) == f"voters 1@h1:9193; {found}"
    joins = quorum_line(voters=[], bootstrap_servers=servers, auto_join_enable=True)
    assert joins == f"voters: those of the metadata log, which this controller joins by itself; {found}"


def test_changed_keys_are_those_whose_value_differs() -> None:
    before = parse_config(GIVEN)
    after = parse_config({**GIVEN, "logger.level": "debug", "log.segment.bytes": 1 << 29, "flush.policy": "fsync"})
    assert changed_keys(before, after) == ["logger.level", "log.segment.bytes"]
