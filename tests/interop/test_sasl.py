"""Real clients of Kafka log in: by each mechanism, again before their time is over, and not with a wrong password."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import AuthenticationFailedError
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from penstock import Admin
from penstock.certs.authority import CA_FILE, Authority
from penstock.client.admin import admin_types
from penstock.testing import Cluster

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
REAUTH_MS = 4_000
USER, ODD_USER, PASSWORD = "anna", "anna, of =sales", "päss=wörd,1"
"""kafka-python does not escape an odd name."""
TIMEOUT_S = 60
REFUSED_MS = 5_000
"""How long a client of kafka-python tries to log in with what is wrong."""
VALUES = [b"value %d" % number for number in range(10)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "listener.security.protocol.map": ["KAFKA:SASL_PLAINTEXT"],
        "listener.name.kafka.connections.max.reauth.ms": REAUTH_MS,
    }
    with Cluster(config=config) as made:
        with Admin(made.bootstrap) as admin:
            users = [
                admin_types.UserScramCredentialUpsertion(user, PASSWORD, one)
                for one in MECHANISMS
                for user in (USER, ODD_USER)
            ]
            assert admin.alter_user_scram_credentials(users) == {USER: None, ODD_USER: None}
        yield made


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """With TLS at Kafka's listener, and the file of its CA."""
    authority = Authority.create(tmp_path_factory.mktemp("certs"))
    config = {
        "listener.security.protocol.map": ["KAFKA:SASL_SSL"],
        "ssl.keystore.location": str(authority.node(0, ["localhost", "127.0.0.1"])),
        "sasl.enabled.mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"],
    }
    with Cluster(config=config) as made:
        with Admin(made.bootstrap) as admin:
            user = admin_types.UserScramCredentialUpsertion(USER, PASSWORD, "SCRAM-SHA-512")
            assert admin.alter_user_scram_credentials([user]) == {USER: None}
        yield made, str(authority.directory / CA_FILE)


def rdkafka(cluster: Cluster, mechanism: str, user: str = ODD_USER, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.kafka_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def python(cluster: Cluster, mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.kafka_bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def by_confluent(cluster: Cluster, topic: str, mechanism: str) -> list[bytes | None]:
    producer = ConfluentProducer(rdkafka(cluster, mechanism))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = ConfluentConsumer(rdkafka(cluster, mechanism) | group)
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(len(VALUES), 1.0) if message.error() is None]
    consumer.close()
    return found


KAFKA_PYTHON = """
import json, logging, sys
from kafka import KafkaConsumer, KafkaProducer
logging.basicConfig()
how, topic, values, within_ms = json.loads(sys.argv[1])
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
REFUSED = "refused"


def kafka_python(how: dict[str, Any], topic: str, within_ms: int = 30_000) -> list[str] | str:
    """Returns what it has read of what it has written, REFUSED if it was told that it is not who it says, or its error.
    It has a process of its own: refused, it leaves sockets open. It tries again until its time is over."""
    asked = json.dumps((how, topic, [value.decode() for value in VALUES], within_ms))
    command = [sys.executable, "-W", "ignore", "-c", KAFKA_PYTHON, asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: list[str] | str = json.loads(done.stdout)
    return REFUSED if isinstance(found, str) and "[Error 58] SaslAuthenticationFailedError" in done.stderr else found


def by_kafka_python(cluster: Cluster, topic: str, mechanism: str) -> list[bytes | None]:
    return [value.encode() for value in kafka_python(python(cluster, mechanism), topic)]


def by_aiokafka(cluster: Cluster, topic: str, mechanism: str) -> list[bytes | None]:
    async def work() -> list[bytes | None]:
        async with AIOKafkaProducer(**python(cluster, mechanism)) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        how = {"auto_offset_reset": "earliest", "group_id": topic, **python(cluster, mechanism)}
        async with AIOKafkaConsumer(topic, **how) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    async def within() -> list[bytes | None]:
        async with asyncio.timeout(TIMEOUT_S):
            return await work()

    return asyncio.run(within())


Work = Callable[[Cluster, str, str], list[bytes | None]]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("work", [by_confluent, by_kafka_python, by_aiokafka])
def test_a_client_logs_in_writes_and_reads(cluster: Cluster, work: Work, mechanism: str) -> None:
    assert work(cluster, cluster.topic(), mechanism) == VALUES


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_logs_in_over_tls(secure: tuple[Cluster, str], mechanism: str) -> None:
    cluster, ca = secure
    topic = cluster.topic()
    how = rdkafka(cluster, mechanism, USER) | {"security.protocol": "SASL_SSL", "ssl.ca.location": ca}
    producer = ConfluentProducer(how)
    producer.produce(cluster.topic(), b"v")
    assert producer.flush(TIMEOUT_S) == 0
    if mechanism == "PLAIN":
        over_tls = python(cluster, mechanism) | {"security_protocol": "SASL_SSL", "ssl_cafile": ca}
        assert kafka_python(over_tls, topic) == [value.decode() for value in VALUES]


def test_a_wrong_password_is_told_to_each_client_in_its_own_words(cluster: Cluster) -> None:
    errors: list[KafkaError] = []
    producer = ConfluentProducer(
        rdkafka(cluster, MECHANISMS[0], password="wrong") | {"error_cb": errors.append}  # type: ignore[operator]
    )
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    producer.purge()
    assert kafka_python(python(cluster, MECHANISMS[0], password="wrong"), "t", REFUSED_MS) == REFUSED

    async def work() -> None:
        producer = AIOKafkaProducer(**python(cluster, MECHANISMS[0], user="nobody"))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(Exception, match=r"(?i)auth|bootstrap") as refusal:
        asyncio.run(work())
    assert isinstance(refusal.value, AuthenticationFailedError) or "bootstrap" in str(refusal.value)


def test_users_that_a_client_of_kafka_sets_log_in_and_those_that_it_deletes_do_not(cluster: Cluster) -> None:
    admin = AdminClient(rdkafka(cluster, MECHANISMS[1]))
    sha_512 = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("carl", sha_512, b"carls")])["carl"].result(
        TIMEOUT_S
    )
    told = admin.describe_user_scram_credentials(["carl"])["carl"].result(TIMEOUT_S)
    found = [(one.mechanism, one.iterations) for one in told.scram_credential_infos]
    assert found == [(ScramMechanism.SCRAM_SHA_512, 8192)]
    everybody = admin.describe_user_scram_credentials().result(TIMEOUT_S)
    assert sorted(everybody) == sorted([USER, ODD_USER, "carl"])
    carl = python(cluster, MECHANISMS[1], "carl", "carls")
    assert kafka_python(carl, cluster.topic()) == [value.decode() for value in VALUES]
    deletion = UserScramCredentialDeletion("carl", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["carl"].result(TIMEOUT_S)
    assert kafka_python(carl, "t", REFUSED_MS) == REFUSED
    with pytest.raises(KafkaException) as refusal:
        admin.alter_user_scram_credentials([deletion])["carl"].result(TIMEOUT_S)
    assert refusal.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_clients_log_in_again_by_the_connections_that_they_have(cluster: Cluster) -> None:
    topic = cluster.topic()
    before = renewed(cluster)
    errors: list[KafkaError] = []
    producer = ConfluentProducer(rdkafka(cluster, MECHANISMS[0]) | {"error_cb": errors.append})  # type: ignore[operator]
    sent = 0
    deadline = time.monotonic() + TIMEOUT_S
    while renewed(cluster) < before + 2:
        assert time.monotonic() < deadline
        producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error) if error else None)
        sent += 1
        producer.poll(0.05)
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == []


def renewed(cluster: Cluster) -> float:
    """How often log-ins were renewed, by the node's own count."""
    text = urllib.request.urlopen(cluster.metrics_url(0), timeout=60).read().decode()
    lines = [line for line in text.splitlines() if line.startswith("penstock_reauthentications_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'listener="KAFKA"' in line)
