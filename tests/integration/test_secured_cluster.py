"""Three secured nodes: every kind of client works through a crash, a new node and the ends of its sessions; a forked
child connects without gRPC's library; who has no password, or a wrong one, is told so and gets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, AtomicBatches, Consumer, Producer
from penstock.errors import AuthenticationRequiredError, BootstrapError, SaslAuthenticationFailedError
from penstock.testing import Cluster
from tests.support.forked import in_child

SESSION_MS = 2_000
"""Short, so that every stream of these tests outlives its first session."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config={"connections.max.reauth.ms": SESSION_MS}, secure=True) as running:
        yield running


@pytest.fixture
def who(cluster: Cluster) -> dict[str, Any]:
    return dict(cluster.client_options)


def read(cluster: Cluster, who: dict[str, Any], topic: str, count: int) -> list[bytes | None]:
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", **who) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        found: list[bytes | None] = []
        while len(found) < count and (records := consumer.poll(timeout_ms=60_000)):
            found += [record.value for record in records]
    return sorted(found, key=str)


def test_streams_outlive_their_sessions_a_crash_and_a_new_node(cluster: Cluster, who: dict[str, Any]) -> None:
    topic = cluster.topic(partitions=3)
    values = [b"%03d" % number for number in range(300)]
    with Producer(cluster.bootstrap, **who) as producer:
        for value in values[:100]:
            producer.send(topic, value)
        producer.flush()
        with cluster.down(cluster.leader(topic)):
            for value in values[100:200]:
                producer.send(topic, value)
            producer.flush()
        assert cluster.add_node() == 3
        for value in values[200:]:
            producer.send(topic, value)
        producer.flush()
    assert read(cluster, who, topic, len(values)) == values


def test_async_clients_and_atomic_batches_log_in_too(cluster: Cluster, who: dict[str, Any]) -> None:
    topic = cluster.topic()

    async def run() -> list[bytes | None]:
        async with AsyncAdmin(cluster.bootstrap, **who) as admin, AsyncProducer(cluster.bootstrap, **who) as producer:
            assert topic in await admin.list_topics()
            await (await producer.send(topic, b"async"))
        async with AsyncConsumer(cluster.bootstrap, auto_offset_reset="earliest", **who) as consumer:
            await consumer.assign(await consumer.partitions_for(topic))
            return [record.value for record in await consumer.poll(timeout_ms=60_000)]

    assert asyncio.run(run()) == [b"async"]
    with AtomicBatches(cluster.bootstrap, **who) as batches:
        writer = batches.begin("secured", 0)
        assert writer is not None
        with writer:
            writer.send(topic, b"atomic")
        batches.commit("secured", 0, [writer.identity])
    assert read(cluster, who, topic, 2) == [b"async", b"atomic"]


def test_a_forked_child_connects_without_grpcs_library(cluster: Cluster, who: dict[str, Any]) -> None:
    topic = cluster.topic()
    with Producer(cluster.bootstrap, **who) as producer:
        producer.send(topic, b"of the parent").result()

    def work() -> list[bytes | None]:
        with Producer(cluster.bootstrap, **who) as producer:
            producer.send(topic, b"of the child").result()
        return read(cluster, who, topic, 2)

    assert in_child(work) == "[b'of the child', b'of the parent']"


def test_who_has_no_password_or_a_wrong_one_is_told_so_and_gets_nothing(cluster: Cluster, who: dict[str, Any]) -> None:
    with Admin(cluster.bootstrap, tls_ca=who["tls_ca"]) as admin, pytest.raises(AuthenticationRequiredError):
        admin.list_topics()
    wrong = {"tls_ca": who["tls_ca"], "username": "admin", "password": "a guess"}
    message = "user 'admin' by SCRAM-SHA-256 cannot log in: .*the user's name or the password is wrong"
    with Producer(cluster.bootstrap, **wrong) as producer, pytest.raises(SaslAuthenticationFailedError, match=message):
        producer.send("anything", b"v").result()
    with (
        Consumer(cluster.bootstrap, group_id="g", **wrong) as consumer,
        pytest.raises(SaslAuthenticationFailedError, match=message),
    ):
        consumer.subscribe(["anything"])
    with (
        Admin(cluster.bootstrap, bootstrap_timeout_ms=5_000) as open_one,
        pytest.raises(BootstrapError, match="tls_ca"),
    ):
        open_one.list_topics()
