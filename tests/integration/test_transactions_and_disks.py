"""Transactions of a real cluster whose disks fill, move, get lost, and whose coordinator stands still: each is whole or
not there, and none waits for longer than it must."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Admin, Producer, TopicPartition
from penstock.errors import PenstockError
from penstock.testing import Cluster
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import format_directory
from tests.integration.test_disk_of_a_process import directory_id
from tests.integration.test_log_dir_moves import several_log_dirs
from tests.integration.test_transactions import values_of
from tests.support.machine import IDS
from tests.support.small_disk import fill, small_disk
from tests.support.waiting import wait_until

STATE = "__transaction_state"
CONFIG: dict[str, object] = {"transaction.state.log.num.partitions": 1}
MIB = 1 << 20
PATIENCE_S = 60
EATEN = b"x"


def test_a_replica_moves_to_another_log_dir_with_an_open_transaction(tmp_path: Path) -> None:
    """The new log knows what is open and what was aborted, also behind its first batch, and after a restart."""
    tp = TopicPartition("t", 0)
    with several_log_dirs(tmp_path, "ab") as (cluster, dirs), Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", 1, 1)

        def place() -> str | None:
            """None while the broker has not made the log yet."""
            return next((one.path for one in admin.describe_log_dirs([0])[0].log_dirs if tp in one.replicas), None)

        wait_until(lambda: place() is not None)
        (target,) = set(dirs) - {place()}
        with Producer(cluster.bootstrap, transactional_id="mover") as producer:
            producer.begin_transaction()
            producer.send("t", b"aborted", partition=0).result(PATIENCE_S)
            producer.abort_transaction()
            producer.begin_transaction()
            start = producer.send("t", b"before", partition=0).result(PATIENCE_S).offset
            admin.alter_replica_log_dirs(0, {tp: target})
            wait_until(lambda: place() == target)
            (known,) = [one for one in admin.describe_producers([tp])[tp] if one.transaction_start_offset is not None]
            assert known.transaction_start_offset == start
            assert values_of(cluster, "t", is_open=True) == []
            producer.send("t", b"after", partition=0).result(PATIENCE_S)
            producer.commit_transaction()
            wait_until(lambda: values_of(cluster, "t", is_open=True) == [b"before", b"after"])
            producer.begin_transaction()
            producer.send("t", b"open", partition=0).result(PATIENCE_S)
            cluster.restart(0)
            assert place() == target and values_of(cluster, "t", is_open=True) == [b"before", b"after"]
            producer.commit_transaction()
        wait_until(lambda: values_of(cluster, "t", is_open=True) == [b"before", b"after", b"open"])


def test_a_full_disk_under_the_coordinator_refuses_decisions_and_loses_none(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 * MIB) as disk:
        nodes = [two_dirs(tmp_path / "main", disk / "log")]
        with Cluster(1, CONFIG, tmp_path / "cluster", node_configs=nodes) as cluster, Admin(cluster.bootstrap) as admin:
            make_state_topic(admin)
            assert (disk / "log" / f"{STATE}-0").is_dir()
            admin.create_topic("t", 1, 1)
            with (
                Producer(cluster.bootstrap, transactional_id="writer", max_block_ms=4_000) as producer,
                Producer(cluster.bootstrap, transactional_id="eater", max_block_ms=4_000) as eater,
            ):
                with producer.transaction() as t:
                    t.send("t", b"first")
                producer.begin_transaction()
                producer.send("t", b"second").result(PATIENCE_S)
                fill(disk / "ballast")
                with pytest.raises(PenstockError):
                    for _ in range(1_000):  # the last page of the log has some room left
                        with eater.transaction() as t:
                            t.send("t", EATEN)
                with pytest.raises(PenstockError):
                    producer.commit_transaction()
                wait_until(lambda: decided(cluster) == [b"first"])
                (disk / "ballast").unlink()
                wait_until(lambda: is_committed(producer))
                with producer.transaction() as t:
                    t.send("t", b"third")
            wait_until(lambda: decided(cluster) == [b"first", b"second", b"third"])
            cluster.kill(0)
            cluster.start(0)
            wait_until(lambda: decided(cluster) == [b"first", b"second", b"third"])


def decided(cluster: Cluster) -> list[bytes]:
    """As it can be read now: the markers of a transaction are written after its commit was answered."""
    return [value for value in values_of(cluster, "t", is_open=True) if value != EATEN]


def is_committed(producer: Producer) -> bool:
    try:
        producer.commit_transaction()
    except PenstockError:
        return False
    return True


@pytest.mark.long  # simulated clusters lose disks under transactions
def test_the_disk_of_a_coordinator_is_replaced_by_an_empty_one_with_a_transaction_open(tmp_path: Path) -> None:
    """Another broker goes on with it; the empty one leads again only when it has everything."""
    with three_with_two_dirs(tmp_path) as (cluster, data_dirs), Admin(cluster.bootstrap) as admin:
        make_state_topic(admin, 3)
        admin.create_topic("t", 3, 3)
        with Producer(cluster.bootstrap, transactional_id="writer") as producer:
            with producer.transaction() as t:
                t.send("t", b"first")
            producer.begin_transaction()
            producer.send("t", b"second").result(PATIENCE_S)
            broken = cluster.leader(STATE)
            data = data_dirs[broken]
            assert (data / f"{STATE}-0").is_dir()
            lost = directory_id(data)
            cluster.kill(broken)
            shutil.rmtree(data)
            format_directory(OsFileSystem(), str(data), cluster.cluster_id, broken, IDS.new_id())
            producer.commit_transaction()
            cluster.start(broken, "--lost-log-dirs", lost)
            cluster.wait_in_sync()
            admin.elect_leaders([TopicPartition(STATE, 0)])
            with producer.transaction() as t:
                t.send("t", b"third")
        wait_until(lambda: sorted(values_of(cluster, "t", is_open=True)) == [b"first", b"second", b"third"])
        wait_until(lambda: [one.state for one in admin.list_transactions()] == ["CompleteCommit"])


@pytest.mark.long  # simulated coordinators hang
def test_a_coordinator_that_stands_still_is_left_for_the_next_one_within_seconds(tmp_path: Path) -> None:
    """…while it still stands. When it goes on it does no harm, and what it led is led by another broker."""
    with Cluster(3, CONFIG, tmp_path / "cluster") as cluster, Admin(cluster.bootstrap) as admin:
        make_state_topic(admin, 3)
        old = cluster.leader(STATE)
        admin.create_topic("t", assignments=[[one for one in range(3) if one != old]])
        with Producer(cluster.bootstrap, transactional_id="writer") as producer:
            producer.begin_transaction()
            producer.send("t", b"first").result(PATIENCE_S)
            with cluster.paused(old):
                began = time.monotonic()
                producer.commit_transaction()
                took = time.monotonic() - began
                with producer.transaction() as t:
                    t.send("t", b"second")
                assert cluster.leader(STATE) != old
            assert took < 25, "its session ends after 2 s, and a request after 30"
            with producer.transaction() as t:
                t.send("t", b"third")
        wait_until(lambda: values_of(cluster, "t", is_open=True) == [b"first", b"second", b"third"])


def two_dirs(main: Path, other: Path) -> dict[str, object]:
    """The first partition that is made is in the other one: this one has the metadata log."""
    return {"log.dirs": [str(main), str(other)], "metadata.log.dir": str(main)}


@contextmanager
def three_with_two_dirs(directory: Path) -> Iterator[tuple[Cluster, list[Path]]]:
    """Three nodes, and the second log dir of each."""
    data = [directory / f"data-{index}" for index in range(3)]
    nodes = [two_dirs(directory / f"main-{index}", data[index]) for index in range(3)]
    with Cluster(3, CONFIG, directory / "cluster", node_configs=nodes) as cluster:
        yield cluster, data


def make_state_topic(admin: Admin, replicas: int = 1) -> None:
    """Before any other topic: it is made when a coordinator is looked for."""
    admin.describe_transactions(["any"])
    wait_until(lambda: STATE in admin.list_topics())
