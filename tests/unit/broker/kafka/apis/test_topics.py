"""Promises of CreateTopics, DeleteTopics and CreatePartitions in Kafka's protocol, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.schemas.configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.kafka.schemas.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from metadata.idle_topic_keys import IDLE_TOPIC_KEYS
from penstock.errors import NotControllerError
from tests.unit.broker.kafka.apis.admin_node import AdminNode

CREATE, DELETE, ADD = 19, 20, 37


def new(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=given)


def creating(*topics: CreatableTopic, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **fields)


def adding(name: str, count: int, *assignments: list[int]) -> CreatePartitionsRequest:
    given = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments] or None
    return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count, assignments=given)])


def deleting(version: int, *names: str) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names))
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])


# -- CreateTopics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_made_and_described_as_the_version_can(version: int) -> None:
    node = AdminNode(3)
    answer = node.call(CREATE, creating(new("t", 4, 2, retention_ms="5"), new("u")), version)
    assert [(t.name, t.error_code, t.error_message) for t in answer.topics] == [("t", 0, None), ("u", 0, None)]
    made = node.cluster.image.topics_by_name["t"]
    assert (len(made.partitions), node.cluster.image.topic_config("t")) == (4, {"retention.ms": "5"})
    first = answer.topics[0]
    assert first.topic_id == (made.topic_id if version >= 7 else "")
    assert (first.num_partitions, first.replication_factor) == ((4, 2) if version >= 5 else (-1, -1))
    configs = {config.name: config for config in first.configs}
    if version < 5:
        assert not configs
    else:
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
        assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (str(1 << 30), 5)
        assert len(configs) == len({config.name for config in answer.topics[1].configs}) > 20


def test_minus_1_is_the_clusters_default() -> None:
    node = AdminNode(3)
    for version in (2, 7):
        assert node.call(CREATE, creating(new(f"t{version}", -1, -1)), version).topics[0].error_code == 0
        assert len(node.cluster.image.topics_by_name[f"t{version}"].partitions) == 1


def test_replicas_may_be_assigned_by_hand() -> None:
    node = AdminNode(3)
    assignments = [
        CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in ((1, [3, 1]), (0, [1, 2]))
    ]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert node.call(CREATE, creating(topic), 4).topics[0].error_code == 0
    assert [node.cluster.partition("t", number).replicas for number in (0, 1)] == [(1, 2), (3, 1)]


@pytest.mark.parametrize(("partitions", "factor"), [(1, -1), (-1, 2), (1, 2), (0, -1)])
@pytest.mark.parametrize("version", [2, 7])
def test_numbers_beside_an_assignment_are_refused_as_kafka_refuses_them(
    partitions: int, factor: int, version: int
) -> None:
    node = AdminNode(3)
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=factor, assignments=assignments)
    (answer,) = node.call(CREATE, creating(topic), version).topics
    assert answer.error_code == 42 and not node.cluster.image.topics_by_name
    assert "must be -1 beside it" in (answer.error_message or "")


def test_a_definition_with_kafkas_own_defaults_is_made_and_reads_back_as_it_was_written() -> None:
    node = AdminNode()
    idle = {name: one.accepted[0] for name, one in IDLE_TOPIC_KEYS.items()}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in idle.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
    (made,) = node.call(CREATE, creating(topic), 7).topics
    assert made.error_code == 0
    described = node.call(32, describing_topic("t"), 4).results[0].configs
    assert {(e.name, e.value) for e in described if e.config_source == 1} == set(idle.items())
    assert {(c.name, c.value, c.config_source) for c in made.configs} == {
        (entry.name, entry.value, entry.config_source) for entry in described
    }
    refused = CreatableTopicConfig(name="remote.storage.enable", value="true")
    topic = CreatableTopic(name="u", num_partitions=1, replication_factor=1, configs=[refused])
    (answer,) = node.call(CREATE, creating(topic), 7).topics
    assert answer.error_code == 40 and "there is no tiered storage" in (answer.error_message or "")


def test_validation_alone_makes_nothing_and_tells_what_would_be() -> None:
    node = AdminNode()
    node.cluster.configure("", {"message.max.bytes": "9000"}, "broker")
    asked = (new("t", 3, 1, retention_ms="5", cleanup_policy="compact, delete"), new("u", 3, 2))
    answer = node.call(CREATE, creating(*asked, validate_only=True), 7)
    assert [t.error_code for t in answer.topics] == [0, 38] and not node.cluster.image.topics_by_name
    validated, real = answer.topics[0], node.call(CREATE, creating(asked[0]), 7).topics[0]
    assert (validated.num_partitions, validated.topic_id, validated.configs) == (3, "", real.configs)
    described = node.call(32, describing_topic("t"), 4).results[0].configs
    of_description = {(entry.name, entry.value, entry.config_source) for entry in described}
    assert {(c.name, c.value, c.config_source) for c in real.configs} == of_description


def describing_topic(name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource])


def test_topics_are_made_though_nobody_tells_their_configuration() -> None:
    node = AdminNode()

    def refuses(body: object) -> None:
        raise NotControllerError("no")

    node.answers["DescribeConfigs"] = refuses
    (made,) = node.call(CREATE, creating(new("t", retention_ms="5")), 7).topics
    assert (made.error_code, [(c.name, c.value) for c in made.configs]) == (0, [("retention.ms", "5")])


def test_each_topic_of_a_request_has_its_own_outcome_in_order() -> None:
    node = AdminNode()
    node.cluster.create("there")
    asked = creating(new("twice"), new("there"), new("ok"), new("twice"), new("null", retention_ms=None), new("a b"))
    answer = node.call(CREATE, asked, 5)
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("twice", 42), ("there", 36), ("ok", 0), ("null", 40), ("a b", 17),
    ]  # fmt: skip
    assert all(t.error_message for t in answer.topics if t.error_code)
    assert set(node.cluster.image.topics_by_name) == {"there", "ok"}


def test_a_key_that_is_given_twice_for_one_topic_is_refused() -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value=value) for value in ("1", "2")]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
    answer = AdminNode().call(CREATE, creating(topic), 7)
    assert answer.topics[0].error_code == 42 and "retention.ms" in answer.topics[0].error_message


@pytest.mark.parametrize(("key", "body"), [
    (CREATE, creating(new("a"), new("b"))),
    (DELETE, DeleteTopicsRequest(topic_names=["a", "b"])),
    (ADD, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=n, count=3, assignments=None) for n in "ab"])),
])  # fmt: skip
def test_a_request_that_fails_as_a_whole_says_so_for_each_topic(key: int, body: Any) -> None:
    node = AdminNode()
    node.cluster.create("a"), node.cluster.create("b")

    def refuses(body: object) -> None:
        raise NotControllerError("no controller answers")

    node.answers = dict.fromkeys(("CreateTopics", "DeleteTopics", "CreatePartitions"), refuses)
    answer = node.call(key, body, 3)
    rows = {CREATE: "topics", DELETE: "responses", ADD: "results"}
    assert [(row.name, row.error_code) for row in getattr(answer, rows[key])] == [("a", 41), ("b", 41)]


def test_a_time_limit_below_zero_counts_as_none() -> None:
    node = AdminNode()
    assert node.call(CREATE, creating(new("t"), timeout_ms=-1), 7).topics[0].error_code == 0
    assert node.asks[0].body.timeout_ms == 0


# -- DeleteTopics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name(version: int) -> None:
    node = AdminNode()
    for name in ("a", "b"):
        node.cluster.create(name)
    answer = node.call(DELETE, deleting(version, "b", "gone", "a"), version)
    assert [(row.name, row.error_code) for row in answer.responses] == [("b", 0), ("gone", 3), ("a", 0)]
    assert bool(answer.responses[1].error_message) == (version >= 5)
    assert not node.cluster.image.topics_by_name


def test_a_topic_that_another_broker_made_a_moment_ago_is_deleted_by_name() -> None:
    """This node's metadata comes after the controller's: a client of two brokers must not be told of none."""
    node = AdminNode()
    decide = node.cluster.controller.delete_topics

    def behind(body: Any) -> Any:
        if not body.topic_ids:
            node.cluster.create("t")  # it comes to this node before the answer does
        return node.cluster.commit(decide(body, 0))

    node.answers["DeleteTopics"] = behind
    answer = node.call(DELETE, deleting(6, "t"), 6)
    assert [(row.name, row.error_code) for row in answer.responses] == [("t", 0)]
    assert not node.cluster.image.topics_by_name and len(node.asks) == 2


def test_topics_are_deleted_by_id_and_only_those() -> None:
    node = AdminNode()
    old = node.cluster.create("t").topic_id
    node.cluster.delete("t")
    new_id, other = node.cluster.create("t").topic_id, node.cluster.create("u").topic_id
    body = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id) for topic_id in (old, other)])
    answer = node.call(DELETE, body, 6)
    assert [(row.name, row.topic_id, row.error_code) for row in answer.responses] == [(None, old, 100), ("u", other, 0)]
    assert node.parts.topic_id("t") == new_id


def test_a_topic_is_named_once_and_by_its_name_or_its_id() -> None:
    node = AdminNode()
    topic_id = node.cluster.create("t").topic_id
    for topics in (
        [DeleteTopicState(name="t"), DeleteTopicState(topic_id=topic_id)],
        [DeleteTopicState(name="t"), DeleteTopicState(name="t")],
        [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=topic_id)],
        [DeleteTopicState(name="t", topic_id=topic_id)],
        [DeleteTopicState()],
    ):
        answer = node.call(DELETE, DeleteTopicsRequest(topics=topics), 6)
        names = {(topic.name, topic.topic_id) for topic in topics}
        assert [row.error_code for row in answer.responses] == [42] * len(names)
    assert node.parts.topic_id("t") == topic_id and not node.asks


def test_a_topic_that_goes_while_it_is_asked_for_by_name_is_unknown_by_name() -> None:
    node = AdminNode()
    node.cluster.create("t")
    decide = node.cluster.controller.delete_topics
    node.cluster.create("u")

    def late(body: Any) -> Any:
        node.cluster.delete("t")
        return node.cluster.commit(decide(body, 0))

    node.answers["DeleteTopics"] = late
    answer = node.call(DELETE, deleting(6, "t", "u"), 6)
    assert [(row.name, row.error_code) for row in answer.responses] == [("t", 3), ("u", 0)]


# -- CreatePartitions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(version: int) -> None:
    node = AdminNode(3)
    node.cluster.create("t", partitions=2, replication_factor=2)
    answer = node.call(ADD, adding("t", 5), version)
    assert [(row.name, row.error_code, row.error_message) for row in answer.results] == [("t", 0, None)]
    assert len(node.cluster.image.topics_by_name["t"].partitions) == 5


def test_the_assignment_is_of_the_new_partitions() -> None:
    node = AdminNode(3)
    node.cluster.create("t", partitions=1, replication_factor=2)
    assert node.call(ADD, adding("t", 3, [3, 1], [2, 3]), 3).results[0].error_code == 0
    assert [node.cluster.partition("t", number).replicas for number in (1, 2)] == [(3, 1), (2, 3)]
    for body in (adding("t", 5, [3, 1]), adding("t", 4, [3, 3]), adding("t", 4, [9, 1])):
        assert node.call(ADD, body, 3).results[0].error_code == 39
    empty = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=4, assignments=[])])
    assert node.call(ADD, empty, 3).results[0].error_code == 39


def test_validation_alone_adds_no_partition() -> None:
    node = AdminNode()
    node.cluster.create("t")
    body = adding("t", 5)
    body.validate_only = True
    assert node.call(ADD, body, 3).results[0].error_code == 0
    assert len(node.cluster.image.topics_by_name["t"].partitions) == 1


def test_a_topic_that_is_named_twice_gets_no_partitions_and_one_answer() -> None:
    node = AdminNode()
    node.cluster.create("t")
    node.cluster.create("u")
    topics = [
        CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in (("t", 2), ("u", 3), ("t", 4))
    ]
    answer = node.call(ADD, CreatePartitionsRequest(topics=topics), 3)
    assert [(row.name, row.error_code) for row in answer.results] == [("t", 42), ("u", 0)]
    assert [len(node.cluster.image.topics_by_name[name].partitions) for name in ("t", "u")] == [1, 3]
