"""Promises of DescribeTopicPartitions: every partition once, page by page, and an end in any case."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.kafka.apis import describe_topic_partitions
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, PAUSED_EVERY, Asked
from broker.kafka.schemas.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopicRequest,
    DescribeTopicPartitionsResponse,
)
from broker.network.request_channel import Caller
from penstock.messages.security.acls import Operation, ResourceType
from tests.support.sinks import CALLER
from tests.unit.broker.kafka.apis.admin_node import AdminNode

KEY = 75
Place = tuple[str | None, int]


def asking(*names: str, **fields: Any) -> DescribeTopicPartitionsRequest:
    topics = [DescribeTopicPartitionsRequestTopicRequest(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, **fields)


def pages(node: AdminNode, *names: str, limit: int) -> list[list[Place]]:
    """The partitions of each page, until there is no cursor any more; (name, -error) for a topic that has one."""
    found: list[list[Place]] = []
    cursor = None
    while not found or cursor is not None:
        answer = node.call(KEY, asking(*names, response_partition_limit=limit, cursor=cursor), 0)
        places = [(t.name, -t.error_code) for t in answer.topics if t.error_code]
        found.append([*places, *((t.name, p.partition_index) for t in answer.topics for p in t.partitions)])
        cursor = answer.next_cursor
        assert len(found) < 50
    return found


def some_topics() -> AdminNode:
    node = AdminNode(3)
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        node.cluster.create(name, partitions, 3)
    return node


def test_all_that_is_known_of_a_partition_is_told() -> None:
    node = some_topics()
    node.cluster.let_die(3)
    image = node.cluster.image
    answer: DescribeTopicPartitionsResponse = node.call(KEY, asking("a", "b", "no", "a b"), 0)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
        ("a", 0, 2), ("a b", 17, 0), ("b", 0, 3), ("no", 3, 0),
    ]  # fmt: skip
    assert answer.next_cursor is None and answer.topics[0].topic_authorized_operations == 3576
    first, known = answer.topics[0].partitions[0], image.topics_by_name["a"].partitions[0]
    assert answer.topics[0].topic_id == image.topics_by_name["a"].topic_id
    assert (first.leader_id, first.leader_epoch) == (known.leader_id, known.leader_epoch)
    assert (first.replica_nodes, first.isr_nodes) == (list(known.replicas), list(known.isr))
    assert (first.offline_replicas, first.eligible_leader_replicas, first.last_known_elr) == ([3], [], [])


def test_eligible_leaders_are_told() -> None:
    node = AdminNode(3)
    node.cluster.create("t", 1, 3, {"min.insync.replicas": "3"})
    node.cluster.let_die(3)
    (partition,) = node.call(KEY, asking("t"), 0).topics[0].partitions
    assert (partition.eligible_leader_replicas, partition.offline_replicas) == ([3], [3])


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_have_every_partition_once_in_order_and_no_more_than_the_limit(limit: int) -> None:
    node = some_topics()
    every = [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    for names in ((), ("c", "b", "a")):
        found = pages(node, *names, limit=limit)
        assert [place for page in found for place in page] == every
        assert max(map(len, found)) <= limit and all(found)


def test_pages_end_though_topics_are_unknown() -> None:
    names = [f"no-{number}" for number in range(9)]
    found = pages(some_topics(), *names, "a", limit=2)
    assert sorted(place for page in found for place in page) == sorted([("a", 0), ("a", 1), *((n, -3) for n in names)])


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_page_has_a_partition_at_least(limit: int) -> None:
    assert pages(some_topics(), "a", limit=limit) == [[("a", 0)], [("a", 1)]]


def test_a_page_asks_only_for_its_topics_and_is_bounded_whatever_the_client_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(describe_topic_partitions, "PARTITIONS_MAX", 50)
    node = AdminNode()
    node.cluster.create("large", 51)
    node.cluster.create("next")
    answer = node.call(KEY, asking(response_partition_limit=2**31 - 1), 0)
    assert len(answer.topics[0].partitions) == 50
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("large", 50)
    assert [ask.body.topics for ask in node.asks] == [("large",)]


def test_a_topic_that_goes_between_two_pages_is_left_out_or_told_as_unknown() -> None:
    node = some_topics()
    first = node.call(KEY, asking(response_partition_limit=3), 0)
    assert first.next_cursor == Cursor(topic_name="b", partition_index=1)
    node.cluster.delete("b")
    rest = node.call(KEY, asking(response_partition_limit=3, cursor=first.next_cursor), 0)
    assert [(t.name, len(t.partitions)) for t in rest.topics] == [("c", 1)] and rest.next_cursor is None
    named = node.call(KEY, asking("b", "c", cursor=first.next_cursor), 0)
    assert [(t.name, t.error_code) for t in named.topics] == [("b", 3), ("c", 0)]


def test_a_topic_that_grows_while_it_is_asked_for_goes_on_in_the_next_page() -> None:
    node = some_topics()
    answer = node._answer

    def with_more(ask: Any, caller: Any) -> Any:
        (topic,) = (found := answer(ask, caller)).topics
        more = tuple(replace(topic.partitions[0], partition=number) for number in range(5))
        return replace(found, topics=(replace(topic, partitions=more),))

    node._answer = with_more  # type: ignore[method-assign]
    page = node.call(KEY, asking("a", response_partition_limit=3), 0)
    assert len(page.topics[0].partitions) == 3 and page.next_cursor == Cursor(topic_name="a", partition_index=3)


@pytest.mark.parametrize("cursor", [Cursor(topic_name="zz"), Cursor(topic_name="a", partition_index=-1)])
def test_a_cursor_that_fits_no_topic_is_refused(cursor: Cursor) -> None:
    answer = some_topics().call(KEY, asking("a", "b", cursor=cursor), 0)
    assert [(t.name, t.error_code) for t in answer.topics] == [("a", 42), ("b", 42)]


@pytest.mark.parametrize("seen", ((), ("t0499", "t0500")))
def test_many_topics_are_looked_at_in_pieces_whoever_asks(seen: tuple[str, ...]) -> None:
    """A request of no element, by a caller that sees few topics, has as many rights to be looked at."""
    topics = {f"t{n:04}": SimpleNamespace(partitions={0: None}) for n in range(1_000)}
    looked_at: list[str] = []

    def may(caller: Caller, operation: Operation, resource: ResourceType, name: str) -> bool:
        looked_at.append(name)
        return name in seen

    image = SimpleNamespace(topics_by_name=topics, topic=topics.get)
    parts = cast(PlanParts, SimpleNamespace(image=lambda: image, rights=SimpleNamespace(may=may)))
    body = asking(response_partition_limit=1, cursor=Cursor(topic_name="t0100", partition_index=0))
    plan = describe_topic_partitions.describe_topic_partitions(parts, Asked(0, CALLER), body)
    most = before = 0
    while (ask := next(plan)) is PAUSE:
        most, before = max(most, len(looked_at) - before), len(looked_at)
    assert ask.body.topics == seen[:1]
    assert looked_at == sorted(topics)[100 : 501 if seen else 1_000]
    assert 0 < most <= PAUSED_EVERY
