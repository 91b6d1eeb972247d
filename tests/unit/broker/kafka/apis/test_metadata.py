"""Promises of Metadata in Kafka's protocol: which topics, whose addresses, and which errors, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.apis.metadata import MetadataPlans, controller_for, metadata_failed
from broker.kafka.plan import PAUSED_EVERY, Ask, Asked
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.errors import InvalidRequestError, NotControllerError, PolicyViolationError, RequestTimedOutError
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.topics import NewTopic
from penstock.types import Endpoint, ListenerEndpoint
from tests.support.kafka_plans import ended, next_ask, pauses
from tests.support.sinks import CALLER
from tests.unit.broker.kafka.apis.admin_node import AdminNode, received

VERSIONS = range(14)
NOT_ASKED = -(2**31)


def metadata(node: AdminNode, body: MetadataRequest, version: int = 12, listener: str = "BROKER") -> MetadataResponse:
    answer = node.does(MetadataPlans(node.parts), body, version, listener)
    assert isinstance(answer, MetadataResponse)
    return answer


def named(*names: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


def by_id(*topic_ids: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in topic_ids])


def codes_of(answer: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in answer.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_brokers_topics_and_leaders(version: int) -> None:
    node = AdminNode(3)
    topic_id = node.cluster.create("t", partitions=2, replication_factor=3).topic_id
    answer = metadata(node, named("t"), version)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(n, f"host-{n}", 9192) for n in (1, 2, 3)]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "t", topic_id if version >= 10 else "")
    for partition in topic.partitions:
        known = node.cluster.partition("t", partition.partition_index)
        assert (partition.error_code, partition.leader_id) == (0, known.leader_id)
        assert (partition.replica_nodes, partition.isr_nodes) == (list(known.replicas), list(known.isr))
        assert partition.leader_epoch == (known.leader_epoch if version >= 7 else -1)
    assert answer.cluster_id == ("cluster-1" if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_list_is_every_topic_and_an_empty_one_is_none_but_in_version_0(version: int) -> None:
    node = AdminNode()
    for name in ("b", "a"):
        node.cluster.create(name)
    everything, nothing = [("a", 0), ("b", 0)], []
    assert codes_of(metadata(node, MetadataRequest(topics=[]), version)) == (everything if version == 0 else nothing)
    if version > 0:
        assert codes_of(metadata(node, MetadataRequest(topics=None), version)) == everything


def test_topics_are_told_in_the_order_of_the_request_and_each_once() -> None:
    node = AdminNode()
    for name in ("a", "b"):
        node.cluster.create(name)
    assert codes_of(metadata(node, named("b", "gone", "a", "b"))) == [("b", 0), ("gone", 3), ("a", 0)]


def test_topics_with_many_partitions_are_told_with_pauses() -> None:
    node = AdminNode()
    for n in range(10):
        node.cluster.create(f"t{n}", partitions=PAUSED_EVERY)
    plan = MetadataPlans(node.parts)(Asked(12, CALLER), MetadataRequest(topics=None))
    ask = next(plan)
    assert pauses(plan, node._answer(ask, CALLER)) == 9


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "../x", "a\0b", "ü", "__cluster_metadata"])
def test_a_name_that_no_topic_may_have_is_not_merely_unknown(name: str) -> None:
    assert codes_of(metadata(AdminNode(), named(name))) == [(name, 17)]


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id_and_an_id_of_none_is_told(version: int) -> None:
    node = AdminNode()
    topic_id = node.cluster.create("t").topic_id
    nobody = "A" * 21 + "Q"
    answer = metadata(node, by_id(topic_id, nobody), version)
    assert [(t.name, t.topic_id, t.error_code) for t in answer.topics] == [("t", topic_id, 0), (None, nobody, 100)]


def test_an_id_of_a_topic_that_was_made_again_is_unknown() -> None:
    node = AdminNode()
    old = node.cluster.create("t").topic_id
    plans = MetadataPlans(node.parts)
    plan = plans(Asked(12, CALLER), by_id(old))
    ask = next(plan)
    assert ask.body.topics == ("t",)
    node.cluster.delete("t")
    node.cluster.create("t")
    with pytest.raises(StopIteration) as end:
        plan.send(node._answer(ask, CALLER))
    assert [(t.name, t.error_code) for t in received(end.value.value, 12).topics] == [(None, 100)]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(version: int) -> None:
    topic_id = (node := AdminNode()).cluster.create("t").topic_id
    body = MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=topic_id)])
    with pytest.raises(InvalidRequestError) as refused:
        metadata(node, body, version)
    failed = received(metadata_failed(Asked(version, CALLER), body, refused.value), version)
    assert codes_of(failed) == [("t", 42)]


def test_a_request_that_fails_has_the_error_for_each_topic_and_from_version_13_on_for_itself() -> None:
    error = NotControllerError("none")
    for version in VERSIONS:
        failed = received(metadata_failed(Asked(version, CALLER), named("a", "b"), error), version)
        assert codes_of(failed) == [("a", 41), ("b", 41)] and failed.error_code == (41 if version == 13 else 0)


def test_clients_of_another_listener_are_told_its_addresses_and_which_leaders_lack_it() -> None:
    node = AdminNode()
    outside = (ListenerEndpoint("KAFKA", Endpoint("outside", 9)),)
    node.cluster.start(2, listeners=outside)
    node.cluster.create("t", partitions=2, replication_factor=1)
    on_2 = next(n for n in (0, 1) if node.cluster.partition("t", n).leader_id == 2)
    for version, code in ((0, 5), (5, 5), (6, 72), (13, 72)):
        answer = metadata(node, named("t"), version, "KAFKA")
        assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(2, "outside", 9)]
        (topic,) = answer.topics
        leaders = {p.partition_index: (p.error_code, p.leader_id) for p in topic.partitions}
        assert leaders == {on_2: (0, 2), 1 - on_2: (code, -1)}
        assert answer.controller_id == (2 if version >= 1 else -1)


def test_a_partition_without_a_leader_has_code_5_and_leader_minus_1() -> None:
    node = AdminNode(2)
    node.cluster.create("t", partitions=2, replication_factor=1)
    lost = next(n for n in (0, 1) if node.cluster.partition("t", n).leader_id == 2)
    node.cluster.let_die(2)
    for version in VERSIONS:
        answer = metadata(node, named("t"), version)
        (partition,) = [p for p in answer.topics[0].partitions if p.partition_index == lost]
        assert (partition.error_code, partition.leader_id) == (5, -1)
        assert partition.offline_replicas == ([2] if version >= 5 else [])
        assert [b.node_id for b in answer.brokers] == [1]


def test_version_0_leaves_out_replicas_out_of_service_and_says_so() -> None:
    node = AdminNode(2)
    node.cluster.create("t", replication_factor=2)
    node.cluster.let_die(2)
    old, new = (metadata(node, named("t"), version).topics[0].partitions[0] for version in (0, 1))
    assert (old.error_code, old.replica_nodes, old.isr_nodes) == (9, [1], [1])
    assert (new.error_code, sorted(new.replica_nodes)) == (0, [1, 2])


def test_operations_are_told_to_those_who_ask_and_are_all_of_them() -> None:
    node = AdminNode()
    node.cluster.create("t")
    for version in range(8, 14):
        silent = metadata(node, named("t"), version)
        assert (silent.cluster_authorized_operations, silent.topics[0].topic_authorized_operations) == (NOT_ASKED,) * 2
        wanted: dict[str, Any] = {"include_topic_authorized_operations": True}
        if version <= 10:
            wanted["include_cluster_authorized_operations"] = True
        answer = metadata(node, named("t", **wanted), version)
        assert answer.topics[0].topic_authorized_operations == 0b1101_1111_1000
        assert answer.cluster_authorized_operations == (0b1_1111_1010_0000 if version <= 10 else NOT_ASKED)


def test_the_controller_is_a_broker_that_these_clients_reach() -> None:
    assert controller_for([1, 2, 3], 3, 2) == 2  # broker 3 may have died a moment ago
    assert controller_for([1, 3], 3, 2) == 3  # this broker is fenced
    assert controller_for([1, 3], 101, 2) == 1  # and the controller is no broker
    assert controller_for([], 101, 2) == -1


def test_more_names_than_one_request_may_have_are_asked_in_turns() -> None:
    node = AdminNode()
    node.cluster.create("t")
    names = [f"gone-{number}" for number in range(2 * NAMES_MAX)]
    answer = metadata(node, named(*names, "t"))
    assert [len(ask.body.topics) for ask in node.asks] == [NAMES_MAX, NAMES_MAX, 1]
    assert codes_of(answer) == [*((name, 3) for name in names), ("t", 0)]


def test_all_of_many_topics_are_asked_for_in_turns_and_those_that_go_meanwhile_are_left_out() -> None:
    node = AdminNode()
    names = [f"t-{number:04}" for number in range(NAMES_MAX + 2)]
    node.cluster.create_all(*(NewTopic(name, 1, 1) for name in names[:NAMES_MAX]))
    node.cluster.create_all(*(NewTopic(name, 1, 1) for name in names[NAMES_MAX:]))
    plan = MetadataPlans(node.parts)(Asked(12, CALLER), MetadataRequest(topics=None))
    first = next(plan)
    second = next_ask(plan, node._answer(first, CALLER))
    assert (len(first.body.topics), second.topics) == (NAMES_MAX, tuple(names[NAMES_MAX:]))
    node.cluster.delete(names[-1])
    answer = ended(plan, node._answer(Ask("Metadata", second), CALLER))
    assert codes_of(received(answer, 12)) == [(name, 0) for name in names[:-1]]


def test_nobody_is_told_a_topics_old_state_because_its_bytes_are_kept() -> None:
    node = AdminNode(2)
    for name in ("a", "b"):
        node.cluster.create(name, 1, 2)
    plans = MetadataPlans(node.parts)

    def state(name: str, version: int = 12, listener: str = "BROKER") -> tuple[int, int, list[int], list[int]]:
        answer = node.does(plans, MetadataRequest(topics=None), version, listener)
        (partition,) = next(topic for topic in answer.topics if topic.name == name).partitions
        return partition.error_code, partition.leader_id, sorted(partition.replica_nodes), partition.offline_replicas

    leader = node.cluster.partition("a").leader_id
    assert state("a") == state("a") == (0, leader, [1, 2], [])
    assert state("a", 4) == (0, leader, [1, 2], []) and state("a", 12, "KAFKA") == (72, -1, [1, 2], [1, 2])
    assert state("a", 5, "KAFKA")[0] == 5
    node.cluster.let_die(2)
    assert state("a") == state("b") == (0, 1, [1, 2], [2])
    node.cluster.delete("a")
    node.cluster.create("a", 1, 1)
    assert state("a") == (0, 1, [1], [])


# -- topics that are made because somebody asks for them ---------------------------------------------------------------


def test_unknown_topics_are_not_made_unless_the_node_and_the_client_want_it() -> None:
    for node, allowed in ((AdminNode(), True), (AdminNode(auto_create_topics_enable=True), False)):
        assert codes_of(metadata(node, named("t", allow_auto_topic_creation=allowed))) == [("t", 3)]
        assert [ask.api for ask in node.asks] == ["Metadata"]


def test_an_unknown_topic_is_made_with_the_defaults_and_told_at_once() -> None:
    node = AdminNode(auto_create_topics_enable=True)
    answer = metadata(node, named("t", "..", "u"), 1)
    assert codes_of(answer) == [("t", 0), ("..", 17), ("u", 0)]
    made = node.asks[1].body
    assert [(topic.name, topic.partitions, topic.replication_factor) for topic in made.topics] == [
        ("t", -1, -1),
        ("u", -1, -1),
    ]


def test_a_topic_that_cannot_be_made_has_the_reason_as_its_error() -> None:
    node = AdminNode(0, auto_create_topics_enable=True)
    assert codes_of(metadata(node, named("t"))) == [("t", 38)]
    assert codes_of(metadata(AdminNode(auto_create_topics_enable=True), named("__consumer_offsets"))) == [
        ("__consumer_offsets", 17)
    ]


def test_a_topic_whose_making_takes_too_long_is_asked_for_again() -> None:
    node = AdminNode(auto_create_topics_enable=True)

    def silent(body: object) -> None:
        raise RequestTimedOutError("no controller")

    node.answers["CreateTopics"] = silent
    assert codes_of(metadata(node, named("t"))) == [("t", 5)]


def test_an_answer_waits_only_once_for_a_controller_that_is_not_there() -> None:
    node = AdminNode(auto_create_topics_enable=True)
    node.cluster.create("t")

    def silent(body: object) -> None:
        raise RequestTimedOutError("no controller")

    node.answers["CreateTopics"] = silent
    names = [f"new-{number}" for number in range(3 * NAMES_MAX)]
    answer = metadata(node, named(*names, "t"))
    assert [ask.api for ask in node.asks].count("CreateTopics") == 1
    assert codes_of(answer)[:NAMES_MAX] == [(name, 5) for name in names[:NAMES_MAX]]
    assert codes_of(answer)[NAMES_MAX:] == [*((name, 3) for name in names[NAMES_MAX:]), ("t", 0)]


def test_what_forbids_new_topics_spoils_no_answer_about_others() -> None:
    node = AdminNode(auto_create_topics_enable=True)
    node.cluster.create("t")

    def refuses(body: object) -> None:
        raise PolicyViolationError("no more topics")

    node.answers["CreateTopics"] = refuses
    assert codes_of(metadata(node, named("new", "t"))) == [("new", 44), ("t", 0)]


def test_all_topics_make_none() -> None:
    node = AdminNode(auto_create_topics_enable=True)
    assert codes_of(metadata(node, MetadataRequest(topics=None))) == [] and len(node.asks) == 1
