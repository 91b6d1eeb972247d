"""Admin adds partitions to a topic (KIP-195) and places them by hand: what it asks, waits for, and makes of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock import Admin, AsyncAdmin
from penstock.errors import (
    InvalidPartitionsError,
    RequestTimedOutError,
    TimedOutError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(3) as found:
        found.create_topic("t", 2)
        yield found


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, retry_backoff_ms=1) as found:
        yield found


def replicas(cluster: FakeCluster, topic: str = "t") -> list[tuple[int, ...]]:
    return [assigned for tp, assigned in sorted(cluster.assignments.items()) if tp.topic == topic]


def test_a_topic_gets_more_partitions(cluster: FakeCluster, admin: Admin) -> None:
    made = admin.create_partitions("t", 5)
    assert [p.partition for p in made.partitions] == [0, 1, 2, 3, 4] and made.topic_id == cluster.topics["t"]
    assert admin.describe_topic("t") == made
    for total in (5, 4):
        with pytest.raises(InvalidPartitionsError, match="t has 5 partitions"):
            admin.create_partitions("t", total)


def test_new_partitions_are_assigned_by_hand_under_the_numbers_that_they_get(
    cluster: FakeCluster, admin: Admin
) -> None:
    made = admin.create_partitions("t", 4, [[3, 1], (2, 3)])
    assert cluster.assignments == {TopicPartition("t", 2): (3, 1), TopicPartition("t", 3): (2, 3)}
    assert [p.replicas for p in made.partitions[2:]] == [(3, 1), (2, 3)]


def test_a_topic_is_created_with_an_assignment_which_says_how_many_partitions(
    cluster: FakeCluster, admin: Admin
) -> None:
    made = admin.create_topic("u", assignments=[[1, 2], [2, 3], [3, 1]])
    assert made.partition_count == 3 and replicas(cluster, "u") == [(1, 2), (2, 3), (3, 1)]
    assert admin.create_topic("v").partition_count == 1


def test_a_check_changes_nothing_and_returns_the_topic_as_it_is(cluster: FakeCluster, admin: Admin) -> None:
    assert admin.create_partitions("t", 4, validate_only=True).partition_count == 2
    assert len(cluster.logs) == 2
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions("t", 2, validate_only=True)


def test_many_topics_get_more_partitions_in_one_request(cluster: FakeCluster, admin: Admin) -> None:
    cluster.create_topic("u", 3)
    asked: list[int] = []
    cluster.on_create_partitions = lambda request: asked.append(len(request.topics))
    totals = {"t": 4, "nope": 5, "u": 3}
    for validate_only in (True, False):
        found = admin.create_partitions_of_topics(totals, validate_only=validate_only)
        assert list(map(type, map(found.__getitem__, totals))) == [
            type(None),
            UnknownTopicOrPartitionError,
            InvalidPartitionsError,
        ]
        assert len(cluster.logs) == (5 if validate_only else 7)
    assert asked == [2, 2]
    for wrong in (["t"], {"t": 0}, {"t": "4"}):
        with pytest.raises((TypeError, ValueError), match="total"):
            admin.create_partitions_of_topics(wrong)  # type: ignore[arg-type]


def test_a_request_for_many_topics_names_a_bounded_number_of_partitions(cluster: FakeCluster, admin: Admin) -> None:
    asked: list[list[tuple[str, int]]] = []
    cluster.on_create_partitions = lambda request: asked.append([(one.name, one.total) for one in request.topics])
    cluster.create_topic("u")
    found = admin.create_partitions_of_topics({"t": 802, "u": 301, "nope": 1}, validate_only=True)
    assert found["t"] is None and found["u"] is None and asked == [[("t", 802)], [("u", 301)]]
    assert admin.create_partitions_of_topics({"u": 1_002, "t": 3}, validate_only=True) == {"u": None, "t": None}
    assert asked[2:] == [[("t", 3)], [("u", 1_002)]]


def test_topics_that_get_more_by_an_attempt_whose_answer_was_lost_are_a_success(
    cluster: FakeCluster, admin: Admin
) -> None:
    cluster.create_topic("u")
    cluster.loses_next_growth = True
    assert admin.create_partitions_of_topics({"t": 4, "u": 2}) == {"t": None, "u": None}
    assert len(cluster.logs) == 6


def test_async_admin_does_the_same(cluster: FakeCluster) -> None:
    async def grow() -> int:
        async with AsyncAdmin(cluster.bootstrap) as admin:
            return (await admin.create_partitions("t", 3, [[2]])).partition_count

    assert asyncio.run(grow()) == 3 and replicas(cluster) == [(2,)]


# -- answers that are lost, late, or those of another ------------------------------------------------------------------


@pytest.mark.parametrize("assignments", [None, [[3], [1]]])
def test_partitions_added_by_an_attempt_whose_answer_was_lost_are_a_success(
    cluster: FakeCluster, admin: Admin, assignments: list[list[int]] | None
) -> None:
    cluster.loses_next_growth = True
    assert admin.create_partitions("t", 4, assignments).partition_count == 4
    assert len(cluster.logs) == 4


def test_partitions_that_another_client_placed_meanwhile_are_not_this_calls_own(
    cluster: FakeCluster, admin: Admin
) -> None:
    """The first attempt was not made, and its answer was lost; another client added as many, elsewhere."""

    def other(_: object) -> None:
        if len(cluster.logs) == 2:
            cluster.add_partition("t", 2, 1)
            raise RequestTimedOutError("the controller did not answer")

    cluster.on_create_partitions = other
    with pytest.raises(InvalidPartitionsError, match="has 3 partitions"):
        admin.create_partitions("t", 3, [[3]])


def test_as_many_partitions_before_the_first_attempt_are_an_error(cluster: FakeCluster, admin: Admin) -> None:
    """Another client was first, and no answer was lost."""
    cluster.on_create_partitions = lambda _: len(cluster.logs) < 3 and cluster.add_partition("t", 2, 1)
    with pytest.raises(InvalidPartitionsError, match="has 3 partitions"):
        admin.create_partitions("t", 3)


def test_more_partitions_than_asked_for_are_an_error_also_after_a_lost_answer(
    cluster: FakeCluster, admin: Admin
) -> None:
    def other(_: object) -> None:
        if len(cluster.logs) == 2:
            for partition in (2, 3):
                cluster.add_partition("t", partition, 1)
            raise RequestTimedOutError("the controller did not answer")

    cluster.on_create_partitions = other
    with pytest.raises(InvalidPartitionsError, match="has 4 partitions"):
        admin.create_partitions("t", 3)


def test_a_check_is_no_success_because_another_client_added_them(cluster: FakeCluster, admin: Admin) -> None:
    def other(_: object) -> None:
        if len(cluster.logs) == 2:
            cluster.add_partition("t", 2, 1)
            raise RequestTimedOutError("the controller did not answer")

    cluster.on_create_partitions = other
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions("t", 3, validate_only=True)


def test_a_topic_that_is_made_anew_meanwhile_gets_none(cluster: FakeCluster, admin: Admin) -> None:
    def remake(_: object) -> None:
        cluster.on_create_partitions = None
        cluster.delete_topic("t")
        cluster.create_topic("t")

    cluster.on_create_partitions = remake
    with pytest.raises(UnknownTopicIdError, match="'t' with id id-1-of-t was deleted by another client"):
        admin.create_partitions("t", 3)
    assert len(cluster.logs) == 1


def test_a_topic_that_is_not_there_is_named(admin: Admin) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="'nope' does not exist; `penstock topics list`"):
        admin.create_partitions("nope", 3)


def test_the_call_waits_for_brokers_that_have_not_heard(cluster: FakeCluster) -> None:
    cluster.metadata_offset = 10**9  # of the change; the nodes have heard of less
    with Admin(cluster.bootstrap, default_api_timeout_ms=150) as admin:
        with pytest.raises(TimedOutError, match="the change was made, but some brokers do not have it yet"):
            admin.create_partitions("t", 3)
        cluster.metadata_offset = 0
        assert admin.create_partitions("t", 4).partition_count == 4


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        (("", 3), Exception, "the topic name is empty"),
        (({"t": 3}, 3), TypeError, "topic must be a str"),
        (("t", "3"), TypeError, "write total=3"),
        (("t", 0), ValueError, "total=0 must be from 1"),
        (("t", True), TypeError, "total=True"),
        (("t", 3, []), ValueError, "names no partition"),
        (("t", 3, [1, 2]), TypeError, r"like \[\[1, 2\], \[2, 3\]\]"),
        (("t", 3, "1:2"), TypeError, r"like \[\[1, 2\], \[2, 3\]\]"),
        (("t", 3, {2: [1]}), TypeError, r"like \[\[1, 2\], \[2, 3\]\]"),
        (("t", 3, [["1"]]), TypeError, "a broker's id='1'"),
        (("t", 3, [[-1]]), ValueError, "a broker's id=-1"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named_before_anybody_is_asked(
    arguments: tuple[object, ...], kind: type[Exception], says: str, admin: Admin, cluster: FakeCluster
) -> None:
    with pytest.raises(kind, match=says):
        admin.create_partitions(*arguments)  # type: ignore[arg-type]
    assert len(cluster.logs) == 2
