"""No listener stands open for a forgotten word, and a key that locks nothing is refused or warned of."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.config import parse_config
from broker.config.idle_keys import security_warnings
from broker.config.listener_facts import listener_lines
from broker.config.node_config import NodeConfig
from penstock.errors import ConfigError
from penstock.types import SecurityProtocol
from tests.unit.broker.config.test_security_config import BASE, FILES, MAP

FOUR = "BROKER:SASL_SSL,KAFKA:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL"
TOKENS_AT_BROKER = {
    "listener.name.broker.sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.broker.sasl.oauthbearer.jwks.endpoint.url": "file:///keys",
}
AUTHORIZED = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"}


def parse(values: dict[str, Any]) -> NodeConfig:
    return parse_config(BASE | values)


def refusal(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def warnings(values: dict[str, Any]) -> list[str]:
    return list(security_warnings(parse(values)))


@pytest.mark.parametrize("left_out", ["BROKER", "KAFKA", "INTERNAL", "CONTROLLER"])
def test_beside_a_locked_listener_each_must_be_named(left_out: str) -> None:
    named = ",".join(one for one in FOUR.split(",") if not one.startswith(f"{left_out}:"))
    message = refusal({MAP: named, **FILES})
    assert message.startswith(f"{MAP} does not name {left_out}://127.0.0.1:9") and f"write {left_out}:S" in message
    assert f"or {left_out}:PLAINTEXT if it is to be open" in message
    assert parse({MAP: f"{named},{left_out}:PLAINTEXT", **FILES})
    assert parse({MAP: FOUR, **FILES})


def test_a_map_of_open_listeners_may_leave_some_out() -> None:
    assert parse({MAP: "KAFKA:PLAINTEXT"}).security_protocol("BROKER") is SecurityProtocol.PLAINTEXT


def test_a_broker_names_the_listener_of_the_controllers_to_which_it_connects() -> None:
    alone = {
        "process.roles": "broker",
        "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194",
        "controller.quorum.voters": "2@127.0.0.1:9193",
        **FILES,
    }
    message = refusal({**alone, MAP: "BROKER:SASL_SSL,INTERNAL:SSL"})
    assert "does not name CONTROLLER, to which this node connects" in message and "write CONTROLLER:SSL" in message
    assert parse({**alone, MAP: "BROKER:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL"})


def test_metrics_that_other_machines_reach_are_named_too() -> None:
    message = refusal({MAP: FOUR, **FILES, "metrics.listener": "10.0.0.1:9404"})
    assert "does not name metrics.listener = 10.0.0.1:9404" in message and "write METRICS:SSL" in message
    assert parse({MAP: f"{FOUR},METRICS:PLAINTEXT", **FILES, "metrics.listener": "10.0.0.1:9404"})
    assert parse({MAP: FOUR, **FILES, "metrics.listener": "127.0.0.1:9404"})
    assert parse({"metrics.listener": "10.0.0.1:9404"}), "nothing is locked, so nothing was forgotten"


@pytest.mark.parametrize("name", ["SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"])
def test_a_listener_named_as_a_protocol_has_that_protocol(name: str) -> None:
    at = {"listeners": f"{BASE['listeners']},{name}://127.0.0.1:9095", "listener.type.map": f"{name}:KAFKA"}
    others = "BROKER:PLAINTEXT,KAFKA:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    config = parse({**at, **FILES, MAP: others})
    assert config.security_protocol(name) is SecurityProtocol[name]
    if name != "PLAINTEXT":
        assert "does not name BROKER://" in refusal({**at, **FILES}), "its lock wants a word for the others"
    if "SSL" in name:
        assert f"ssl.keystore.location is not set, but {name} has {name}" in refusal({**at, MAP: others})
    wrong = "SSL" if name != "SSL" else "PLAINTEXT"
    message = refusal({**at, **FILES, MAP: f"{others},{name}:{wrong}"})
    assert f"{MAP}: {name} has {wrong}, but its name promises {name}" in message and f"{name}:{name}" in message


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ssl.client.auth": "required"}, "ssl.client.auth = required is set, but no listener for clients has TLS"),
        ({"ssl.client.auth": "requested"}, f"write {MAP} = KAFKA:SSL, or remove the key"),
        (
            {MAP: FOUR.replace("SASL_SSL", "PLAINTEXT"), **FILES, "ssl.client.auth": "required"},
            "no listener for clients has TLS, so nobody is asked for a certificate",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "no listener has SASL, so nobody is asked to log in"),
        ({"listener.name.kafka.ssl.client.auth": "required"}, "kafka.ssl.client.auth is set, but KAFKA is"),
        ({"listener.name.kafka.ssl.keystore.location": "/k"}, "KAFKA is PLAINTEXT; write"),
        ({"listener.name.internal.ssl.truststore.location": "/k"}, f"write {MAP} = INTERNAL:SSL"),
        ({"listener.name.kafka.sasl.enabled.mechanisms": "PLAIN"}, "where nobody logs in; write listener"),
        ({"listener.name.kafka.connections.max.reauth.ms": 5}, "where nobody logs in"),
        (
            {MAP: FOUR, **FILES, **TOKENS_AT_BROKER, "listener.name.kafka.sasl.oauthbearer.expected.audience": "shop"},
            "KAFKA takes no tokens; add OAUTHBEARER to listener.name.kafka.sasl.enabled.mechanisms",
        ),
        ({"listener.name.metrics.ssl.client.auth": "required"}, "METRICS is PLAINTEXT"),
        (
            {**AUTHORIZED, "super.users": "User:alice,User:bob"},
            'write semicolons between principals: "User:alice;User:bob"',
        ),
        ({**AUTHORIZED, "super.users": "User:alice, user:bob"}, '"User:alice;User:bob"'),
    ],
)  # fmt: skip
def test_a_key_that_asks_nobody_is_refused(values: dict[str, Any], says: str) -> None:
    assert says in refusal(values)


def test_a_controller_alone_may_have_the_keys_of_all_nodes() -> None:
    alone = {"process.roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9193"}
    keys = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "ssl.client.auth": "required", "connections.max.reauth.ms": 9}
    assert warnings({**alone, **keys, MAP: "BROKER:SASL_SSL,CONTROLLER:SSL", **FILES}) == []


def test_a_secured_node_has_no_warning() -> None:
    keys = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "connections.max.reauth.ms": 5_000}
    assert warnings({MAP: FOUR, **FILES, **AUTHORIZED, **keys}) == []
    assert warnings({}) == []


OF_CERTIFICATES = {MAP: FOUR.replace("SASL_SSL", "SSL"), **FILES, "ssl.client.auth": "required"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ssl.keystore.location": "/k"}, "ssl.keystore.location is set, and no listener has TLS: everything"),
        ({"ssl.truststore.location": "/k"}, "ssl.truststore.location is set, and no listener has TLS"),
        ({"connections.max.reauth.ms": 5}, "connections.max.reauth.ms is set, and no listener has SASL"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}, "sasl.enabled.mechanisms is set, and no listener"),
        ({"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/"}, "no listener takes its principals from certificates"),
        (
            {MAP: "KAFKA:SSL,BROKER:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT", **FILES},
            "ssl.truststore.location is set, and nobody is asked for a certificate at KAFKA: every client gets through",
        ),
        (
            {MAP: FOUR.replace("SASL_SSL", "SSL"), **FILES, "listener.name.kafka.ssl.truststore.location": "/t"},
            "listener.name.kafka.ssl.truststore.location is set, and nobody is asked for a certificate at KAFKA",
        ),
        (
            {MAP: FOUR, **FILES, "listener.name.kafka.ssl.principal.mapping.rules": "DEFAULT"},
            "listener.name.kafka.ssl.principal.mapping.rules is set, and KAFKA takes no principals from certificates",
        ),
        ({**OF_CERTIFICATES, "authorizer.class.name": "StandardAuthorizer"}, "and super.users is empty: while"),
        ({**OF_CERTIFICATES, **AUTHORIZED, "super.users": "User:alice,bob"}, "has the one principal User:alice,bob"),
        ({**OF_CERTIFICATES, **AUTHORIZED, "super.users": "User:ANONYMOUS"}, "everybody who does not log in may do"),
        (AUTHORIZED, "no listener asks who a client is: each is User:ANONYMOUS"),
        (
            {"listeners": f"{BASE['listeners']},PLAINTEXT://127.0.0.1:9095"},
            "PLAINTEXT://127.0.0.1:9095 speaks Penstock's gRPC, which Kafka's clients do not; write",
        ),
    ],
)  # fmt: skip
def test_a_key_that_does_not_do_what_it_says_is_warned_of(values: dict[str, Any], says: str) -> None:
    (line,) = warnings(values)
    assert says in line and "\n" not in line


def test_a_distinguished_name_with_commas_is_one_principal_without_a_word() -> None:
    assert warnings({**OF_CERTIFICATES, **AUTHORIZED, "super.users": "User:CN=ops,O=shop;User:admin"}) == []


def test_each_listener_says_what_it_speaks_and_whom_it_lets_in() -> None:
    protocols = "BROKER:SASL_SSL,KAFKA:SSL,INTERNAL:SSL,CONTROLLER:SSL"
    values = {MAP: protocols, **FILES, "metrics.listener": "127.0.0.1:9404"}
    assert list(listener_lines(parse(values | {"listener.name.kafka.ssl.client.auth": "requested"}))) == [
        "BROKER://127.0.0.1:9192 speaks gRPC, SASL_SSL: users log in",
        "CONTROLLER://127.0.0.1:9193 speaks gRPC, SSL: nodes show certificates",
        "INTERNAL://127.0.0.1:9194 speaks gRPC, SSL: nodes show certificates",
        "KAFKA://127.0.0.1:9092 speaks Kafka's protocol, SSL: clients may show certificates",
        "metrics at 127.0.0.1:9404, PLAINTEXT: nobody is asked who they are",
    ]
