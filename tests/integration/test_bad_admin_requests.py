"""Bad requests of an administrator to real nodes: one exact typed error a row, and nothing is changed or lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import grpc
import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import (
    ApiError,
    ElectionNotNeededError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidTopicError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from penstock.testing import Cluster
from tests.support.waiting import wait_until

FIRST, MISSING = TopicPartition("t", 0), TopicPartition("gone", 0)
NODES = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=NODES) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic("t", partitions=2, replication_factor=NODES)
            admin.create_topic("gone", partitions=1, replication_factor=NODES)
            admin.delete_topic("gone")
        with Producer(running.bootstrap, acks="all") as producer:
            producer.send("t", value=b"kept", partition=0).result(60)
        yield running


def reassigned(admin: Admin, tp: TopicPartition, replicas: tuple[int, ...] | None) -> None:
    raise_first(admin.alter_partition_reassignments({tp: replicas}).values())


def elected(admin: Admin, tp: TopicPartition, *, unclean: bool) -> None:
    raise_first(result.error for result in admin.elect_leaders([tp], unclean=unclean).values())


def raise_first(errors: Iterable[ApiError | None]) -> None:
    for error in errors:
        if error is not None:
            raise error


ROWS: dict[str, tuple[Callable[[Admin], object], type[ApiError], str]] = {
    "a name of two dots": (lambda a: a.create_topic("..", 1), InvalidTopicError, "directory"),
    "a name with NUL": (lambda a: a.create_topic("a\0b", 1), InvalidTopicError, "other characters"),
    "fewer partitions than now": (lambda a: a.create_partitions("t", 1), InvalidPartitionsError, "2 partitions"),
    "as many partitions as now": (lambda a: a.create_partitions("t", 2), InvalidPartitionsError, "2 partitions"),
    "a topic that was deleted": (lambda a: a.delete_topic("gone"), UnknownTopicOrPartitionError, "gone"),
    "partitions for what was deleted": (
        lambda a: a.create_partitions("gone", 2),
        UnknownTopicOrPartitionError,
        "gone",
    ),
    "a leader for what was deleted": (
        lambda a: elected(a, MISSING, unclean=False),
        UnknownTopicOrPartitionError,
        "gone",
    ),
    "an unclean leader while a member of the ISR lives": (
        lambda a: elected(a, FIRST, unclean=True),
        ElectionNotNeededError,
        "t-0",
    ),
    "a move of what was deleted": (lambda a: reassigned(a, MISSING, (0,)), UnknownTopicOrPartitionError, "gone"),
    "a move to a broker that nobody knows": (
        lambda a: reassigned(a, FIRST, (0, 1, 77)),
        InvalidReplicaAssignmentError,
        "broker 77 is not registered",
    ),
    "a move to one broker twice": (lambda a: reassigned(a, FIRST, (0, 1, 1)), InvalidReplicaAssignmentError, "another"),
    "a move to no broker": (lambda a: reassigned(a, FIRST, ()), InvalidReplicaAssignmentError, "at least one"),
    "the end of a move that never began": (
        lambda a: reassigned(a, FIRST, None),
        NoReassignmentInProgressError,
        "not being reassigned",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_bad_request_is_refused_with_its_own_error_and_changes_nothing(cluster: Cluster, row: str) -> None:
    ask, error, words = ROWS[row]
    with Admin(cluster.bootstrap) as admin:
        before = admin.describe_topics()
        with pytest.raises(error, match=words):
            ask(admin)
        assert admin.describe_topics() == before
    assert read(cluster, "t") == [b"kept"]


def test_a_topic_that_is_made_anew_at_once_is_empty_also_where_a_node_missed_its_deletion(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap, acks="all") as producer:
        admin.create_topic("again", partitions=1, replication_factor=NODES)
        for _ in range(5):
            producer.send("again", value=b"old").result(60)
        cluster.kill(2)
        for round_ in range(3):
            with contextlib.suppress(UnknownTopicOrPartitionError):
                admin.delete_topic("again")
            admin.create_topic("again", partitions=1, replication_factor=2, config={"min.insync.replicas": 1})
            producer.send("again", value=b"new %d" % round_).result(60)
        cluster.start(2)
        assert read(cluster, "again") == [b"new 2"]
        admin.alter_partition_reassignments({TopicPartition("again", 0): (2,)})
        wait_until(lambda: not admin.list_partition_reassignments())
    assert read(cluster, "again") == [b"new 2"], "the node that was away has the new topic only"


def test_no_request_changes_the_voters(cluster: Cluster) -> None:
    """The ids are in each controller's file, and fixed (`test_startup_errors.py`)."""
    with grpc.insecure_channel(cluster.bootstrap.split(",")[0]) as channel:
        for name in ("AddRaftVoter", "RemoveRaftVoter"):
            call = channel.unary_unary(f"/penstock.v1.Broker/{name}")
            with pytest.raises(grpc.RpcError) as refused:
                call(b"", timeout=60)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def read(cluster: Cluster, topic: str) -> list[bytes | None]:
    """Everything in partition 0."""
    partition = TopicPartition(topic, 0)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found: list[bytes | None] = []
        while consumer.position(partition) < end:
            found += [record.value for record in consumer.poll(timeout_ms=1_000)]
    return found
