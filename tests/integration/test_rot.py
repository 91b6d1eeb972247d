"""Rot on one disk: the replica is rebuilt from its leader, no reader sees it, and the last copy is never given up.

One bit is flipped while the node is down. After a crash the recovery finds it, if it is in the last segment; in an
older one, the first reader does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import PenstockError
from penstock.testing import Cluster
from tests.integration.test_cluster import wait_until
from tests.support.replica_bytes import differences

TOPIC = "orders"
VALUES = [b"%06d" % number + b"x" * 94 for number in range(4_000)]
BATCH = 200
CONFIG: dict[str, object] = {
    "log.segment.bytes": 65_536,
    "log.flush.offset.checkpoint.interval.ms": 100,
    "broker.session.timeout.ms": 3_000,  # so long a killed node waits until it may register again
}


@contextmanager
def three_nodes_with_segments(directory: Path) -> Iterator[tuple[Cluster, Admin]]:
    with Cluster(nodes=3, config=CONFIG, directory=directory) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=1, replication_factor=3)
        write(cluster, VALUES)
        yield cluster, admin


def write(cluster: Cluster, values: list[bytes]) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        for at in range(0, len(values), BATCH):
            producer.send_many(TOPIC, values[at : at + BATCH]).result(60)


def read_all(cluster: Cluster) -> list[bytes | None]:
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        found: list[bytes | None] = []

        def enough() -> bool:
            found.extend(record.value for record in consumer.poll(timeout_ms=200))
            return len(found) >= len(VALUES)

        wait_until(enough, 60)
        return found


def leader_and_isr(admin: Admin) -> tuple[int, tuple[int, ...]]:
    partition = admin.describe_topic(TOPIC).partitions[0]
    return partition.leader_id, tuple(sorted(partition.isr))


def rotten_directories(cluster: Cluster, index: int) -> list[Path]:
    return [path for path in cluster.directory(index).iterdir() if path.name.endswith("-rotten")]


def kill_once_all_is_checkpointed(cluster: Cluster, index: int) -> None:
    """So that the next start knows: what is there was flushed, and nothing of it is a torn tail."""
    checkpoint = cluster.directory(index) / "recovery-point-offset-checkpoint"
    wait_until(lambda: f"{TOPIC} 0 {len(VALUES)} " in checkpoint.read_text())
    cluster.kill(index)


def flip_a_bit(cluster: Cluster, index: int, segment: int) -> Path:
    """In the body of a record; returns the file."""
    segments = sorted((cluster.directory(index) / f"{TOPIC}-0").glob("*.log"))
    assert len(segments) >= 4
    content = bytearray(segments[segment].read_bytes())
    content[len(content) // 4] ^= 1
    segments[segment].write_bytes(content)
    return segments[segment]


def check_that_replicas_are_equal(cluster: Cluster) -> None:
    directories = [[cluster.directory(index)] for index in range(3)]
    for index in range(3):
        assert cluster.stop(index) == 0
    assert differences(directories, TOPIC, 1) == []


@pytest.mark.long  # simulation/cluster/test_rot.py
def test_a_follower_whose_recovery_finds_rot_is_rebuilt_from_the_leader(tmp_path: Path) -> None:
    with three_nodes_with_segments(tmp_path) as (cluster, admin):
        leader, _ = leader_and_isr(admin)
        follower = (leader + 1) % 3
        kill_once_all_is_checkpointed(cluster, follower)
        path = flip_a_bit(cluster, follower, -1)
        cluster.start(follower)
        wait_until(lambda: leader_and_isr(admin)[1] == (0, 1, 2))
        (aside,) = rotten_directories(cluster, follower)
        assert (aside / path.name).exists()
        assert str(path) in cluster.log_path(follower).read_text()
        assert read_all(cluster) == VALUES
        check_that_replicas_are_equal(cluster)


@pytest.mark.long  # likewise
def test_a_leader_that_reads_rot_gives_the_lead_away_and_is_rebuilt(tmp_path: Path) -> None:
    with three_nodes_with_segments(tmp_path) as (cluster, admin):
        rotten, _ = leader_and_isr(admin)
        assert cluster.stop(rotten) == 0
        flip_a_bit(cluster, rotten, 2)
        cluster.start(rotten)
        wait_until(lambda: leader_and_isr(admin)[1] == (0, 1, 2))
        successor, _ = leader_and_isr(admin)
        assert cluster.stop(successor) == 0
        cluster.start(successor)
        wait_until(lambda: leader_and_isr(admin) == (rotten, (0, 1, 2)))  # the first replica, which nobody has read yet
        assert not rotten_directories(cluster, rotten)

        assert read_all(cluster) == VALUES
        assert leader_and_isr(admin)[0] != rotten
        wait_until(lambda: leader_and_isr(admin)[1] == (0, 1, 2))
        assert len(rotten_directories(cluster, rotten)) == 1
        check_that_replicas_are_equal(cluster)


def test_the_only_replica_is_not_given_up_and_its_owner_is_told_what_to_do(tmp_path: Path) -> None:
    with Cluster(config=CONFIG, directory=tmp_path) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=1, replication_factor=1)
        write(cluster, VALUES)
        kill_once_all_is_checkpointed(cluster, 0)
        path = flip_a_bit(cluster, 0, -1)
        cluster.start(0)
        with Producer(cluster.bootstrap, delivery_timeout_ms=3_000) as producer, pytest.raises(PenstockError):
            producer.send(TOPIC, value=b"x").result(60)
        wait_until(lambda: str(path) in cluster.log_path(0).read_text())
        assert path.exists() and not rotten_directories(cluster, 0)
        said = cluster.log_path(0).read_text()
        assert str(path) in said and "the only replica in sync" in said and "penstock log recover" in said
        with Admin(cluster.bootstrap) as admin:
            (partition,) = admin.describe_topic(TOPIC).partitions
            assert str(path) in str(partition.error) and "penstock log recover" in str(partition.error)
            admin.delete_topic(TOPIC)
            wait_until(lambda: not path.exists())
