"""Real clients of Kafka set ACLs, and each user does what it was allowed to: through the listener, with passwords."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from penstock import Admin
from penstock.client.admin import admin_types
from penstock.testing import Cluster

PASSWORD, MECHANISM, TIMEOUT_S = "secret", "SCRAM-SHA-256", 60
ROOT, ANNA, BOB = "root", "anna", "bob"
OTHERS = ("BROKER:PLAINTEXT", "INTERNAL:PLAINTEXT", "CONTROLLER:PLAINTEXT")
TOPIC, SECRET, GROUP = "orders", "secret", "readers"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Whoever reaches BROKER, without a password, is a super user: at KAFKA everybody logs in."""
    config = {
        "listener.security.protocol.map": [*OTHERS, "KAFKA:SASL_PLAINTEXT"],
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
    }
    with Cluster(config=config) as made:
        with Admin(made.bootstrap) as admin:
            users = [admin_types.UserScramCredentialUpsertion(user, PASSWORD, MECHANISM) for user in (ROOT, ANNA, BOB)]
            assert set(admin.alter_user_scram_credentials(users).values()) == {None}
            for topic in (TOPIC, SECRET):
                admin.create_topic(topic, 1)
        yield made


def client(cluster: Cluster, user: str, **more: Any) -> dict[str, Any]:
    login = {"sasl.mechanism": MECHANISM, "sasl.username": user, "sasl.password": PASSWORD}
    bootstrap = {"bootstrap.servers": cluster.kafka_bootstrap, "security.protocol": "SASL_PLAINTEXT", "log_level": 0}
    return {**bootstrap, **login, **more}


def acl(kind: Any, name: str, user: str, operation: Any, pattern: Any = ResourcePatternType.LITERAL) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


ACLS = [
    acl(ResourceType.TOPIC, "ord", ANNA, AclOperation.WRITE, ResourcePatternType.PREFIXED),
    acl(ResourceType.TOPIC, TOPIC, ANNA, AclOperation.READ),
    acl(ResourceType.GROUP, GROUP, ANNA, AclOperation.READ),
]
EVERY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def root(cluster: Cluster) -> AdminClient:
    admin = AdminClient(client(cluster, ROOT))
    for future in admin.create_acls(ACLS).values():
        future.result(TIMEOUT_S)
    return admin


def produced(cluster: Cluster, user: str, topic: str) -> int | None:
    """The code of the error; None if the record was written."""
    codes: list[int | None] = []
    producer = Producer(client(cluster, user, **{"message.timeout.ms": 60_000, "enable.idempotence": True}))
    producer.produce(topic, b"value", on_delivery=lambda error, _: codes.append(error.code() if error else None))
    assert producer.flush(TIMEOUT_S) == 0
    return codes[0]


def consumed(cluster: Cluster, user: str, group: str, topic: str) -> bytes | int:
    """The first record, or the code of an error."""
    consumer = Consumer(client(cluster, user, **{"group.id": group, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None:
                error = message.error()
                return message.value() if error is None else int(error.code())
        raise AssertionError("no record and no error")
    finally:
        consumer.close()


def test_acls_are_told_as_they_were_made(root: AdminClient) -> None:
    assert {str(one) for one in root.describe_acls(EVERY_ACL).result(TIMEOUT_S)} == {str(one) for one in ACLS}


def test_each_user_does_what_it_may(cluster: Cluster, root: AdminClient) -> None:
    assert produced(cluster, ANNA, TOPIC) is None
    assert consumed(cluster, ANNA, GROUP, TOPIC) == b"value"
    assert produced(cluster, ANNA, SECRET) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(cluster, ANNA, "others", TOPIC) == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert produced(cluster, BOB, TOPIC) in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,  # no topic is his to write to, so he gets no producer id
    )


def test_lists_have_what_one_may_describe_and_the_operations_that_one_may_do(
    cluster: Cluster, root: AdminClient
) -> None:
    anna, bob = AdminClient(client(cluster, ANNA)), AdminClient(client(cluster, BOB))
    assert set(anna.list_topics(timeout=TIMEOUT_S).topics) == {TOPIC}
    assert set(bob.list_topics(timeout=TIMEOUT_S).topics) == set()
    assert {TOPIC, SECRET} <= set(root.list_topics(timeout=TIMEOUT_S).topics)
    (described,) = anna.describe_topics(TopicCollection([TOPIC]), include_authorized_operations=True).values()
    operations = {one.name for one in described.result(TIMEOUT_S).authorized_operations}
    assert operations == {"READ", "WRITE", "DESCRIBE"}


def test_only_who_may_alter_the_cluster_makes_acls(cluster: Cluster, root: AdminClient) -> None:
    bob = AdminClient(client(cluster, BOB))
    (future,) = bob.create_acls([acl(ResourceType.TOPIC, SECRET, BOB, AclOperation.READ)]).values()
    with pytest.raises(KafkaException) as caught:
        future.result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_what_is_removed_counts_no_more(cluster: Cluster, root: AdminClient) -> None:
    mine = acl(ResourceType.TOPIC, SECRET, BOB, AclOperation.ALL)
    (made,) = root.create_acls([mine]).values()
    made.result(TIMEOUT_S)
    assert produced(cluster, BOB, SECRET) is None
    wanted = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{BOB}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    (gone,) = root.delete_acls([wanted]).values()
    assert [str(one) for one in gone.result(TIMEOUT_S)] == [str(mine)]
    assert produced(cluster, BOB, SECRET) is not None
