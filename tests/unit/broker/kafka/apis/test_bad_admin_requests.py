"""Bad input of admins in Kafka's protocol: the exact error, a text that says what is wrong, and nothing changed.

One test for each thing that is commonly got wrong. The controller decides; what is here is that its answers come
through the listener whole.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka_codec.codec import decode, encode
from metadata.image import MetadataImage
from penstock.errors import InvalidRequestError
from tests.unit.broker.kafka.apis import test_configs as configs
from tests.unit.broker.kafka.apis import test_log_dirs_and_quorum as dirs
from tests.unit.broker.kafka.apis import test_replicas as replicas
from tests.unit.broker.kafka.apis import test_topics as topics
from tests.unit.broker.kafka.apis.admin_node import AdminNode

CREATE, DELETE, ADD, INCREMENTAL, ELECT, REASSIGN = 19, 20, 37, 44, 43, 45


def refused(node: AdminNode, key: int, body: Any, version: int) -> list[int]:
    """The codes of all rows; the metadata stays as it was, and each refusal has a text."""
    before: MetadataImage = node.cluster.image
    answer = node.call(key, body, version)
    rows = {
        CREATE: lambda: answer.topics,
        DELETE: lambda: answer.responses,
        ADD: lambda: answer.results,
        INCREMENTAL: lambda: answer.responses,
        ELECT: lambda: [row for topic in answer.replica_election_results for row in topic.partition_result],
        REASSIGN: lambda: [row for topic in answer.responses for row in topic.partitions],
    }[key]()
    assert all(len(row.error_message) > 10 for row in rows)
    assert node.cluster.image.digest() == before.digest()
    return [row.error_code for row in rows]


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "../x", "a\0b", "a b", "__cluster_metadata",
                                  "__consumer_offsets", "__consumer.offsets", "__transaction_state"])  # fmt: skip
def test_names_that_no_topic_may_have(name: str) -> None:
    assert refused(AdminNode(), CREATE, topics.creating(topics.new(name)), 7) == [17]


def test_a_topic_that_exists_or_collides_with_one() -> None:
    node = AdminNode()
    node.cluster.create("a.b")
    body = topics.creating(topics.new("a.b"), topics.new("a_b"))
    assert refused(node, CREATE, body, 7) == [36, 17]


@pytest.mark.parametrize("partitions", [0, -2, 10**9, -(2**31)])
def test_numbers_of_partitions_that_no_topic_may_have(partitions: int) -> None:
    node = AdminNode()
    assert refused(node, CREATE, topics.creating(topics.new("t", partitions)), 7) == [37]
    node.cluster.create("t", partitions=3)
    assert refused(node, ADD, topics.adding("t", partitions), 3) == [37]


@pytest.mark.parametrize("count", [2, 3])
def test_fewer_partitions_than_now_or_as_many(count: int) -> None:
    node = AdminNode()
    node.cluster.create("t", partitions=3)
    assert refused(node, ADD, topics.adding("t", count), 3) == [37]


def test_partitions_for_a_topic_that_there_is_not() -> None:
    assert refused(AdminNode(), ADD, topics.adding("gone", 3), 3) == [3]


@pytest.mark.parametrize("factor", [0, -2, 3, 2**15 - 1])
def test_a_replication_factor_of_none_or_above_the_brokers(factor: int) -> None:
    node = AdminNode(2)
    assert refused(node, CREATE, topics.creating(topics.new("t", 1, factor)), 7) == [38]


@pytest.mark.parametrize(("key", "value"), [("no_such_key", "1"), ("retention_ms", "week"), ("cleanup_policy", "burn"),
                                            ("min_insync_replicas", "2"), ("log_retention_ms", "5")])  # fmt: skip
def test_configuration_that_is_unknown_or_ill_typed_changes_nothing_of_its_topic(key: str, value: str) -> None:
    node = AdminNode()
    body = topics.creating(topics.new("t", 1, 1, segment_ms="5", **{key: value}))
    assert refused(node, CREATE, body, 7) == [40]
    node.cluster.create("t")
    changes: Any = [("segment.ms", configs.SET, "5"), (key.replace("_", "."), configs.SET, value)]
    assert refused(node, INCREMENTAL, configs.incremental((configs.TOPIC, "t", changes)), 1) == [40]


def test_a_topic_made_again_at_once_is_another_and_the_old_one_is_not_deleted_twice() -> None:
    node = AdminNode()
    old = node.call(CREATE, topics.creating(topics.new("t")), 7).topics[0].topic_id
    assert node.call(DELETE, topics.deleting(6, "t"), 6).responses[0].error_code == 0
    new = node.call(CREATE, topics.creating(topics.new("t")), 7).topics[0].topic_id
    assert new != old
    by_id = topics.DeleteTopicsRequest(topics=[topics.DeleteTopicState(topic_id=old)])
    assert refused(node, DELETE, by_id, 6) == [100]


@pytest.mark.parametrize("name", ["gone", "", "__cluster_metadata", "x" * 300])
def test_deletion_of_a_topic_that_there_is_not(name: str) -> None:
    assert refused(AdminNode(), DELETE, topics.deleting(5, name), 5) == [3]


def test_an_unclean_election_while_an_isr_member_lives() -> None:
    node = AdminNode(2)
    node.cluster.create("t", 1, 2)
    assert refused(node, ELECT, replicas.electing(("t", [0]), kind=replicas.UNCLEAN), 2) == [84]


def test_a_preferred_leader_that_is_out_of_service() -> None:
    node = AdminNode(2)
    node.cluster.create("t", 2, 2)
    number = next(n for n in (0, 1) if node.cluster.partition("t", n).replicas[0] == 2)
    node.cluster.let_die(2)
    assert refused(node, ELECT, replicas.electing(("t", [number])), 2) == [80]


@pytest.mark.parametrize("ids", [[9], [], [1, 1], [-1]])
def test_a_reassignment_to_brokers_that_there_are_not(ids: list[int]) -> None:
    node = AdminNode(2)
    node.cluster.create("t")
    assert refused(node, REASSIGN, replicas.moving(("t", 0, ids)), 1) == [39]


def test_a_reassignment_to_a_dead_broker_waits_for_it_and_can_be_cancelled() -> None:
    """As in Kafka: the broker may come back. Until then nothing is taken away."""
    node = AdminNode(2)
    node.cluster.create_all(*replicas.by_hand("t", (1,)))
    node.cluster.let_die(2)
    assert replicas.moved(node.call(REASSIGN, replicas.moving(("t", 0, [2])), 1)) == [("t", 0, 0)]
    waiting = node.cluster.partition("t")
    assert (waiting.leader_id, waiting.isr, waiting.adding_replicas) == (1, (1,), (2,))
    assert replicas.moved(node.call(REASSIGN, replicas.moving(("t", 0, None)), 1)) == [("t", 0, 0)]
    assert node.cluster.partition("t").replicas == (1,)


def test_a_cancelled_reassignment_where_there_is_none() -> None:
    node = AdminNode()
    node.cluster.create("t")
    assert refused(node, REASSIGN, replicas.moving(("t", 0, None), ("t", 7, None), ("gone", 0, None)), 1) == [85, 3, 3]


def test_more_topics_than_one_request_may_change() -> None:
    """As a whole: the controller would decide on nothing else meanwhile."""
    node = AdminNode()
    many = topics.creating(*(topics.new(f"t{number}") for number in range(10_001)))
    assert set(refused(node, CREATE, many, 7)) == {42}


def test_a_request_of_more_items_than_anybody_asks_for_is_not_even_read() -> None:
    """A plan would work on them in one turn of the event loop, before the controller could refuse them."""
    node = AdminNode()
    rows = {row.key: row for row in node._rows}
    for key, body in enormous().items():
        version = rows[key].versions[1]
        raw = memoryview(b"".join(encode(body, version)))
        with pytest.raises(InvalidRequestError, match="ask for less at once"):
            decode(rows[key].request, version, raw, 0, rows[key].elements_max)


def enormous() -> dict[int, Any]:
    many = [str(number) for number in range(20_001)]
    return {
        DELETE: topics.deleting(6, *many),
        32: configs.describing(*((configs.TOPIC, name, None) for name in many)),
        INCREMENTAL: configs.incremental(*((configs.TOPIC, name, []) for name in many)),
        ELECT: replicas.electing(("t", list(range(20_001)))),
        34: dirs.placing(("/a", "t", list(range(20_001)))),
    }
