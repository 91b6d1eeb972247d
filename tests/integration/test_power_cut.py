"""Every node dies at once and one disk is gone for good: the others have all acked records (ADR 0017)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties
from tests.support.python_nursery import quick_node_command
from tests.support.waiting import wait_until

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


def write(cluster: Cluster, value: bytes, count: int) -> list[bytes]:
    """So many records in each partition, all acked."""
    values = [value + b" %d" % number for number in range(count)]
    with Producer(cluster.bootstrap, acks="all") as producer:
        for tp in PARTITIONS:
            producer.send_many(tp.topic, list(values), partition=tp.partition).result(60)
    return values


def read(cluster: Cluster, count: int) -> dict[TopicPartition, list[bytes | None]]:
    found: dict[TopicPartition, list[bytes | None]] = {tp: [] for tp in PARTITIONS}
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(PARTITIONS)

        def is_all() -> bool:
            for record in consumer.poll(timeout_ms=200):
                found[TopicPartition(record.topic, record.partition)].append(record.value)
            return all(len(values) >= count for values in found.values())

        wait_until(is_all)
    return found


def replace_disk(cluster: Cluster, node: int) -> str:
    """The node's log dir is a new one; the directory id that is lost."""
    directory = cluster.directory(node)
    lost = read_meta_properties(OsFileSystem(), str(directory))
    assert lost is not None
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    command = quick_node_command(
        "format",
        "--config",
        str(cluster.config_path(node)),
        "--rejoin",
    )
    subprocess.run([*command, "--cluster-id", cluster.cluster_id], check=True, capture_output=True)
    return lost.directory_id


@pytest.mark.long  # simulation/cluster/test_lost_disk.py
def test_a_cluster_that_dies_at_once_and_loses_a_disk_has_all_acked_records(tmp_path: Path) -> None:
    with Cluster(nodes=3, directory=tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", len(PARTITIONS), 3, {"min.insync.replicas": 2})
        write(cluster, b"by all", 50)
        early, later, lost = 0, 1, 2
        cluster.kill(early)
        wait_until(lambda: all(early not in p.isr for p in admin.describe_topic("t").partitions))
        write(cluster, b"by two", 50)  # the disk of `early` has none of these
        for node in (later, lost):
            cluster.kill(node)
        lost_id = replace_disk(cluster, lost)
        for node in (early, later):
            cluster.start(node, wait=False)
        wait_until(lambda: [p.leader_id for p in admin.describe_topic("t").partitions] == [later] * len(PARTITIONS))
        expected = [b"by all %d" % number for number in range(50)] + [b"by two %d" % number for number in range(50)]
        assert read(cluster, 100) == dict.fromkeys(PARTITIONS, expected)
        cluster.start(lost, "--lost-log-dirs", lost_id)
        wait_until(lambda: all(set(p.isr) == {0, 1, 2} and not p.elr for p in admin.describe_topic("t").partitions))
        write(cluster, b"again", 1)
        assert read(cluster, 101) == {tp: [*expected, b"again 0"] for tp in PARTITIONS}
