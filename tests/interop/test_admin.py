"""Admins of other clients do their work on a cluster of three nodes, each by its own ways of asking.

The plans' own tests have every version and every error (`tests/unit/broker/kafka/apis/`). These show that real clients
read the answers: kafka-python has calls for nearly all of the APIs, librdkafka for those of topics and configuration.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import admin as librdkafka

from penstock.testing import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it loads its schemas by a call that Python 3.12 deprecates
    from kafka import TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
    from kafka.errors import KafkaError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NODES = 3
TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
WAIT_S = 60
OF_TOPIC = librdkafka.ConfigSource.DYNAMIC_TOPIC_CONFIG.value


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(NODES) as cluster:
        yield cluster


@pytest.fixture
def kafka_python(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    yield admin
    admin.close()


@pytest.fixture
def confluent(cluster: Cluster) -> librdkafka.AdminClient:
    return librdkafka.AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})


def eventually(found: Callable[[], Any], wanted: Any) -> None:
    """Any broker may answer, and is a moment behind the one that made the change."""
    deadline = time.monotonic() + WAIT_S
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, (last, wanted)
        time.sleep(0.05)


def refused_with(call: Callable[[], Any], name: str) -> None:
    with pytest.raises(KafkaError) as error:
        call()
    assert type(error.value).__name__ == name


def two_pages_of(admin: KafkaAdminClient, topic: str) -> tuple[list[int], list[int], Any]:
    """The partitions of each page of three, and the cursor behind the second."""
    first = admin.describe_topic_partitions([topic], response_partition_limit=3)
    second = admin.describe_topic_partitions([topic], response_partition_limit=3, cursor=first["next_cursor"])
    indexes = [[p["partition_index"] for p in page["topics"][0]["partitions"]] for page in (first, second)]
    return indexes[0], indexes[1], second["next_cursor"]


def partitions_of(admin: KafkaAdminClient, topic: str) -> dict[int, list[int]]:
    (described,) = admin.describe_topics([topic])
    return {p["partition_index"]: p["replica_nodes"] for p in described["partitions"]}


def test_topics_by_kafka_python(kafka_python: KafkaAdminClient) -> None:
    admin, name = kafka_python, "kp-topics"
    asked = {name: {"num_partitions": 2, "replication_factor": NODES, "configs": {"retention.ms": "60000"}}}
    (made,) = admin.create_topics(asked)["topics"]
    assert (made["num_partitions"], made["configs"]["retention.ms"]["value"]) == (2, "60000")
    refused_with(lambda: admin.create_topics([name]), "TopicAlreadyExistsError")
    refused_with(lambda: admin.create_topics(["a b"]), "InvalidTopicError")
    refused_with(lambda: admin.create_topics({"x": {"replication_factor": NODES + 1}}), "InvalidReplicationFactorError")
    admin.create_partitions({name: 5})
    eventually(lambda: sorted(partitions_of(admin, name)), list(range(5)))
    eventually(lambda: two_pages_of(admin, name), ([0, 1, 2], [3, 4], None))
    assert name in admin.list_topics()
    admin.delete_topics([name])
    eventually(lambda: name in admin.list_topics(), False)
    refused_with(lambda: admin.delete_topics([name]), "UnknownTopicOrPartitionError")


def test_configuration_by_kafka_python(cluster: Cluster, kafka_python: KafkaAdminClient) -> None:
    admin, name = kafka_python, cluster.topic("kp-configs")  # which every broker knows by now

    def of_topic() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(TOPIC, name, None)])["topic"][name]
        return {key: entry["value"] for key, entry in found.items() if entry["config_source"] == "DYNAMIC_TOPIC_CONFIG"}

    eventually(of_topic, {})
    admin.alter_configs([ConfigResource(TOPIC, name, {"segment.ms": "70000", "cleanup.policy": "compact"})])
    eventually(of_topic, {"segment.ms": "70000", "cleanup.policy": "compact"})
    admin.reset_configs([ConfigResource(TOPIC, name, {"segment.ms": None})])
    eventually(of_topic, {"cleanup.policy": "compact"})
    brokers = [str(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"]]
    asked = [ConfigResource(BROKER, broker, ["node.id"]) for broker in brokers]
    found = admin.describe_configs(asked, config_filter="all")["broker"]
    assert {broker: entries["node.id"]["value"] for broker, entries in found.items()} == {b: b for b in brokers}
    resources = admin.list_config_resources()
    assert name in resources["topic"] and len(resources["broker"]) == NODES


def test_replicas_and_the_cluster_by_kafka_python(cluster: Cluster, kafka_python: KafkaAdminClient) -> None:
    admin, name = kafka_python, "kp-replicas"
    described = admin.describe_cluster()
    brokers = [broker["broker_id"] for broker in described["brokers"]]
    assert (described["cluster_id"], len(brokers)) == (cluster.cluster_id, NODES)
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 2}})
    seen: dict[int, list[int]] = {}
    eventually(lambda: len(seen.update(partitions_of(admin, name)) or seen), 1)  # another broker may be behind still
    before = seen[0]
    after = [next(broker for broker in brokers if broker not in before), before[0]]
    admin.alter_partition_reassignments({TopicPartition(name, 0): after})
    eventually(lambda: (partitions_of(admin, name).get(0), admin.list_partition_reassignments()), (after, {}))
    (cancelled,) = admin.alter_partition_reassignments({TopicPartition(name, 0): None}).values()
    assert cancelled.__name__ == "NoReassignmentInProgressError"
    results = admin.elect_leaders(0, {name: [0]}, raise_errors=False).replica_election_results
    assert [row.error_code for result in results for row in result.partition_result] in ([0], [84])

    def replicas() -> int:
        dirs = [found for broker in admin.describe_log_dirs() for found in broker["log_dirs"]]
        return sum(topic["name"] == name for found in dirs for topic in found["topics"])

    eventually(replicas, 2)
    (partition,) = admin.describe_metadata_quorum()["topics"][0]["partitions"]
    assert len(partition["current_voters"]) == NODES and partition["leader_id"] in brokers
    refused_with(lambda: admin.update_features({"metadata.version": 1}), "InvalidUpdateVersionError")


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(WAIT_S) for future in futures.values()]


def test_topics_and_configuration_by_librdkafka(cluster: Cluster, confluent: librdkafka.AdminClient) -> None:
    admin, name = confluent, "cf-topics"
    done(admin.create_topics([librdkafka.NewTopic(name, 2, 2, config={"retention.ms": "60000"})]))
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_ALREADY_EXISTS"):
        done(admin.create_topics([librdkafka.NewTopic(name, 2, 2)]))
    asked = admin.create_topics([librdkafka.NewTopic(one, 1, 1) for one in ("cf-twice", "cf-once", "cf-twice")])
    asked["cf-once"].result(WAIT_S)
    with pytest.raises(confluent_kafka.KafkaException, match="INVALID_REQUEST"):
        asked["cf-twice"].result(WAIT_S)
    eventually(lambda: len(admin.list_topics(timeout=WAIT_S).topics[name].partitions), 2)
    done(admin.create_partitions([librdkafka.NewPartitions(name, 4)]))
    eventually(lambda: len(admin.list_topics(timeout=WAIT_S).topics[name].partitions), 4)
    to_seven = librdkafka.ConfigEntry("segment.ms", "7000", incremental_operation=librdkafka.AlterConfigOpType.SET)
    resource = librdkafka.ConfigResource("topic", name, incremental_configs=[to_seven])
    done(admin.incremental_alter_configs([resource]))

    def own() -> dict[str, str]:
        (found,) = done(admin.describe_configs([librdkafka.ConfigResource("topic", name)]))
        return {key: entry.value for key, entry in found.items() if entry.source == OF_TOPIC}

    eventually(own, {"retention.ms": "60000", "segment.ms": "7000"})
    done(admin.alter_configs([librdkafka.ConfigResource("topic", name, set_config={"retention.bytes": "9"})]))
    eventually(own, {"retention.bytes": "9"})
    described = admin.describe_cluster(include_authorized_operations=True).result(WAIT_S)
    assert described.cluster_id == cluster.cluster_id and len(described.nodes) == NODES
    (topic,) = done(admin.describe_topics(confluent_kafka.TopicCollection([name]), include_authorized_operations=True))
    assert len(topic.partitions) == 4 and len(topic.authorized_operations) == 8
    assert admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED).result(WAIT_S) == {}
    done(admin.delete_topics([name]))
    eventually(lambda: name in admin.list_topics(timeout=WAIT_S).topics, False)
