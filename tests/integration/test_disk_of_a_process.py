"""Faults of disks and directories that a real process must show, and that need no broken disk.

    EMFILE                                  descriptors taken away by prlimit
    directory deleted while running         of a partition, and a whole log dir, also under load in a cluster
    a file edited under a running node      a flipped bit, and a cut
    the last log dir fails                  writes refused by prlimit (EFBIG): exit code and last words
    log dir read-only                       a tmpfs that is mounted so
    a known dir gone, or replaced           at a start
    stray partition dirs                    set aside, reported, never deleted

The other rows about directories are in test_startup_errors.py, the other ones about disks in test_disk_faults.py and
test_full_disk.py.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import KafkaStorageError, PenstockError, UndecodableBatchError
from penstock.node import EXIT_REFUSED
from penstock.record.builder import build_batch
from penstock.testing import Cluster, NodeFailedError
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import format_directory, read_meta_properties
from tests.integration.test_cluster import wait_until
from tests.support import raw_broker
from tests.support.machine import IDS
from tests.support.small_disk import make_read_only, small_disk

BATCH = build_batch([bytes(10_000)], timestamps_ms=1_700_000_000_000)
SEGMENT_BYTES = 65_536
CONFIG: dict[str, object] = {"log.segment.bytes": SEGMENT_BYTES, "log.flush.offset.checkpoint.interval.ms": 200}
STEADY: dict[str, object] = {"broker.session.timeout.ms": 9_000, "replica.lag.time.max.ms": 9_000}
"""A busy machine moves no leader, and no replica out of the ISR."""


@contextmanager
def two_log_dirs(directory: Path, disk: Path | None = None) -> Iterator[tuple[Cluster, Path]]:
    """One node: orders-0 stands in the log dir that is returned, other-0 and the metadata log in another one."""
    second = (disk or directory) / "second"
    node = {"log.dirs": [str(directory / "first"), str(second)], "metadata.log.dir": str(directory / "first")}
    with Cluster(1, CONFIG, directory / "cluster", node_configs=[node]) as cluster:
        with Admin(cluster.bootstrap) as admin:
            for topic in ("orders", "other"):
                admin.create_topic(topic, 1)
                wait_until(lambda topic=topic: is_open(cluster, topic))
                assert write(cluster, topic, 3) is None
        assert (second / "orders-0").is_dir()
        yield cluster, second


def is_open(cluster: Cluster, topic: str) -> bool:
    """True once the broker has made the topic's log, which it does in the log dir's own thread."""
    (answer,) = raw_broker.fetch(cluster.endpoint(0), raw_broker.position(topic, 0))
    return not answer.partitions[0].error.code


def write(cluster: Cluster, topic: str, count: int = 1) -> KafkaStorageError | None:
    """The refusal of the first batch that was not acked."""
    for _ in range(count):
        (answer,) = raw_broker.produce(cluster.endpoint(0), raw_broker.records(topic, 0, BATCH))
        error = answer.partitions[0].error
        if error.code:
            assert error.code == KafkaStorageError.code, error
            return KafkaStorageError(error.message)
    return None


def read_all(cluster: Cluster, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found = 0
        while consumer.position(partition) < end:
            found += len(consumer.poll(timeout_ms=500))
        return found


# -- while it runs -----------------------------------------------------------------------------------------------------


def test_without_descriptors_acks_wait_and_come_when_there_are_some(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, _), Producer(cluster.bootstrap, acks="all") as producer:
        producer.send("orders", value=b"before").result(60)
        pid = cluster.pid(0)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))  # below the node's own reserve, too
        late = producer.send("orders", value=b"late")
        wait_until(lambda: "Too many open files" in cluster.log_path(0).read_text())
        assert not late.done()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        assert late.result(60).offset == 4
        assert write(cluster, "other", 10) is None and read_all(cluster, "orders") == 5


def test_a_partition_directory_that_is_deleted_takes_its_log_dir_offline(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        shutil.rmtree(second / "orders-0")
        refusal = write(cluster, "orders", 10)
        assert refusal is not None and str(second) in str(refusal) and "file is gone" in str(refusal)
        assert write(cluster, "other") is None and read_all(cluster, "other") == 4
        assert cluster.is_running(0)


def test_a_log_dir_that_is_deleted_is_noticed_by_the_next_checkpoint(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        shutil.rmtree(second.rename(tmp_path / "gone"))  # at once: the node would write into it meanwhile
        wait_until(lambda: write(cluster, "orders") is not None)
        wait_until(lambda: "cannot use the log dir" in cluster.log_path(0).read_text())
        assert write(cluster, "other") is None and read_all(cluster, "other") == 4
        assert cluster.is_running(0)


def test_a_log_dir_that_fails_under_load_moves_only_the_leaders_that_are_in_it(tmp_path: Path) -> None:
    dirs = [[tmp_path / f"{node}-{name}" for name in ("first", "second")] for node in range(3)]
    nodes = [{"log.dirs": [str(a), str(b)], "metadata.log.dir": str(a)} for a, b in dirs]
    config = {**CONFIG, "min.insync.replicas": 2, **STEADY}
    with Cluster(3, config, tmp_path / "cluster", node_configs=nodes) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", 12, 3)
        with Producer(cluster.bootstrap, acks="all", delivery_timeout_ms=120_000) as producer:

            def send_all() -> list[int]:
                sent = [producer.send("orders", value=b"x", partition=number) for number in range(12)]
                return [future.result(60).partition for future in sent]

            assert send_all() == list(range(12))
            before = {p.partition: p for p in admin.describe_topic("orders").partitions}
            broker = Counter(p.leader_id for p in before.values()).most_common(1)[0][0]
            lost = {number for number in before if (dirs[broker][1] / f"orders-{number}").is_dir()}
            assert lost and len(lost) < 12, "the broker has replicas in both of its log dirs"
            dirs[broker][1].rename(tmp_path / "gone")  # at once: the node goes on writing there

            def is_out() -> bool:
                send_all()
                now = admin.describe_topic("orders").partitions
                return all(broker not in p.isr for p in now if p.partition in lost)

            wait_until(is_out)
            after = {p.partition: p for p in admin.describe_topic("orders").partitions}
            for number in before.keys() - lost:
                assert (after[number].leader_id, after[number].leader_epoch) == (
                    before[number].leader_id,
                    before[number].leader_epoch,
                )
                assert sorted(after[number].isr) == sorted(before[number].isr)
            assert all(after[number].leader_id not in (broker, -1) for number in lost)
            assert "registers anew" not in cluster.log_path(broker).read_text()


def test_a_bit_that_somebody_flips_reaches_no_consumer(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        assert write(cluster, "orders", 10) is None
        path = min((second / "orders-0").glob("*.log"))
        content = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(5_000)
            file.write(bytes([content[5_000] ^ 1]))
        with pytest.raises(UndecodableBatchError):
            read_all(cluster, "orders")
        assert write(cluster, "orders") is None and read_all(cluster, "other") == 3


def test_a_file_that_somebody_cuts_takes_its_replica_offline_when_it_is_read(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        assert write(cluster, "orders", 10) is None
        path = min((second / "orders-0").glob("*.log"))
        os.truncate(path, 20_000)
        raw_broker.fetch(cluster.endpoint(0), raw_broker.position("orders", 0))
        refusal = write(cluster, "orders")
        assert refusal is not None and str(path) in str(refusal) and "byte 20000" in str(refusal)
        assert read_all(cluster, "other") == 3


def test_the_last_log_dir_ends_the_node_with_its_reason(tmp_path: Path) -> None:
    with Cluster(1, CONFIG, tmp_path) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", 1)
        assert write(cluster, "orders", 5) is None
        (segment,) = (cluster.directory(0) / "orders-0").glob("*.log")
        limit = segment.stat().st_size  # a write that begins there is EFBIG, which is no shortage
        resource.prlimit(cluster.pid(0), resource.RLIMIT_FSIZE, (limit, limit))
        assert str(segment) in str(write(cluster, "orders"))
        wait_until(lambda: not cluster.is_running(0))
        assert cluster.stop(0) == 1
        said = cluster.log_path(0).read_text()
        assert "fatal" in said and "File too large" in said and str(cluster.directory(0)) in said


# -- at a start --------------------------------------------------------------------------------------------------------


def test_a_log_dir_that_is_read_only_is_offline_and_the_other_one_serves(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 * 1024 * 1024) as disk, two_log_dirs(tmp_path, disk) as (cluster, second):
        assert cluster.stop(0) == 0
        make_read_only(disk)
        cluster.start(0)
        assert write(cluster, "other") is None and read_all(cluster, "other") == 4
        with pytest.raises(PenstockError), Producer(cluster.bootstrap, delivery_timeout_ms=500) as producer:
            producer.send("orders", value=b"refused").result(60)
        said = cluster.log_path(0).read_text()
        assert f"{second}: cannot use the log dir" in said and "read-only" in said


def test_the_only_log_dir_read_only_refuses_the_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 * 1024 * 1024) as disk:
        node = {"log.dirs": [str(disk / "data")]}
        with Cluster(1, CONFIG, tmp_path / "cluster", node_configs=[node]) as cluster:
            assert cluster.stop(0) == 0
            make_read_only(disk)
            with pytest.raises(NodeFailedError, match="read-only"):
                cluster.start(0)


def test_a_known_log_dir_that_is_gone_refuses_the_start_and_nothing_is_made_in_its_place(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        assert cluster.stop(0) == 0
        aside = second.rename(tmp_path / "unmounted")
        with pytest.raises(NodeFailedError, match=f"{second} is not formatted.*mount its disk"):
            cluster.start(0)
        assert not second.exists()
        aside.rename(second)
        cluster.start(0)
        assert read_all(cluster, "orders") == 3


def test_a_replaced_log_dir_is_refused_until_given_up_and_then_never_leads_empty(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        lost = directory_id(second)
        assert cluster.stop(0) == 0
        aside = second.rename(tmp_path / "dead")
        format_directory(OsFileSystem(), str(second), cluster.cluster_id, 0, IDS.new_id())
        with pytest.raises(NodeFailedError, match=f"without log dir {lost}.*--lost-log-dirs {lost}.*{second}"):
            cluster.start(0)
        assert cluster.stop(0) == EXIT_REFUSED
        for options in (("--lost-log-dirs", lost), ()):
            cluster.start(0, *options)
            assert read_all(cluster, "other") == 3 and not (second / "orders-0").exists()
            with Admin(cluster.bootstrap) as admin:
                (partition,) = admin.describe_topic("orders").partitions
            assert (partition.leader_id, partition.isr) == (-1, (0,))
            assert cluster.stop(0) == 0
        between = directory_id(second)
        shutil.rmtree(second)
        aside.rename(second)
        cluster.start(0, "--lost-log-dirs", between)
        assert read_all(cluster, "orders") == 3


def directory_id(log_dir: Path) -> str:
    found = read_meta_properties(OsFileSystem(), str(log_dir))
    assert found is not None
    return found.directory_id


def test_a_stray_partition_directory_is_set_aside_and_reported_and_kept(tmp_path: Path) -> None:
    with two_log_dirs(tmp_path) as (cluster, second):
        assert cluster.stop(0) == 0
        shutil.copytree(second / "orders-0", second / "nobody-7")
        before = (second / "nobody-7" / "00000000000000000000.log").read_bytes()
        cluster.start(0)
        (stray,) = [path for path in second.iterdir() if path.name.endswith("-stray")]
        assert stray.name.startswith("nobody-7") and not (second / "nobody-7").exists()
        assert (stray / "00000000000000000000.log").read_bytes() == before
        wait_until(lambda: str(stray) in cluster.log_path(0).read_text())  # it is told after it was done
        assert read_all(cluster, "orders") == 3
