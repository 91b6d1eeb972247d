"""Members of a group on a real cluster: their coordinator is killed, their topics come and go, others interfere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Admin, CommittedOffset, Consumer, Producer, TopicPartition
from penstock.errors import CommitFailedError, OffsetMetadataTooLargeError, UnreleasedInstanceIdError
from penstock.testing import Cluster
from tests.support.waiting import wait_until

CONFIG: dict[str, object] = {"group.consumer.heartbeat.interval.ms": 300, "group.consumer.session.timeout.ms": 12_000}
PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, config=CONFIG) as running:
        yield running


class Member:
    """A consumer in a thread of its own."""

    def __init__(self, cluster: Cluster, group_id: str, subscribed: dict[str, Any]) -> None:
        self.seen: set[tuple[str, int, int]] = set()
        self.changes: list[tuple[str, list[TopicPartition]]] = []
        self.error: BaseException | None = None
        self.ending = threading.Event()
        self._consumer = Consumer(
            cluster.bootstrap, group_id=group_id, auto_offset_reset="earliest", auto_commit_interval_ms=200
        )
        self._thread = threading.Thread(target=self._run, args=(subscribed,))
        self._thread.start()

    def _run(self, subscribed: dict[str, Any]) -> None:
        try:
            with self._consumer as consumer:
                consumer.subscribe(
                    **subscribed,
                    on_assigned=lambda partitions: self.changes.append(("+", partitions)),
                    on_revoked=lambda partitions: self.changes.append(("-", partitions)),
                    on_lost=lambda partitions: self.changes.append(("lost", partitions)),
                )
                while not self.ending.is_set():
                    self.seen |= {(r.topic, r.partition, r.offset) for r in consumer.poll(timeout_ms=100)}
        except BaseException as error:
            self.error = error

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self._consumer.assignment())

    def end(self) -> None:
        self.ending.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive() and self.error is None, self.error


def produce(cluster: Cluster, topic: str, count: int) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many(topic, [b"%d" % n for n in range(count)], keys=[b"%d" % n for n in range(count)])


def test_members_keep_their_partitions_while_the_coordinator_dies_and_topics_come_and_go(cluster: Cluster) -> None:
    topic, later = cluster.topic(partitions=4), "later-than-its-readers"
    by_name = Member(cluster, "g", {"topics": [topic, later]})
    by_pattern = Member(cluster, "g", {"pattern": f"{topic}|{later}"})
    members = (by_name, by_pattern)

    def read(count: int) -> bool:
        return len(by_name.seen | by_pattern.seen) == count

    try:
        wait_until(lambda: sorted(len(member.owned) for member in members) == [2, 2], PATIENCE_S)
        produce(cluster, topic, 200)
        wait_until(lambda: read(200), PATIENCE_S)
        with Admin(cluster.bootstrap) as admin:
            coordinator = admin.describe_group("g").coordinator_id
            before = [len(member.changes) for member in members]
            with cluster.down(coordinator):
                produce(cluster, topic, 200)
                wait_until(lambda: read(400), PATIENCE_S)
                wait_until(lambda: sum(found.lag or 0 for found in admin.group_lag("g").values()) == 0, PATIENCE_S)
            assert [len(member.changes) for member in members] == before, "nobody rebalances"
            admin.create_topic(later, 2, replication_factor=3)
            produce(cluster, later, 100)
            wait_until(lambda: read(500), PATIENCE_S)
            admin.delete_topic(later)
            wait_until(lambda: all(tp.topic == topic for member in members for tp in member.owned), PATIENCE_S)
    finally:
        for member in members:
            member.end()
    assert all("lost" not in {kind for kind, _ in member.changes} for member in members)


def test_a_static_member_finds_its_partitions_and_a_second_one_of_its_name_is_refused(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=4)
    other = Member(cluster, "static", {"topics": [topic]})
    try:
        options: dict[str, Any] = {"group_id": "static", "group_instance_id": "i-1", "auto_offset_reset": "earliest"}
        with Consumer(cluster.bootstrap, **options) as first:
            first.subscribe([topic])
            wait_until(lambda: first.poll(timeout_ms=100) is not None and len(first.assignment()) == 2, PATIENCE_S)
            owned, changes = first.assignment(), len(other.changes)
            with Consumer(cluster.bootstrap, **options) as second:
                second.subscribe([topic])
                with pytest.raises(UnreleasedInstanceIdError, match="i-1"):
                    second.poll(timeout_ms=PATIENCE_S * 1000)
        with Consumer(cluster.bootstrap, **options) as again:
            again.subscribe([topic])
            wait_until(lambda: again.poll(timeout_ms=100) is not None and len(again.assignment()) == 2, PATIENCE_S)
            assert (again.assignment(), len(other.changes)) == (owned, changes)
    finally:
        other.end()


def test_a_text_comes_back_with_its_offset_and_one_that_is_too_long_is_refused(cluster: Cluster) -> None:
    tp = TopicPartition(cluster.topic(partitions=1), 0)
    with Consumer(cluster.bootstrap, group_id="texts") as consumer:
        consumer.assign([tp])
        consumer.commit({tp: CommittedOffset(7, 0, "step 3")})
        found = consumer.committed([tp])[tp]
        assert found is not None and (found.offset, found.leader_epoch, found.metadata) == (7, 0, "step 3")
        assert found.commit_timestamp_ms > 1_600_000_000_000
        with pytest.raises(OffsetMetadataTooLargeError):
            consumer.commit({tp: CommittedOffset(8, 0, "x" * 5_000)})
        assert consumer.committed([tp])[tp] == found


def test_a_commit_beside_members_is_refused(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=1)
    tp = TopicPartition(topic, 0)
    member = Member(cluster, "alone", {"topics": [topic]})
    try:
        wait_until(lambda: member.owned == {tp}, PATIENCE_S)
        with Consumer(cluster.bootstrap, group_id="alone") as stranger:
            stranger.assign([tp])
            with pytest.raises(CommitFailedError, match="the group has members, which alone commit"):
                stranger.commit({tp: 0})
    finally:
        member.end()
