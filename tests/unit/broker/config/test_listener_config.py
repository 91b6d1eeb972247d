"""Several listeners in the configuration of a node: what they come to, and the one line that each mistake gets."""

from __future__ import annotations

import pytest

from broker.config.config import parse_config
from broker.config.config_digest import changed_keys, settings_digest
from broker.config.dynamic_keys import DYNAMIC
from broker.config.node_config import ListenerOverrides, NodeConfig
from broker.connections.listener_limits import listener_limits
from penstock.errors import ConfigError
from penstock.types import Endpoint, ListenerEndpoint, ListenerType

INSIDE = ("BROKER://127.0.0.1:9192", "INTERNAL://127.0.0.1:9194", "CONTROLLER://127.0.0.1:9193")
OUTSIDE = "OUTSIDE://127.0.0.1:9093"
KAFKA = "KAFKA://127.0.0.1:9092"


def parse(*listeners: str, **changes: object) -> NodeConfig:
    """A node that listens at these besides; `changes` have underscores for dots."""
    values: dict[str, object] = {
        "node.id": 1,
        "process.roles": "broker,controller",
        "listeners": [*INSIDE, *listeners],
        "controller.quorum.voters": "1@127.0.0.1:9193",
        "log.dirs": "/nowhere/a",
    }
    return parse_config(values | {name.replace("_", "."): value for name, value in changes.items()})


def refusal(*listeners: str, **changes: object) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(*listeners, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_any_other_name_is_a_listener_for_clients_with_an_address_of_its_own() -> None:
    config = parse(
        "OUTSIDE://0.0.0.0:9093",
        "LAB_2://:9094",
        advertised_listeners=[
            "OUTSIDE://node-1.example.com:31093",
            "LAB_2://[2001:db8::1]:9094",
        ],
    )
    assert config.client_listeners == ("BROKER", "LAB_2", "OUTSIDE")
    assert config.more_advertised == (
        ListenerEndpoint("LAB_2", Endpoint("2001:db8::1", 9094)),
        ListenerEndpoint("OUTSIDE", Endpoint("node-1.example.com", 31_093)),
    )
    assert config.advertised == Endpoint("127.0.0.1", 9192)
    assert parse().client_listeners == ("BROKER",) and parse().more_advertised == ()


def test_a_listener_speaks_kafkas_protocol_by_its_name_or_because_the_map_says_so() -> None:
    config = parse(KAFKA, OUTSIDE, "LAB://127.0.0.1:9094", listener_type_map="LAB:KAFKA, OUTSIDE : GRPC")
    assert config.kafka_listeners == ("KAFKA", "LAB") and config.grpc_client_listeners == ("BROKER", "OUTSIDE")
    assert config.client_listeners == ("BROKER", "KAFKA", "LAB", "OUTSIDE")
    assert config.listener_type("INTERNAL") is config.listener_type("CONTROLLER") is ListenerType.GRPC
    assert parse(KAFKA, listener_type_map=["KAFKA:GRPC"]).kafka_listeners == ()
    assert parse(OUTSIDE).kafka_listeners == (), "the file of an older node goes on as it was"


def test_a_listener_of_kafkas_clients_is_registered_and_limited_as_any_other() -> None:
    config = parse(KAFKA, advertised_listeners="KAFKA://node-1:31092", listener_name_kafka_max_connections=5)
    assert config.more_advertised == (ListenerEndpoint("KAFKA", Endpoint("node-1", 31_092)),)
    limits = listener_limits(config, "KAFKA", 100)
    assert limits.connections_max == 5 and config.overrides("KAFKA") == ListenerOverrides(max_connections=5)


def test_the_type_of_a_listener_is_a_nodes_own_setting_that_needs_a_restart() -> None:
    before, after = parse(OUTSIDE), parse(OUTSIDE, listener_type_map="OUTSIDE:KAFKA")
    assert settings_digest(before) == settings_digest(after)
    assert changed_keys(before, after) == ["listener.type.map"] and "listener.type.map" not in DYNAMIC


def test_a_listener_has_what_its_own_keys_say_and_otherwise_what_all_have() -> None:
    config = parse(OUTSIDE, listener_name_outside_max_connections=5, listener_name_internal_connections_max_idle_ms=7)
    assert config.overrides("OUTSIDE") == ListenerOverrides(max_connections=5)
    assert config.overrides("INTERNAL") == ListenerOverrides(connections_max_idle_ms=7)
    assert config.overrides("BROKER") == ListenerOverrides()


def test_the_keys_of_a_listener_count_among_the_settings_that_differ() -> None:
    before, after = parse(OUTSIDE), parse(OUTSIDE, listener_name_outside_max_connections=5)
    assert settings_digest(before) != settings_digest(after)
    assert changed_keys(before, after) == ["listener.name.outside.max.connections"]


@pytest.mark.parametrize(
    ("listeners", "changes", "says"),
    [
        ((OUTSIDE, "OUTSIDE://127.0.0.1:9095"), {}, "listeners: OUTSIDE is given twice; keep one"),
        (("OUTSIDE://127.0.0.1:9192",), {}, "127.0.0.1:9192 is used twice; give each listener its own port"),
        (("OUTSIDE://10.0.0.1:9192",), {}, "127.0.0.1:9192 and 10.0.0.1:9192 have one port; give each listener"),
        (("OUTSIDE://0.0.0.0:9192",), {"advertised_listeners": "OUTSIDE://a:1"}, "have one port; give each listener"),
        (("outside://127.0.0.1:9093",), {}, "outside is not the name of a listener; write it in capitals"),
        (("OUT-SIDE://127.0.0.1:9093",), {}, "OUT-SIDE is not the name of a listener; write it in capitals"),
        (("2ND://127.0.0.1:9093",), {}, "2ND is not the name of a listener"),
        (("://127.0.0.1:9093",), {}, "is not the name of a listener"),
        (("A" * 65 + "://127.0.0.1:9093",), {}, "at most 64"),
        (("OUTSIDE:127.0.0.1:9093",), {}, "must be NAME://host:port, like OUTSIDE://node-1:9093"),
        (("OUTSIDE://127.0.0.1:0",), {}, "port 0 is out of range"),
        (tuple(f"L_{n}://127.0.0.1:{n}" for n in range(1, 9)), {}, "9 listeners for clients; at most 8 are allowed"),
        (("OUTSIDE://0.0.0.0:9093",), {}, 'set advertised.listeners = "OUTSIDE://THIS-HOST:9093"'),
        ((OUTSIDE,), {"advertised_listeners": "OUTSIDE://0.0.0.0:1"}, "nobody can connect to OUTSIDE://0.0.0.0:1"),
        ((), {"advertised_listeners": "OUTSIDE://a:1"}, "OUTSIDE is not in listeners; add it there or remove it here"),
        ((OUTSIDE,), {"advertised_listeners": "OUTSIDE://a:1,OUTSIDE://b:1"}, "OUTSIDE is given twice; keep one"),
        ((OUTSIDE,), {"inter_broker_listener_name": "NODES"}, "no NODES listener, where the other brokers fetch"),
        ((OUTSIDE,), {"inter_broker_listener_name": "BROKER"}, "must be a name in capitals other than BROKER and CONT"),
        ((OUTSIDE,), {"listeners": [OUTSIDE, *INSIDE[1:]]}, "no BROKER listener; add BROKER://host:port"),
        ((), {"process_roles": "controller", "listeners": [OUTSIDE, INSIDE[2]]}, "has OUTSIDE but process.roles"),
        ((), {"listener_name_foo_max_connections": 5}, "listeners has no FOO; add it there, or write"),
        ((OUTSIDE,), {"listener_name_OUTSIDE_max_connections": 5}, "write the listener in small letters"),
        ((OUTSIDE,), {"listener_name_outside_max_conections": 5}, "mean listener.name.outside.max.connections?"),
        ((OUTSIDE,), {"listener_name_outside_ssl_keystore_type": "JKS"}, "must be one of PEM"),
        (("OUTSIDE://a..b:9093",), {}, '"a..b" is neither the name of a host nor an address; correct the host'),
        ((f"OUTSIDE://{'a' * 64}:9093",), {}, "is neither the name of a host nor an address"),
        ((f"OUTSIDE://{'a.' * 127}:9093",), {}, "is neither the name of a host nor an address"),
        (("OUTSIDE://a\x07b:9093",), {}, r'"a\x07b" is neither'),
        (("OUTSIDE://[:::]:9093",), {}, '"[:::]" is neither'),
        ((OUTSIDE,), {"advertised_listeners": "OUTSIDE://.:1"}, '"." is neither the name'),
        ((), {"metrics_listener": "a..b:9404"}, 'metrics.listener = "a..b:9404": "a..b" is neither'),
        ((), {"controller_quorum_voters": "1@a..b:9193"}, 'voters = "1@a..b:9193": "a..b" is neither'),
        ((OUTSIDE,), {"listener_name_outside_max_connections": 0}, "out of range; must be from 1 to"),
        ((OUTSIDE,), {"listener_name_outside_max_connection_creation_rate": "5"}, "write 5 without quotes"),
        ((OUTSIDE,), {"listener_name_outside_connections_max_idle_ms": "10 s"}, "write 10000"),
        ((OUTSIDE,), {"listener_name_outside_quota_x": 1}, "a listener has a few keys of its own"),
        ((OUTSIDE,), {"listener_type_map": "OUTSIDE:PLAINTEXT"}, 'not a type of listener; must be one of GRPC, KAFKA'),
        ((OUTSIDE,), {"listener_type_map": "OUTSIDE:kafka"}, "must be one of GRPC, KAFKA; did you mean KAFKA?"),
        ((OUTSIDE,), {"listener_type_map": "OUTSIDE:"}, '"" is not a type of listener'),
        ((OUTSIDE,), {"listener_type_map": "OUTSIDE"}, 'listener.type.map = "OUTSIDE": must be NAME:TYPE, like'),
        ((OUTSIDE,), {"listener_type_map": "outside:KAFKA"}, "must be NAME:TYPE, like OUTSIDE:KAFKA"),
        ((OUTSIDE,), {"listener_type_map": "OUTSIDE:KAFKA,OUTSIDE:GRPC"}, "type.map: OUTSIDE is given twice; keep one"),
        ((OUTSIDE,), {"listener_type_map": {"OUTSIDE": "KAFKA"}}, 'must be a list of strings; write it like "a,b"'),
        ((OUTSIDE,), {"listener_type_map": "LAB:KAFKA"}, "type.map: LAB is not in listeners; add it there or remove"),
        ((), {"listener_type_map": "BROKER:KAFKA"}, "BROKER has the type KAFKA, but it is for Penstock's own clients"),
        ((), {"listener_type_map": "INTERNAL:KAFKA"}, "INTERNAL has the type KAFKA, but it is for the nodes"),
        ((), {"listener_type_map": "CONTROLLER:KAFKA"}, "CONTROLLER has the type KAFKA, but it is for the nodes"),
        ((KAFKA,), {"inter_broker_listener_name": "KAFKA"}, "give inter.broker.listener.name another name, or write"),
        (("KAFKA://127.0.0.1:9192",), {}, "127.0.0.1:9192 is used twice; give each listener its own port"),
        (("KAFKA://127.0.0.2:9193",), {}, "127.0.0.1:9193 and 127.0.0.2:9193 have one port"),
        ((KAFKA,), {"metrics_listener": ":9092"}, "metrics.listener = 0.0.0.0:9092: KAFKA://127.0.0.1:9092"),
        ((KAFKA,), {"process_roles": "controller", "listeners": [KAFKA, INSIDE[2]]}, "has KAFKA but process.roles"),
        (("KAFKA://0.0.0.0:9092",), {}, 'set advertised.listeners = "KAFKA://THIS-HOST:9092"'),
        ((), {"advertised_listeners": "BROKER://${HOSTNAME}:1"}, '"${HOSTNAME}" is not filled in here; write'),
        (("KAFKA://${HOSTNAME}:9092",), {}, '"${HOSTNAME}" is not filled in here'),
        (("KAFKA://$HOSTNAME:9092",), {}, '"$HOSTNAME" is neither the name of a host nor an address'),
        (("KAFKA://%(host)s:9092",), {}, "is neither the name of a host nor an address"),
        (("KAFKA://*:9092",), {}, '"*" is neither the name of a host nor an address'),
        (("KAFKA://-a:9092",), {}, '"-a" is neither the name of a host nor an address'),
        ((), {"broker_rack": "${RACK}"}, 'broker.rack = "${RACK}": "${RACK}" is not filled in here'),
        ((), {"super_users": "User:${env:ADMIN}"}, '"${env:ADMIN}" is not filled in here'),
        ((KAFKA, "K_6://[::1]:9092"), {"listener_type_map": "K_6:GRPC"}, "have one port; give each listener its own"),
        ((KAFKA, "K_6://[::ffff:127.0.0.1]:9092"), {"listener_type_map": "K_6:KAFKA"}, "have one port; give each"),
        ((), {"max_connection_creation_rate": 0}, "max.connection.creation.rate = 0: out of range"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_the_remedy(
    listeners: tuple[str, ...], changes: dict[str, object], says: str
) -> None:
    changes = {"listeners": [*INSIDE, *listeners], **changes}
    assert says in refusal(**changes)


def test_two_listeners_for_kafkas_clients_share_a_port_over_ipv4_and_ipv6() -> None:
    advertised = {"advertised_listeners": "KAFKA://a:9092,K_6://b:9092", "listener_type_map": "K_6:KAFKA"}
    for four, six in (("0.0.0.0", "[::]"), ("127.0.0.1", "[::1]"), ("0.0.0.0", "[2001:db8::1]")):
        config = parse(f"KAFKA://{four}:9092", f"K_6://{six}:9092", **advertised)
        assert set(config.kafka_listeners) == {"KAFKA", "K_6"}


def test_names_of_hosts_as_networks_have_them_are_taken() -> None:
    for host in ("node-1", "node_1.example.com", "1a.b", "a.", "_srv.a", "bücher.example", "10.0.0.1"):
        assert parse(f"KAFKA://{host}:9092").listeners["KAFKA"].host == host


def test_a_rule_of_principals_may_name_groups() -> None:
    assert parse(ssl_principal_mapping_rules="RULE:^CN=(?<user>.*)$/${user}/").ssl_principal_mapping_rules
