"""Clients log in by a token (OAUTHBEARER) in both protocols: Kafka's real ones, and ours, which get new ones as they
go."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError

from penstock import Admin, Consumer, Producer
from penstock.certs.authority import CA_FILE, Authority
from penstock.errors import SaslAuthenticationFailedError, TopicAuthorizationFailedError
from penstock.testing import Cluster
from tests.interop import round_trips
from tests.interop.round_trips import REFUSED, REFUSED_MS, TIMEOUT_S, VALUES
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key, rsa_key
from tests.support.waiting import wait_until

LIFETIME_S = 4


@dataclass
class Stage:
    cluster: Cluster
    issuer: Issuer
    ca: str
    keys: Path

    def token(self, user: str = "anna", lifetime_s: float = 600, **claims: Any) -> str:
        now_s = int(time.time())
        return self.issuer.token(sub=user, iat=now_s, exp=now_s + lifetime_s, **claims)

    def client(self, user: str = "anna", **claims: Any) -> dict[str, Any]:
        """Options of our clients."""
        return {"tls_ca": self.ca, "token": self.token(user, **claims)}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("oauth")
    authority, issuer = Authority.create(directory), Issuer(rsa_key("first"))
    config = {
        "listener.security.protocol.map": [
            "BROKER:SASL_SSL",
            "KAFKA:SASL_SSL",
            "INTERNAL:PLAINTEXT",
            "CONTROLLER:PLAINTEXT",
        ],
        "ssl.keystore.location": str(authority.node(0, ["localhost", "127.0.0.1"])),
        "sasl.enabled.mechanisms": ["SCRAM-SHA-256", "OAUTHBEARER"],
        "sasl.oauthbearer.jwks.endpoint.url": issuer.publish(directory / "keys.json"),
        "sasl.oauthbearer.expected.audience": [AUDIENCE],
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:anna",
    }
    ca = str(authority.directory / CA_FILE)
    now_s = int(time.time())
    of_super_user = directory / "token"
    of_super_user.write_text(issuer.token(sub="anna", iat=now_s, exp=now_s + 3_600))
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("PENSTOCK_TLS_CA", ca)
        variables.setenv("PENSTOCK_TOKEN_FILE", str(of_super_user))
        with Cluster(config=config) as made:
            yield Stage(made, issuer, ca, directory / "keys.json")


def rdkafka(stage: Stage, token: str, lifetime_s: float = 600) -> dict[str, Any]:
    return {
        "bootstrap.servers": stage.cluster.kafka_bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": stage.ca,
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + lifetime_s),
        "log_level": 0,
    }


def python(stage: Stage) -> dict[str, Any]:
    return {
        "bootstrap_servers": stage.cluster.kafka_bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
    }


def test_librdkafka(stage: Stage) -> None:
    assert round_trips.by_confluent(rdkafka(stage, stage.token()), stage.cluster.topic()) == VALUES


def test_librdkafka_is_told_of_a_token_that_does_not_count(stage: Stage) -> None:
    error = round_trips.error_of_confluent(rdkafka(stage, stage.token(aud="another")))
    assert error.code() == KafkaError._AUTHENTICATION


def test_kafka_python(stage: Stage) -> None:
    how = {**python(stage), "ssl_cafile": stage.ca}
    assert round_trips.by_kafka_python(how, stage.cluster.topic(), stage.token()) == VALUES
    assert round_trips.by_kafka_python(how, "t", stage.token(lifetime_s=-3_600), REFUSED_MS) == REFUSED


class Tokens(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def test_aiokafka(stage: Stage) -> None:
    how = {**python(stage), "ssl_context": ssl.create_default_context(cafile=stage.ca)}

    def holding(token: str) -> dict[str, Any]:
        return {**how, "sasl_oauth_token_provider": Tokens(token)}

    assert round_trips.by_aiokafka(holding(stage.token()), stage.cluster.topic()) == VALUES
    with pytest.raises(KafkaConnectionError):  # it does not look into the answer, and goes on
        round_trips.start_aiokafka(holding(stage.token(iss="https://another.example")))


def test_our_clients_log_in_and_are_who_the_token_says(stage: Stage) -> None:
    topic, bootstrap = stage.cluster.topic(), stage.cluster.bootstrap
    with Producer(bootstrap, **stage.client()) as producer:
        producer.send(topic, VALUES[0]).result(TIMEOUT_S)
    with Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", **stage.client()) as consumer:
        consumer.subscribe([topic])
        assert [record.value for record in consumer.poll(timeout_ms=60_000)] == VALUES[:1]
    with (
        Producer(bootstrap, **stage.client("bert")) as stranger,
        pytest.raises(TopicAuthorizationFailedError, match="User:bert"),
    ):
        stranger.send(topic, b"v").result(TIMEOUT_S)


def test_our_clients_are_told_why_a_token_does_not_count(stage: Stage) -> None:
    for claims, why in (({"lifetime_s": -3_600}, "the token has expired"), ({"aud": "x"}, "expected.audience")):
        with pytest.raises(SaslAuthenticationFailedError, match=why) as caught:
            Admin(stage.cluster.bootstrap, **stage.client(**claims)).list_topics()
        assert "the user of token cannot log in" in str(caught.value) and "eyJ" not in str(caught.value)


def test_a_session_ends_with_its_token_and_a_renewed_file_carries_on(stage: Stage, tmp_path: Path) -> None:
    topic, file, tokens = stage.cluster.topic(), tmp_path / "token", [0]

    def renew() -> str:
        tokens[0] += 1
        return stage.token(lifetime_s=LIFETIME_S)

    file.write_text(renew() + "\n")
    options = {"tls_ca": stage.ca}
    with (
        Producer(stage.cluster.bootstrap, token_file=file, **options) as of_file,
        Producer(stage.cluster.bootstrap, token_provider=renew, **options) as of_function,
    ):
        end = time.monotonic() + 2.5 * LIFETIME_S
        while time.monotonic() < end:
            of_file.send(topic, b"f").result(TIMEOUT_S)
            of_function.send(topic, b"p").result(TIMEOUT_S)
            file.write_text(renew() + "\n")
            time.sleep(0.2)
        asked = tokens[0]
        wait_until(lambda: tokens[0] > asked)  # renewed without being used


def test_keys_that_rotate_are_learned_at_once(stage: Stage) -> None:
    topic = stage.cluster.topic()
    stage.issuer.keys.append(ec_key("second"))
    stage.issuer.publish(stage.keys)
    with Producer(stage.cluster.bootstrap, delivery_timeout_ms=60_000, **stage.client()) as producer:
        producer.send(topic, VALUES[0]).result(TIMEOUT_S)
