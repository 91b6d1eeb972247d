"""Disks that fail under whole nodes: what a fault hits is refused with a typed error, and the rest goes on.

    full on append                          test_full_disk.py, on a real disk
    full on index, checkpoint, rename       here
    full on snapshot                        tests/unit/broker/quorum/test_metadata_snapshotter.py
    EIO on read, EIO on fsync, EROFS        here
    EMFILE, directory deleted, file edited  test_disk_of_a_process.py, on a real process
    a 10 s fsync                            here
    the last log dir fails                  here, and test_disk_of_a_process.py for the exit code
    time jumps to 1970 and 2106             here

The nodes run in this process on a file system with faults (tests/support/faulty_fs.py). d0 has the metadata log; the
first topic's partition stands in d1, the next one in d2.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.node.broker_parts import BrokerParts
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import InvalidTimestampError, KafkaStorageError, PenstockError
from penstock.record.builder import build_batch
from storage.log.log import Log
from tests.integration.test_cluster import wait_until
from tests.support import raw_broker
from tests.support.nodes_here import NodesHere
from tests.support.storage import log_named

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
NOW_MS = 1_700_000_000_000
QUICK: dict[str, object] = {
    "log.segment.bytes": 4096,
    "log.flush.offset.checkpoint.interval.ms": 50,
    "replica.high.watermark.checkpoint.interval.ms": 50,
}
KILOBYTE = bytes(1000)
SESSION_MS = 2_000


@contextmanager
def one_node(directory: Path, **config: object) -> Iterator[tuple[NodesHere, Admin, Producer]]:
    """orders-0 in d1, other-0 in d2, a record in each."""
    given = {name.replace("_", "."): value for name, value in config.items()}
    with NodesHere(directory, 1, 3, QUICK | given) as nodes, clients(nodes) as (admin, producer):
        for partition in (ORDERS, OTHER):
            admin.create_topic(partition.topic, 1)
            producer.send(partition.topic, value=b"first").result(60)
        assert log_of(nodes, ORDERS).log_dir.endswith("/d1") and log_of(nodes, OTHER).log_dir.endswith("/d2")
        yield nodes, admin, producer


@contextmanager
def clients(nodes: NodesHere) -> Iterator[tuple[Admin, Producer]]:
    """The producer sends a kilobyte in a batch of its own."""
    with Admin(nodes.bootstrap) as admin, Producer(nodes.bootstrap, acks="all", batch_size=1024) as producer:
        yield admin, producer


def log_of(nodes: NodesHere, partition: TopicPartition, index: int = 0) -> Log:
    found = nodes.ask(lambda: log_named(nodes.nodes[index].log_manager, partition))
    assert found is not None
    return found


def values_of(nodes: NodesHere, partition: TopicPartition) -> list[bytes | None]:
    """Everything that a consumer can read now."""
    with Consumer(nodes.bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found: list[bytes | None] = []
        wait_until(lambda: bool(found.extend(r.value for r in consumer.poll(timeout_ms=100)) or len(found) >= end))
        return found


def refusal(nodes: NodesHere, partition: TopicPartition, index: int = 0) -> KafkaStorageError | str:
    """The answer to one produce request, by code and words."""
    address = nodes.bootstrap.split(",")[index]
    batch = build_batch([b"refused"], timestamps_ms=NOW_MS)
    (answer,) = raw_broker.produce(address, raw_broker.records(partition.topic, partition.partition, batch))
    error = answer.partitions[0].error
    return KafkaStorageError(error.message) if error.code == KafkaStorageError.code else f"{error.code} {error.message}"


def broker_of(nodes: NodesHere) -> BrokerParts:
    broker = nodes.nodes[0].broker
    assert broker is not None
    return broker


def retention_runs(nodes: NodesHere) -> int:
    jobs = nodes.ask(broker_of(nodes).disks.scheduler.statistics)
    return next(job.runs for job in jobs if job.name.startswith("log-retention"))


def goes_on(nodes: NodesHere, partition: TopicPartition = OTHER) -> bool:
    """A write, by default to a partition that the fault does not touch. On its own stream: one is answered in order."""
    with Producer(nodes.bootstrap, acks="all", delivery_timeout_ms=60_000) as producer:
        return producer.send(partition.topic, value=b"goes on").result(60).offset > 0


def outlive_a_session(nodes: NodesHere) -> None:
    """Returns once a session would have ended without heartbeats, and the broker is in service."""
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.5 * SESSION_MS / 1_000)
    wait_until(lambda: nodes.ask(broker_of(nodes).lifecycle.unfenced.is_set))


# -- full, but for the append itself -----------------------------------------------------------------------------------


def test_full_on_index_delays_acks_until_there_is_room(tmp_path: Path) -> None:
    with one_node(tmp_path) as (nodes, _, producer):
        with nodes.fs[0].failing("create", ".index.tmp", errno.ENOSPC) as fault:
            sent = [producer.send("orders", value=KILOBYTE) for _ in range(8)]
            assert fault.was_met.wait(60)
            assert goes_on(nodes)
            assert values_of(nodes, ORDERS)[0] == b"first"
        assert [future.result(60).partition for future in sent] == [0] * 8
        assert nodes.fatal(0) is None


def test_full_on_checkpoint_costs_no_write(tmp_path: Path) -> None:
    with one_node(tmp_path) as (nodes, _, _):
        path = Path(log_of(nodes, ORDERS).log_dir, "recovery-point-offset-checkpoint")
        with nodes.fs[0].failing("create", "-checkpoint", errno.ENOSPC) as fault:
            assert goes_on(nodes, ORDERS) and fault.was_met.wait(60)
            assert goes_on(nodes, ORDERS)  # a write that was under way before may have the first one
            assert "orders 0 3" not in path.read_text()
        wait_until(lambda: "orders 0 3" in path.read_text())
        assert nodes.fatal(0) is None


def test_full_on_rename_leaves_the_file_and_comes_back_to_it(tmp_path: Path) -> None:
    config = {"log_retention_check_interval_ms": 50, "log_retention_bytes": 8192, "log_segment_delete_delay_ms": 0}
    with one_node(tmp_path, **config) as (nodes, _, producer):
        with nodes.fs[0].failing("rename", ".deleted", errno.ENOSPC) as fault:
            for _ in range(20):
                producer.send("orders", value=KILOBYTE).result(60)
            assert fault.was_met.wait(60)
            assert goes_on(nodes, ORDERS)
        directory = Path(log_of(nodes, ORDERS).directory)
        wait_until(lambda: len(list(directory.glob("*.log*"))) <= 4)
        assert nodes.fatal(0) is None


# -- a disk that fails -------------------------------------------------------------------------------------------------


@contextmanager
def three_nodes(directory: Path) -> Iterator[tuple[NodesHere, Admin, int]]:
    """orders-0 with three replicas in d1, and who leads it."""
    config = {**QUICK, "min.insync.replicas": 2, "replica.lag.time.max.ms": 1000}
    with NodesHere(directory, 3, 2, config) as nodes, clients(nodes) as (admin, producer):
        admin.create_topic("orders", 1, 3)
        for number in range(10):
            producer.send("orders", value=b"%d" % number + KILOBYTE).result(60)
        yield nodes, admin, admin.describe_topic("orders").partitions[0].leader_id


def leader_and_isr(admin: Admin) -> tuple[int, set[int]]:
    partition = admin.describe_topic("orders").partitions[0]
    return partition.leader_id, set(partition.isr)


def test_eio_on_read_takes_that_replica_offline_and_another_serves(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as (nodes, admin, leader):
        with nodes.fs[leader].failing("pread", "/orders-0/", errno.EIO):
            assert [value[:1] for value in values_of(nodes, ORDERS) if value] == [b"%d" % n for n in range(10)]
            wait_until(lambda: leader_and_isr(admin)[0] != leader and leader not in leader_and_isr(admin)[1])
        assert goes_on(nodes, ORDERS)
        assert nodes.fatal(leader) is None


def test_eio_on_fsync_ends_the_log_dir_and_is_never_tried_again(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as (nodes, admin, leader):
        with nodes.fs[leader].failing("fdatasync", "/orders-0/", errno.EIO) as fault:
            assert goes_on(nodes, ORDERS), "the others ack it"
            assert fault.met == 1
        wait_until(lambda: leader_and_isr(admin)[0] != leader and leader not in leader_and_isr(admin)[1])
        synced = nodes.fs[leader].calls_of("fdatasync", "/d1/")
        assert goes_on(nodes, ORDERS)
        assert nodes.fs[leader].calls_of("fdatasync", "/d1/") == synced
        assert nodes.fatal(leader) is None


def test_a_read_only_file_system_takes_its_log_dir_and_no_other(tmp_path: Path) -> None:
    with one_node(tmp_path) as (nodes, _, _):
        with nodes.fs[0].failing("write", "/d1/", errno.EROFS):
            said = refusal(nodes, ORDERS)
        assert isinstance(said, KafkaStorageError) and "/d1/" in str(said) and "read-only" in str(said)
        assert isinstance(refusal(nodes, ORDERS), KafkaStorageError), "it stays offline until a restart"
        assert goes_on(nodes)
        assert nodes.fatal(0) is None


def test_the_last_log_dir_ends_the_node(tmp_path: Path) -> None:
    with NodesHere(tmp_path, 1, 1, QUICK) as nodes:
        with Admin(nodes.bootstrap) as admin:
            admin.create_topic("orders", 1)
        with (
            nodes.fs[0].failing("fdatasync", "/orders-0/", errno.EIO),
            Producer(nodes.bootstrap, acks="all", delivery_timeout_ms=5_000) as producer,
            pytest.raises(PenstockError),
        ):
            producer.send("orders", value=b"lost").result(60)
        assert isinstance(nodes.fatal(0), OSError)


# -- a disk that is slow -----------------------------------------------------------------------------------------------


def test_a_slow_fsync_holds_up_its_own_partition_only(tmp_path: Path) -> None:
    """Longer than the session time-out: heartbeats go on, or the broker would be fenced, and stay so."""
    with one_node(tmp_path, broker_session_timeout_ms=SESSION_MS) as (nodes, admin, producer):
        with nodes.fs[0].standing_still("fdatasync", "/orders-0/") as fault:
            late = producer.send("orders", value=b"late")
            assert fault.was_met.wait(60)
            outlive_a_session(nodes)
            assert admin.list_topics() == ["orders", "other"]
            assert goes_on(nodes)
            assert not late.done()
        assert late.result(60).offset == 1


def test_many_slow_fsyncs_of_one_disk_hold_up_no_other_disk(tmp_path: Path) -> None:
    with one_node(tmp_path) as (nodes, admin, producer):
        admin.create_topic("slow", 12)
        with nodes.fs[0].standing_still("fdatasync", "/d1/") as fault:
            late = [producer.send("slow", value=b"late", partition=number) for number in range(12)]
            assert fault.was_met.wait(60)
            assert goes_on(nodes)
        for future in late:
            future.result(60)


def test_a_topic_whose_disk_hangs_is_deleted_without_holding_up_any_other_disk(tmp_path: Path) -> None:
    with one_node(tmp_path, broker_session_timeout_ms=SESSION_MS) as (nodes, admin, _):
        with nodes.fs[0].standing_still("rename", "-delete") as fault:
            admin.delete_topic("orders")
            assert fault.was_met.wait(60)
            outlive_a_session(nodes)
            assert goes_on(nodes)
            admin.create_topic("orders", 1)
        with Producer(nodes.bootstrap, acks="all", delivery_timeout_ms=60_000) as anew:
            assert anew.send("orders", value=b"new").result(60).offset == 0


# -- the clock ---------------------------------------------------------------------------------------------------------

BEFORE, AFTER = 86_400_000, 4_294_967_296_000 + 86_400_000
"""The second day of 1970, and one day after the last second that fits 32 bits: in 2106."""


@pytest.mark.parametrize("wall_ms", [BEFORE, AFTER])
def test_a_clock_that_jumps_deletes_nothing_and_breaks_nothing(tmp_path: Path, wall_ms: int) -> None:
    config = {"log_retention_check_interval_ms": 50, "log_retention_ms": 3_600_000}
    with one_node(tmp_path, **config) as (nodes, admin, producer):
        admin.create_topic("stamped", 1, config={"message.timestamp.type": "LogAppendTime"})
        for _ in range(10):
            producer.send("orders", value=KILOBYTE).result(60)
        nodes.clocks[0].set_wall(wall_ms)
        runs = retention_runs(nodes)
        wait_until(lambda: retention_runs(nodes) > runs + 2)
        assert len(values_of(nodes, ORDERS)) == 11
        assert producer.send("stamped", value=b"x").result(60).timestamp_ms // 60_000 == wall_ms // 60_000
        if wall_ms == BEFORE:  # by this clock every producer's is far ahead
            with pytest.raises(InvalidTimestampError, match="in the future"):
                producer.send("orders", value=b"refused").result(60)
        nodes.clocks[0].wall_shift_ms = 0
        assert goes_on(nodes, ORDERS)
        assert nodes.fatal(0) is None
