"""Real clients of Kafka log in: by each mechanism, again before their time is over, and not with a wrong password."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.errors import AuthenticationFailedError
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
from tests.interop import round_trips
from tests.interop.round_trips import REFUSED, REFUSED_MS, TIMEOUT_S, VALUES

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
REAUTH_MS = 4_000
OTHERS = ("BROKER:PLAINTEXT", "INTERNAL:PLAINTEXT", "CONTROLLER:PLAINTEXT")
USER, ODD_USER, PASSWORD = "anna", "anna, of =sales", "päss=wörd,1"
"""kafka-python does not escape an odd name."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "listener.security.protocol.map": [*OTHERS, "KAFKA:SASL_PLAINTEXT"],
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
        "listener.security.protocol.map": [*OTHERS, "KAFKA:SASL_SSL"],
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


def by_confluent(cluster: Cluster, topic: str, mechanism: str) -> object:
    return round_trips.by_confluent(rdkafka(cluster, mechanism), topic)


def by_kafka_python(cluster: Cluster, topic: str, mechanism: str) -> object:
    return round_trips.by_kafka_python(python(cluster, mechanism), topic)


def by_aiokafka(cluster: Cluster, topic: str, mechanism: str) -> object:
    return round_trips.by_aiokafka(python(cluster, mechanism), topic)


Work = Callable[[Cluster, str, str], object]


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
        assert round_trips.by_kafka_python(over_tls, topic) == VALUES


def test_a_wrong_password_is_told_to_each_client_in_its_own_words(cluster: Cluster) -> None:
    error = round_trips.error_of_confluent(rdkafka(cluster, MECHANISMS[0], password="wrong"))
    assert error.code() == KafkaError._AUTHENTICATION
    assert (
        round_trips.by_kafka_python(python(cluster, MECHANISMS[0], password="wrong"), "t", within_ms=REFUSED_MS)
        == REFUSED
    )
    with pytest.raises(Exception, match=r"(?i)auth|bootstrap") as refusal:
        round_trips.start_aiokafka(python(cluster, MECHANISMS[0], user="nobody"))
    assert isinstance(refusal.value, AuthenticationFailedError) or "bootstrap" in str(refusal.value)


def test_users_that_a_client_of_kafka_sets_log_in_and_those_that_it_deletes_do_not(cluster: Cluster) -> None:
    admin = AdminClient(rdkafka(cluster, MECHANISMS[1]))
    sha_512 = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("carl", sha_512, b"carls")])["carl"].result(
        TIMEOUT_S
    )
    answer = admin.describe_user_scram_credentials(["carl"])["carl"].result(TIMEOUT_S)
    found = [(one.mechanism, one.iterations) for one in answer.scram_credential_infos]
    assert found == [(ScramMechanism.SCRAM_SHA_512, 8192)]
    everybody = admin.describe_user_scram_credentials().result(TIMEOUT_S)
    assert sorted(everybody) == sorted([USER, ODD_USER, "carl"])
    carl = python(cluster, MECHANISMS[1], "carl", "carls")
    assert round_trips.by_kafka_python(carl, cluster.topic()) == VALUES
    deletion = UserScramCredentialDeletion("carl", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["carl"].result(TIMEOUT_S)
    assert round_trips.by_kafka_python(carl, "t", within_ms=REFUSED_MS) == REFUSED
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
