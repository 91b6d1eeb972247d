"""Clients log in by a token (OAUTHBEARER) at both doors: Kafka's real ones, and ours, which get new ones as they go."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer

from penstock import Admin, Consumer, Producer
from penstock.certs.authority import CA_FILE, Authority
from penstock.errors import SaslAuthenticationFailedError, TopicAuthorizationFailedError
from penstock.testing import Cluster
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key, rsa_key
from tests.support.waiting import wait_until

TIMEOUT_S = 60
LIFETIME_S = 4
VALUES = [b"value %d" % number for number in range(10)]


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
        "listener.security.protocol.map": ["BROKER:SASL_SSL", "KAFKA:SASL_SSL"],
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


def test_librdkafka(stage: Stage) -> None:
    topic, how = stage.cluster.topic(), rdkafka(stage, stage.token())
    producer = ConfluentProducer(how)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = ConfluentConsumer(how | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(len(VALUES), 1.0) if message.error() is None]
    consumer.close()
    assert found == VALUES


def test_librdkafka_is_told_of_a_token_that_does_not_count(stage: Stage) -> None:
    errors: list[KafkaError] = []
    how = rdkafka(stage, stage.token(aud="another")) | {"error_cb": errors.append}
    producer = ConfluentProducer(how)
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    producer.purge()


KAFKA_PYTHON = """
import json, logging, sys
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
logging.basicConfig()
how, token, topic, values, within_ms = json.loads(sys.argv[1])
class Tokens(AbstractTokenProvider):
    def token(self):
        return token
how["sasl_oauth_token_provider"] = Tokens()
try:
    producer = KafkaProducer(**how, bootstrap_timeout_ms=within_ms)
    for value in values:
        producer.send(topic, value.encode()).get(60)
    producer.close()
    reader = KafkaConsumer(topic, auto_offset_reset="earliest", group_id=topic, **how)
    found = []
    while len(found) < len(values):
        found += [record.value.decode() for records in reader.poll(1000).values() for record in records]
    reader.close()
    print(json.dumps(found))
except Exception as error:
    print(json.dumps(repr(error)))
"""


def kafka_python(stage: Stage, token: str, topic: str, within_ms: int = 30_000) -> tuple[Any, str]:
    """Returns what it has read of what it has written, or its error; and its log."""
    how = {
        "bootstrap_servers": stage.cluster.kafka_bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": stage.ca,
        "sasl_mechanism": "OAUTHBEARER",
    }
    asked = json.dumps((how, token, topic, [value.decode() for value in VALUES], within_ms))
    command = [sys.executable, "-W", "ignore", "-c", KAFKA_PYTHON, asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout), done.stderr


def test_kafka_python(stage: Stage) -> None:
    found, _ = kafka_python(stage, stage.token(), stage.cluster.topic())
    assert found == [value.decode() for value in VALUES]
    refused, log = kafka_python(stage, stage.token(lifetime_s=-3_600), "t", 5_000)
    assert isinstance(refused, str) and "SaslAuthenticationFailedError" in log


class Tokens(AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def test_aiokafka(stage: Stage) -> None:
    topic = stage.cluster.topic()

    def how(token: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": stage.cluster.kafka_bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=stage.ca),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(token),
        }

    async def work() -> list[bytes | None]:
        async with AIOKafkaProducer(**how(stage.token())) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        reading = {"auto_offset_reset": "earliest", "group_id": topic, **how(stage.token())}
        async with AIOKafkaConsumer(topic, **reading) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    async def refused() -> None:
        producer = AIOKafkaProducer(**how(stage.token(iss="https://another.example")))
        try:
            await producer.start()
        finally:
            await producer.stop()

    async def within() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            assert await work() == VALUES
            with pytest.raises(KafkaConnectionError):  # it does not look into the answer, and goes on
                await refused()

    asyncio.run(within())


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
