"""A tenant fills its share of a coordinator's memory through one listener, and others are served through both."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

import penstock
from penstock import Admin
from penstock.client.admin import admin_types
from penstock.errors import GroupMaxSizeReachedError
from penstock.testing import Cluster

PASSWORD, MECHANISM, TENANT, VICTIM = "secret", "SCRAM-SHA-256", "tenant", "victim"
OTHERS = ("BROKER:PLAINTEXT", "INTERNAL:PLAINTEXT", "CONTROLLER:PLAINTEXT")
LIMIT, NOTE, PARTITIONS, GROUPS_MAX = 1 << 20, "n" * 4_000, 20, 50
PLACE = penstock.TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The listener KAFKA has log-ins; clients of the other one are anonymous, and share as one network."""
    config = {
        "listener.security.protocol.map": [*OTHERS, "KAFKA:SASL_PLAINTEXT"],
        "group.coordinator.memory.max.bytes": LIMIT,
        "offsets.topic.num.partitions": 4,
    }
    with Cluster(1, config=config) as made:
        with Admin(made.bootstrap) as admin:
            users = [admin_types.UserScramCredentialUpsertion(user, PASSWORD, MECHANISM) for user in (TENANT, VICTIM)]
            assert set(admin.alter_user_scram_credentials(users).values()) == {None}
            admin.create_topic("orders", PARTITIONS)
        yield made


def commit(cluster: Cluster, user: str, group_id: str, note: str = "") -> int:
    """Kafka's code for a commit of all partitions, by a consumer that is no member."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORD,
            "group.id": group_id,
            "log_level": 0,
        }
    )
    offsets = [TopicPartition("orders", number, 1, note) for number in range(PARTITIONS)]
    try:
        answer = consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        return int(error.args[0].code())
    finally:
        consumer.close()
    return next((int(one.error.code()) for one in answer or () if one.error is not None), 0)


def held(cluster: Cluster) -> dict[str, float]:
    page = urllib.request.urlopen(cluster.metrics_url(0), timeout=60).read().decode()
    rows = re.findall(r'^penstock_group_coordinator_party_memory_bytes\{party="([^"]+)"\} (\S+)', page, re.M)
    return {party: float(count) for party, count in rows}


def test_a_tenant_that_fills_its_share_is_refused_and_others_are_served_at_both_listeners(cluster: Cluster) -> None:
    codes = [commit(cluster, TENANT, "t-0", NOTE)]
    while codes[-1] == 0 and len(codes) < GROUPS_MAX:
        codes.append(commit(cluster, TENANT, f"t-{len(codes)}", NOTE))
    assert codes[-1] == KafkaError.GROUP_MAX_SIZE_REACHED and 4 < len(codes) < GROUPS_MAX
    assert held(cluster)["User:tenant"] <= LIMIT / 2
    assert commit(cluster, TENANT, "t-0", NOTE) == 0, "as large as before"
    assert commit(cluster, VICTIM, "v-0", NOTE) == 0
    with Admin(cluster.bootstrap) as admin:
        assert admin.alter_group_offsets("mine", {PLACE: 1}) == {PLACE: None}
        large = {penstock.TopicPartition("orders", number): 1 for number in range(PARTITIONS)}
        refused: list[object] = []
        for number in range(2_000):
            refused = [error for error in admin.alter_group_offsets(f"more-{number}", large).values() if error]
            if refused:
                break
        assert all(isinstance(error, GroupMaxSizeReachedError) for error in refused) and refused
        assert "group.coordinator.memory.max.bytes" in str(refused[0])
        for number in range(len(codes)):
            admin.delete_groups([f"t-{number}"])
    assert commit(cluster, TENANT, "t-again", NOTE) == 0
