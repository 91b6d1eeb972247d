"""The keys of security in the configuration of a node: what they come to, and the one line that each mistake gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config.config import parse_config
from broker.config.config_digest import changed_keys, settings_digest
from broker.config.exposed_listeners import exposed_listeners
from broker.config.keys.security_keys import ClientAuth, TlsSettings
from broker.config.node_config import NodeConfig
from penstock.errors import ConfigError
from penstock.types import SecurityProtocol
from tests.support.named_listeners import all_named

BASE: dict[str, object] = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194,CONTROLLER://127.0.0.1:9193,KAFKA://127.0.0.1:9092",
    "controller.quorum.voters": "1@127.0.0.1:9193",
    "log.dirs": "/nowhere/a",
}
FILES = {"ssl.keystore.location": "/tls/node-1.pem", "ssl.truststore.location": "/tls/ca.pem"}
ALLOWED = {"allow.plaintext.node.listeners": True}
MAP = "listener.security.protocol.map"
METRICS = {"metrics.listener": "127.0.0.1:9404"}
METRICS_AUTH = "listener.name.metrics.ssl.client.auth"
OAUTH = "sasl.oauthbearer."
JWKS = f"{OAUTH}jwks.endpoint.url"
TOKENS = {MAP: "BROKER:SASL_SSL", **FILES, "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER"}


def parse(values: dict[str, Any]) -> NodeConfig:
    """With every listener named: PLAINTEXT where the test says nothing of it."""
    return parse_config(all_named(BASE | values))


def refusal(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_listener_is_plaintext_until_the_map_says_otherwise() -> None:
    config = parse({})
    assert {config.security_protocol(name) for name in config.listeners} == {SecurityProtocol.PLAINTEXT}
    assert config.tls_listeners == ()
    config = parse({MAP: "KAFKA : SSL", **FILES})
    assert config.security_protocol("KAFKA") is SecurityProtocol.SSL and config.tls_listeners == ("KAFKA",)
    assert config.security_protocol("BROKER") is SecurityProtocol.PLAINTEXT


def test_metrics_have_tls_where_the_map_names_them_and_certificates_of_their_own() -> None:
    values = {MAP: "METRICS:SSL", **FILES, METRICS_AUTH: "requested"}
    config = parse(values | METRICS | {"listener.name.metrics.ssl.keystore.location": "/tls/metrics.pem"})
    assert config.tls_listeners == ("METRICS",)
    assert config.tls("METRICS") == TlsSettings("/tls/metrics.pem", "/tls/ca.pem", ClientAuth.REQUESTED, "DEFAULT")
    assert parse(values).tls_listeners == (), "the map is the same on every node, also on one without metrics"


def test_protocols_say_what_they_have() -> None:
    assert [protocol for protocol in SecurityProtocol if protocol.is_tls] == ["SSL", "SASL_SSL"]
    assert [protocol for protocol in SecurityProtocol if protocol.is_sasl] == ["SASL_PLAINTEXT", "SASL_SSL"]


def test_a_listener_has_its_own_files_or_those_of_all_and_nodes_always_show_certificates() -> None:
    config = parse(
        {
            MAP: "BROKER:SSL,KAFKA:SSL,INTERNAL:SSL,CONTROLLER:SSL",
            **FILES,
            "listener.name.kafka.ssl.keystore.location": "public.pem",
            "listener.name.kafka.ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/",
        }
    )
    rule = "RULE:^CN=(.*?),.*$/$1/"
    at_all = TlsSettings("/tls/node-1.pem", "/tls/ca.pem", ClientAuth.NONE, rule)
    assert config.tls("BROKER") == at_all
    assert config.tls("KAFKA") == TlsSettings(
        str(Path("public.pem").absolute()), "/tls/ca.pem", ClientAuth.REQUESTED, rule
    )
    for name in ("INTERNAL", "CONTROLLER"):
        assert config.tls(name) == TlsSettings("/tls/node-1.pem", "/tls/ca.pem", ClientAuth.REQUIRED, rule)
    assert config.tls_listeners == ("BROKER", "CONTROLLER", "INTERNAL", "KAFKA")


def test_a_broker_alone_names_the_controllers_listener_because_it_connects_to_it() -> None:
    alone = {
        "process.roles": "broker",
        "listeners": "BROKER://127.0.0.1:9192,INTERNAL://127.0.0.1:9194",
        "controller.quorum.voters": "2@127.0.0.1:9193",
        MAP: "CONTROLLER:SSL",
    }
    of_one = {
        "listener.name.controller.ssl.keystore.location": "/k",
        "listener.name.controller.ssl.truststore.location": "/t",
    }
    config = parse({**alone, **of_one})
    assert config.tls_listeners == ("CONTROLLER",) and config.tls("CONTROLLER").keystore == "/k"
    assert "ssl.keystore.location is not set, but CONTROLLER has SSL" in refusal(alone)
    assert "listeners has no CONTROLLER" in refusal({**alone, **of_one, "listener.name.controller.max.connections": 5})


def test_files_may_differ_from_node_to_node_and_the_rest_may_not() -> None:
    one = parse({MAP: "KAFKA:SSL", **FILES})
    other = parse({MAP: "KAFKA:SSL", **FILES, "ssl.keystore.location": "/tls/node-2.pem"})
    assert settings_digest(one) == settings_digest(other)
    own = parse({MAP: "KAFKA:SSL", **FILES, "listener.name.kafka.ssl.keystore.location": "/tls/node-2.pem"})
    assert settings_digest(one) == settings_digest(own)
    asks = parse({MAP: "KAFKA:SSL", **FILES, "listener.name.kafka.ssl.client.auth": "required"})
    assert len({settings_digest(config) for config in (parse({}), one, asks)}) == 3
    assert changed_keys(one, asks) == ["listener.name.kafka.ssl.client.auth"]


def test_a_listener_of_the_nodes_with_tls_is_open_to_nobody_else_wherever_it_listens() -> None:
    everywhere = {
        "listeners": "BROKER://0.0.0.0:9192,INTERNAL://0.0.0.0:9194,CONTROLLER://0.0.0.0:9193",
        "advertised.listeners": "BROKER://a:9192,INTERNAL://a:9194",
    }
    assert len(list(exposed_listeners(parse(everywhere)))) == 2
    (line,) = exposed_listeners(parse({**everywhere, **FILES, **ALLOWED, MAP: "INTERNAL:SSL"}))
    assert line.startswith("listeners = CONTROLLER://0.0.0.0:9193") and "give it TLS (docs/security.md)" in line
    assert not list(exposed_listeners(parse({**everywhere, **FILES, MAP: "INTERNAL:SSL,CONTROLLER:SSL"})))


def listening(internal: str, controller: str = "127.0.0.1", *, protocols: str) -> dict[str, Any]:
    listeners = f"BROKER://127.0.0.1:9192,INTERNAL://{internal}:9194,CONTROLLER://{controller}:9193"
    advertised = {"advertised.listeners": "BROKER://a:9192,INTERNAL://a:9194"}
    return {"listeners": listeners, **advertised, **FILES, MAP: protocols}


@pytest.mark.parametrize("secured", ["BROKER:SASL_SSL", "BROKER:SASL_PLAINTEXT", "BROKER:SSL"])
@pytest.mark.parametrize("host", ["10.0.0.1", "0.0.0.0", "[::]", "node-1.example", "[::ffff:10.0.0.1]"])
@pytest.mark.parametrize("of_nodes", ["INTERNAL", "CONTROLLER"])
def test_no_node_starts_with_one_listener_locked_and_one_of_the_nodes_open(
    secured: str, host: str, of_nodes: str
) -> None:
    at = ("127.0.0.1", host) if of_nodes == "CONTROLLER" else (host, "127.0.0.1")
    message = refusal(listening(*at, protocols=secured))
    name, _, protocol = secured.partition(":")
    assert (
        message.startswith(f"{MAP}: {name} has {protocol}, but {of_nodes}://{host}:919") and "is PLAINTEXT" in message
    )
    for remedy in (f"{MAP} = {of_nodes}:SSL", "loopback address", "allow.plaintext.node.listeners = true"):
        assert remedy in message
    parse(listening(*at, protocols=f"{secured},{of_nodes}:SSL"))
    (line,) = exposed_listeners(parse({**listening(*at, protocols=secured), **ALLOWED}))
    assert of_nodes in line


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_what_only_this_machine_reaches_may_be_plain(host: str) -> None:
    assert not list(exposed_listeners(parse(listening(host, host, protocols="BROKER:SASL_SSL"))))


def test_without_security_an_open_listener_is_warned_of_as_ever() -> None:
    assert not list(exposed_listeners(parse(listening("10.0.0.1", "10.0.0.1", protocols="BROKER:PLAINTEXT"))))


def test_metrics_over_tls_are_no_listener_of_the_cluster() -> None:
    at = {**listening("10.0.0.1", protocols="METRICS:SSL"), "metrics.listener": "10.0.0.1:9404"}
    assert not list(exposed_listeners(parse(at)))


def test_one_of_the_nodes_listeners_with_tls_wants_the_other_one_to_have_it() -> None:
    assert "INTERNAL has SSL, but CONTROLLER" in refusal(listening("10.0.0.1", "10.0.0.1", protocols="INTERNAL:SSL"))


def test_a_controller_of_a_secured_cluster_is_no_open_door_because_no_client_asks_there() -> None:
    alone = {
        "process.roles": "controller",
        "listeners": "CONTROLLER://10.0.0.1:9193",
        "controller.quorum.voters": "1@10.0.0.1:9193",
    }
    assert "BROKER has SASL_SSL, but CONTROLLER" in refusal({**alone, MAP: "BROKER:SASL_SSL"})
    assert parse({**alone, MAP: "BROKER:PLAINTEXT"}).listeners


def test_an_authorizer_takes_no_open_door_whatever_is_allowed() -> None:
    opened = {**listening("10.0.0.1", protocols="BROKER:SASL_SSL"), **ALLOWED}
    assert "authorizer.class.name is set, but INTERNAL" in refusal(
        {**opened, "authorizer.class.name": "StandardAuthorizer"}
    )


def test_the_warning_of_what_is_allowed_names_the_key() -> None:
    (line,) = exposed_listeners(parse({**listening("10.0.0.1", protocols="BROKER:SASL_SSL"), **ALLOWED}))
    assert line.startswith("BROKER has SASL_SSL, but listeners = INTERNAL://10.0.0.1:9194 asks nobody for anything")
    assert "allow.plaintext.node.listeners" in line and f"{MAP} = INTERNAL:SSL" in line


def test_a_listener_has_its_own_mechanisms_and_time_of_a_log_in() -> None:
    config = parse(
        {
            MAP: "BROKER:SASL_PLAINTEXT",
            "connections.max.reauth.ms": 60_000,
            "listener.name.broker.connections.max.reauth.ms": 5_000,
            "listener.name.broker.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        }
    )
    assert config.security_of("BROKER", "connections_max_reauth_ms") == 5_000
    assert config.security_of("KAFKA", "connections_max_reauth_ms") == 60_000
    assert config.security_of("BROKER", "sasl_enabled_mechanisms") == ("SCRAM-SHA-512", "PLAIN")
    assert config.security_of("KAFKA", "sasl_enabled_mechanisms") == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert config.connection_failed_authentication_delay_ms == 100 and config.tls_listeners == ()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({MAP: "KAFKA:TLS"}, f'{MAP} = "KAFKA:TLS": "TLS" is not a protocol of security; must be one of PLAIN'),
        ({MAP: "KAFKA:ssl"}, "did you mean SSL?"),
        ({MAP: "KAFKA"}, "must be NAME:PROTOCOL, like BROKER:SSL"),
        ({MAP: "KAFKA:SSL,KAFKA:SSL"}, "KAFKA"),
        ({MAP: "OUTSIDE:SSL"}, f"{MAP}: OUTSIDE is not in listeners; add it there or remove it here"),
        ({MAP: "INTERNAL:SASL_SSL"}, "INTERNAL has SASL_SSL, but it is for the nodes themselves, which show certific"),
        ({MAP: "CONTROLLER:SASL_PLAINTEXT"}, "write CONTROLLER:SSL"),
        ({MAP: "KAFKA:SSL"}, "ssl.keystore.location is not set, but KAFKA has SSL; name the PEM file with the node's"),
        ({MAP: "BROKER:SSL"}, "or listener.name.broker.ssl.keystore.location (`penstock certs node` makes one)"),
        ({MAP: "INTERNAL:SSL", "ssl.keystore.location": "/a"}, "ssl.truststore.location is not set, but INTERNAL is"),
        (
            {MAP: "KAFKA:SSL", "ssl.keystore.location": "/a", "ssl.client.auth": "required"},
            "ssl.truststore.location is not set, but KAFKA asks for certificates; name the PEM file with the CA's",
        ),
        ({MAP: "METRICS:SSL", **METRICS}, "ssl.keystore.location is not set, but METRICS has SSL"),
        (
            {MAP: "METRICS:SSL", **METRICS, "ssl.keystore.location": "/a", METRICS_AUTH: "required"},
            "ssl.truststore.location is not set, but METRICS asks for certificates",
        ),
        ({MAP: "METRICS:SASL_SSL", **METRICS, **FILES}, "nobody logs in at metrics.listener; write METRICS:SSL"),
        ({MAP: "METRICS:TLS", **METRICS}, "must be one of PLAIN"),
        ({MAP: "METRIC:SSL", **METRICS}, f"{MAP}: METRIC is not in listeners"),
        ({"listener.name.metrics.max.connections": 1, **METRICS}, "metrics.listener has no such key; it has ssl.key"),
        ({"listener.name.metrics.ssl.principal.mapping.rules": "DEFAULT"}, "metrics.listener has no such key"),
        ({METRICS_AUTH: "maybe"}, "must be one of none, requested, required"),
        (
            {MAP: "METRICS:SSL", **METRICS, "listeners": f"{BASE['listeners']},METRICS://127.0.0.1:9093"},
            "METRICS is the name of metrics.listener there; give that of listeners another",
        ),
        ({"ssl.client.auth": "maybe"}, "must be one of none, requested, required"),
        ({MAP: "BROKER:SSL", **FILES, "ssl.client.auth": "requested"}, "BROKER speaks gRPC, which has none or req"),
        ({MAP: "BROKER:SASL_SSL"}, "ssl.keystore.location is not set, but BROKER has SASL_SSL"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "must be one of SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER"),
        ({MAP: "BROKER:SASL_SSL", **FILES, "sasl.enabled.mechanisms": ""}, "nobody could log in at BROKER, which has"),
        (
            {MAP: "BROKER:SASL_PLAINTEXT", "listener.name.broker.sasl.enabled.mechanisms": "PLAIN"},
            "nobody could log in at BROKER, which has SASL_PLAINTEXT; add SCRAM-SHA-256",
        ),
        (TOKENS, "OAUTHBEARER at BROKER, and sasl.oauthbearer.jwks.endpoint.url is not set: no token could be"),
        (TOKENS | {JWKS: "http://issuer.example/keys"}, "must be https://HOST/PATH, or file:///PATH"),
        (TOKENS | {JWKS: "https://"}, "must be https://HOST/PATH"),
        (TOKENS | {JWKS: "https://h:999999/"}, "must be https://HOST/PATH"),
        (TOKENS | {JWKS: "https://[::1/keys"}, "must be https://HOST/PATH"),
        (TOKENS | {JWKS: "file://host/keys"}, "must be https://HOST/PATH"),
        (TOKENS | {JWKS: "file:keys"}, "must be https://HOST/PATH"),
        (TOKENS | {JWKS: "keys.json"}, "must be https://HOST/PATH"),
        (TOKENS | {JWKS: "https://user:secret@h/keys"}, f"{JWKS} has a user in it; public keys are for everybody"),
        (TOKENS | {JWKS: "file:///k", OAUTH + "clock.skew.seconds": 601}, "out of range; must be from 0 to 600 s"),
        (TOKENS | {JWKS: "file:///k", OAUTH + "jwks.endpoint.refresh.ms": 0}, "jwks.endpoint.refresh.ms"),
        (TOKENS | {JWKS: "file:///k", OAUTH + "jwks.endpoint.retry.backoff.ms": "x"}, "retry.backoff.ms"),
        (TOKENS | {JWKS: "file:///k", OAUTH + "jwks.endpoint.retry.backoff.max.ms": 0}, "retry.backoff.max.ms"),
        (TOKENS | {JWKS: "file:///k", OAUTH + "sub.claim.name": "a\nb"}, "must be a string of one line"),
        (TOKENS | {JWKS: "file:///k", OAUTH + "scope.claim.name": 7}, "scope.claim.name"),
        ({JWKS: "file:///k"}, f"{JWKS} is set, and no listener takes tokens; add OAUTHBEARER to sasl.enabled.mech"),
        ({OAUTH + "expected.audience": "x"}, "expected.audience is set, and no listener takes tokens"),
        ({OAUTH + "expected.issuer": "x"}, "expected.issuer is set, and no listener takes tokens"),
        ({f"listener.name.broker.{JWKS}": "file:///k"}, f"{JWKS} is set, and no listener takes tokens"),
        (
            {MAP: "BROKER:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "OAUTHBEARER", JWKS: "file:///k"},
            "nobody could log in at BROKER, which has SASL_PLAINTEXT; add SCRAM-SHA-256 (PLAIN shows the password",
        ),
        ({OAUTH + "jwt.validator.class": "x"}, "see Security in docs/configuration.md"),
        ({"connections.max.reauth.ms": -1}, "connections.max.reauth.ms"),
        ({"connection.failed.authentication.delay.ms": 10_001}, "0 to 10000"),
        ({"listener.name.broker.connection.failed.authentication.delay.ms": "1"}, "unknown key"),
        ({"ssl.keystore.type": "JKS"}, 'ssl.keystore.type = "JKS": must be one of PEM'),
        ({"ssl.truststore.type": "PKCS12"}, 'ssl.truststore.type = "PKCS12": must be one of PEM'),
        ({"ssl.keystore.location": "a\nb"}, "must be a string of one line"),
        ({"ssl.keystore.locatoin": "a"}, "see Security in docs/configuration.md"),
        ({"listener.name.kafka.ssl.client.auht": "a"}, "did you mean listener.name.kafka.ssl.client.auth?"),
        ({"ssl.key.password": "secret"}, "its file's owner and mode keep others out"),
        ({"ssl.keystore.key": "-----BEGIN"}, "Kafka's ssl.keystore.key is ssl.keystore.location here"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "always TLS 1.2 or 1.3"),
        ({"security.inter.broker.protocol": "SSL"}, f"is {MAP} here: INTERNAL:SSL and CONTROLLER:SSL"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_the_remedy(values: dict[str, Any], says: str) -> None:
    assert says in refusal(values)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "https://[::1]:8443/k?v=1", "file:///etc/penstock/keys.json"]
)
def test_a_place_of_public_keys(url: str) -> None:
    config = parse(TOKENS | {JWKS: url, f"listener.name.broker.{OAUTH}expected.issuer": "https://issuer.example"})
    assert config.sasl_oauthbearer_jwks_endpoint_url == url and config.sasl_oauthbearer_expected_issuer == ""
    assert config.security_of("BROKER", "sasl_oauthbearer_expected_issuer") == "https://issuer.example"
    assert (config.sasl_oauthbearer_sub_claim_name, config.sasl_oauthbearer_clock_skew_seconds) == ("sub", 30)
