"""A real disk that fills under a running node, and gets room again: no crash, no restart, nothing acked is lost.

A node has two log dirs: one on the machine's disk, with the metadata log, and one on a tmpfs of a few megabytes, which
holds the first partition that is created. (Where the disk of the metadata log is full as well, see the last test.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import KafkaStorageError, PenstockError
from penstock.record.builder import build_batch
from penstock.testing import Cluster
from tests.integration.test_cluster import wait_until
from tests.support import raw_broker
from tests.support.replica_bytes import log_bytes
from tests.support.small_disk import fill, small_disk

MIB = 1024 * 1024
DISK_BYTES = 4 * MIB
RECORD_BYTES = 100_000
LEFT_BYTES = MIB
"""The room that a ballast file leaves: enough for some records."""
BATCH = build_batch([bytes(RECORD_BYTES)], timestamps_ms=1_700_000_000_000)
SMALL = TopicPartition("small", 0)
CONFIG: dict[str, object] = {
    "log.segment.bytes": 256 * 1024,
    "log.segment.delete.delay.ms": 0,
    "replica.lag.time.max.ms": 1_000,
}


def log_dirs(directory: Path, index: int, disk: Path) -> dict[str, object]:
    """The configuration of a node whose second log dir is on the small disk."""
    main = directory / f"node-{index}-main"
    return {"log.dirs": [str(main), str(disk / "log")], "metadata.log.dir": str(main)}


@contextmanager
def one_node(directory: Path, **config: object) -> Iterator[tuple[Cluster, Path]]:
    """small-0 on the small disk, other-0 on the other one; and where the small disk is."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    with small_disk(directory / "disk", DISK_BYTES) as disk:
        node = log_dirs(directory, 0, disk)
        with Cluster(1, CONFIG | given, directory / "cluster", node_configs=[node]) as cluster:
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic("small", 1)
                admin.create_topic("other", 1)
            wait_until((disk / "log" / "small-0").is_dir)
            yield cluster, disk


def write_until_refused(cluster: Cluster, index: int = 0) -> tuple[int, KafkaStorageError]:
    """How many records were acked, and how the first one was refused, of which nothing was written."""
    address = cluster.endpoint(index)
    for acked in range(2 * DISK_BYTES // RECORD_BYTES):
        (answer,) = raw_broker.produce(address, raw_broker.records("small", 0, BATCH))
        error = answer.partitions[0].error
        if error.code:
            assert error.code == KafkaStorageError.code, error
            assert error.nothing_written, error
            return acked, KafkaStorageError(error.message)
    raise AssertionError("a disk without end")


def count(cluster: Cluster, partition: TopicPartition = SMALL) -> int:
    """How many records a consumer can read."""
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found = 0
        while consumer.position(partition) < end:
            found += len(consumer.poll(timeout_ms=1_000))
        return found


def write(cluster: Cluster, topic: str, timeout_s: float = 60) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send(topic, value=bytes(RECORD_BYTES)).result(timeout_s)


def test_a_full_disk_refuses_writes_and_goes_on_when_somebody_makes_room(tmp_path: Path) -> None:
    with one_node(tmp_path) as (cluster, disk):
        fill(disk / "ballast", LEFT_BYTES)
        acked, refusal = write_until_refused(cluster)
        assert acked > 0
        assert str(disk / "log") in str(refusal) and "full" in str(refusal) and "room" in str(refusal)
        assert count(cluster) == acked
        write(cluster, "other")
        with (
            pytest.raises(PenstockError, match="full"),
            Producer(cluster.bootstrap, delivery_timeout_ms=5_000) as producer,
        ):
            producer.send("small", value=bytes(RECORD_BYTES)).result(60)
        (disk / "ballast").unlink()
        write(cluster, "small")
        assert count(cluster) == acked + 1
        cluster.kill(0)
        cluster.start(0)
        assert count(cluster) == acked + 1, "what was refused is not there, what was acked is"


def test_a_full_disk_gets_room_by_retention_alone(tmp_path: Path) -> None:
    config = {"log_retention_ms": -1, "log_retention_check_interval_ms": 500}  # the batch is old
    with one_node(tmp_path, **config) as (cluster, disk):
        fill(disk / "ballast", LEFT_BYTES // 2)
        write_until_refused(cluster)
        (disk / "ballast").unlink()
        acked, _ = write_until_refused(cluster)
        assert acked > 0
        with Admin(cluster.bootstrap) as admin:  # not before: retention would race with a writer on a busy machine
            admin.alter_topic_config("small", {"retention.bytes": MIB})
        write(cluster, "small")
        assert cluster.is_running(0)
        assert count(cluster) < acked


def test_a_follower_without_room_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        nodes = [{}, {}, log_dirs(tmp_path, 2, disk)]
        with Cluster(3, CONFIG, tmp_path / "cluster", node_configs=nodes) as cluster, Admin(cluster.bootstrap) as admin:
            topic = led_by_another(admin, 2)
            directories = [cluster.directory(0), cluster.directory(1), disk / "log"]
            fill(disk / "ballast", LEFT_BYTES)
            for _ in range(2 * LEFT_BYTES // RECORD_BYTES):
                write(cluster, topic)
            wait_until(lambda: isr(admin, topic) == {0, 1})
            assert all(cluster.is_running(index) for index in range(3))
            (disk / "ballast").unlink()
            wait_until(lambda: isr(admin, topic) == {0, 1, 2})
            write(cluster, topic)
            for index in range(3):
                assert cluster.stop(index) == 0
        first, *others = [log_bytes(directory / f"{topic}-0") for directory in directories]
        assert others == [first, first]


def led_by_another(admin: Admin, node: int) -> str:
    """A new topic that the node follows, with its replica on the small disk. Who leads is drawn by the controller."""
    for number in range(40):
        topic = f"topic-{number}"
        admin.create_topic(topic, 1, 3)
        if admin.describe_topic(topic).partitions[0].leader_id != node:
            return topic
        admin.delete_topic(topic)
    raise AssertionError(f"node {node} leads everything")


def isr(admin: Admin, topic: str) -> set[int]:
    return set(admin.describe_topic(topic).partitions[0].isr)


def test_a_full_disk_under_the_metadata_log_ends_nothing(tmp_path: Path) -> None:
    """One log dir for everything: topics cannot be created, records cannot be written, and both can again with room."""
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        node = {"log.dirs": [str(disk / "log")]}
        with (
            Cluster(1, CONFIG, tmp_path / "cluster", node_configs=[node]) as cluster,
            Admin(cluster.bootstrap) as admin,
        ):
            admin.create_topic("small", 1)
            write(cluster, "small")
            fill(disk / "ballast")
            with pytest.raises(PenstockError), Admin(cluster.bootstrap, default_api_timeout_ms=3_000) as asked:
                asked.create_topic("late", 100)
            assert write_until_refused(cluster)[0] <= 1
            assert count(cluster) >= 1 and cluster.is_running(0)
            (disk / "ballast").unlink()
            write(cluster, "small")
            wait_until(lambda: can_create(admin, "later"))
            assert cluster.is_running(0)


def can_create(admin: Admin, topic: str) -> bool:
    try:
        admin.create_topic(topic, 1)
    except PenstockError:
        return topic in admin.list_topics()
    return True
