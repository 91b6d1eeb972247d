"""From a node's configuration to the tokens that it takes, and what it warns of."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.authentication.tokens.own_tokens import own_tokens, token_warnings
from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from penstock.clock import ManualClock
from penstock.errors import ConfigError
from penstock.sasl.refusal import SaslRefusedError
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key

PREFIX = "sasl.oauthbearer."


PLAIN = {
    "node.id": 1,
    "process.roles": ["broker", "controller"],
    "listeners": ["BROKER://127.0.0.1:1", "KAFKA://127.0.0.1:2", "INTERNAL://127.0.0.1:3", "CONTROLLER://127.0.0.1:4"],
    "controller.quorum.voters": ["1@127.0.0.1:4"],
    "log.dirs": ["/data"],
}


def node(url: str, keys: dict[str, Any] | None = None) -> NodeConfig:
    taking = {
        "listener.security.protocol.map": [
            "BROKER:SASL_SSL",
            "KAFKA:SASL_SSL",
            "INTERNAL:PLAINTEXT",
            "CONTROLLER:PLAINTEXT",
        ],
        "ssl.keystore.location": "/node.pem",
        "sasl.enabled.mechanisms": ["OAUTHBEARER"],
        f"{PREFIX}jwks.endpoint.url": url,
    }
    return parse_config(PLAIN | taking | (keys or {}), looks_at_dirs=False)


def test_a_file_is_read_at_the_start_and_shared(tmp_path: Path) -> None:
    issuer = Issuer()
    config = node(issuer.publish(tmp_path / "keys"), keys={f"{PREFIX}expected.audience": [AUDIENCE]})
    tokens = own_tokens(config, ManualClock(wall_ms=issuer.now_s * 1_000), Random(1))
    assert tokens is not None
    broker, kafka = tokens.of("BROKER"), tokens.of("KAFKA")
    assert broker is not None and kafka is not None and broker.source is kafka.source
    assert broker.check(issuer.token()).username == "anna"
    with pytest.raises(SaslRefusedError, match="audience"):
        broker.check(issuer.token(aud="other"))
    assert [(of.listener, of.keys, of.is_refused) for of in tokens.statistics()] == [
        ("BROKER", 1, False),
        ("KAFKA", 1, False),
    ]


def test_each_listener_may_have_its_own_issuer(tmp_path: Path) -> None:
    ours, theirs = Issuer(ec_key("ours")), Issuer(ec_key("theirs"))
    config = node(
        ours.publish(tmp_path / "ours"),
        keys={f"listener.name.kafka.{PREFIX}jwks.endpoint.url": theirs.publish(tmp_path / "theirs")},
    )
    tokens = own_tokens(config, ManualClock(wall_ms=ours.now_s * 1_000), Random(1))
    assert tokens is not None
    broker, kafka = tokens.of("BROKER"), tokens.of("KAFKA")
    assert broker is not None and kafka is not None
    assert broker.check(ours.token()) and kafka.check(theirs.token())
    with pytest.raises(SaslRefusedError):
        kafka.check(ours.token())


def test_a_file_that_does_not_work_refuses_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        own_tokens(node((tmp_path / "none").as_uri()), ManualClock(), Random(1))
    broken = tmp_path / "broken"
    broken.write_text("{")
    with pytest.raises(ConfigError, match="broken: is not JSON"):
        own_tokens(node(broken.as_uri()), ManualClock(), Random(1))


def test_a_page_that_nobody_serves_refuses_no_start() -> None:
    assert own_tokens(node("https://127.0.0.1:1/keys"), ManualClock(), Random(1)) is not None


def test_a_node_that_takes_no_tokens_has_none() -> None:
    plain = parse_config(PLAIN, looks_at_dirs=False)
    assert own_tokens(plain, ManualClock(), Random(1)) is None and list(token_warnings(plain)) == []


def test_it_warns_of_tokens_that_were_made_for_others() -> None:
    url = "https://issuer.example/keys"
    first, second = token_warnings(node(url))
    assert first.startswith("BROKER takes every token") and second.startswith("KAFKA takes every token")
    assert f"set {PREFIX}expected.audience and {PREFIX}expected.issuer" in first
    both = {f"{PREFIX}expected.audience": [AUDIENCE], f"{PREFIX}expected.issuer": ISSUER}
    assert list(token_warnings(node(url, keys=both))) == []
