"""The pages of ops/procedures/, followed command by command on one real cluster; each leaves it whole."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.procedure import Procedure
from tests.support.waiting import wait_until

TOPIC, PARTITIONS = "orders", 4
VALUES = [b"%d" % number for number in range(300)]
DEGRADED, CRITICAL = 3, 4
LONG = "PENSTOCK_LONG_TESTS"
long = pytest.mark.skipif(LONG not in os.environ, reason=f"the suite has the procedures of lost voters; set {LONG}=1")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[Cluster]:
    """Node 3 of the pages has two log dirs."""
    two = [str(directory / "node-2" / name) for name in ("data", "data2")]
    steady = {"broker.session.timeout.ms": 4_000, "replica.lag.time.max.ms": 4_000}
    with Cluster(nodes=3, config=steady, directory=directory, node_configs=[{}, {}, {"log.dirs": two}]) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        write(running, VALUES)
        yield running


def write(cluster: Cluster, values: list[bytes]) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        for value in values:
            producer.send(TOPIC, value=value)
        producer.flush()


def everything(cluster: Cluster) -> list[bytes]:
    """All values that a consumer reads from the beginning, without a limit of its own: it waits for as many as there
    were."""
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        found: list[bytes] = []
        wait_until(
            lambda: bool(found.extend(map(value_of, consumer.poll(timeout_ms=200))) or len(found) >= len(VALUES))
        )
    return sorted(found, key=int)


def value_of(record: ConsumerRecord) -> bytes:
    assert record.value is not None
    return record.value


def lose_disks(cluster: Cluster, *indexes: int) -> None:
    """The machines die, and new ones have empty disks."""
    for index in indexes:
        if cluster.is_running(index):
            cluster.kill(index)
        for name in ("data", "data2"):
            shutil.rmtree(cluster.directory(index).parent / name, ignore_errors=True)


@long
def test_lose_a_disk(cluster: Cluster, tmp_path: Path) -> None:
    page = Procedure(cluster, "lose-a-disk.md", tmp_path)
    stop, *rest = page.commands()
    page.follow([stop])
    shutil.rmtree(cluster.directory(2).parent / "data2")
    page.follow(rest)
    assert everything(cluster) == VALUES


def test_replace_a_node(cluster: Cluster, tmp_path: Path) -> None:
    lose_disks(cluster, 2)
    with Admin(cluster.bootstrap) as admin:  # it is critical until its leaderships have moved
        wait_until(lambda: admin.cluster_health().status == "degraded")
    page = Procedure(cluster, "replace-a-node.md", tmp_path)
    page.follow(page.commands())
    assert page.said[0][1] == DEGRADED and cluster.cluster_id in page.said[1][2]
    assert everything(cluster) == VALUES


@long
def test_lose_the_quorum_for_a_time(cluster: Cluster, tmp_path: Path) -> None:
    for index in (1, 2):
        cluster.kill(index)
    page = Procedure(cluster, "lose-the-quorum.md", tmp_path)
    page.follow(page.commands(before="## If the disks"))
    assert page.said[0][1] == CRITICAL and "quorum" in page.said[0][2]
    assert everything(cluster) == VALUES


def test_lose_the_quorum_for_good(cluster: Cluster, tmp_path: Path) -> None:
    lose_disks(cluster, 1, 2)
    page = Procedure(cluster, "lose-the-quorum.md", tmp_path)
    page.follow(page.commands(after="## If the disks", before="## If the voters"))
    assert TOPIC in page.said[-1][2]
    assert everything(cluster) == VALUES, "node 1 was in sync with every partition"


@long
def test_backup_by_hand(cluster: Cluster, tmp_path: Path) -> None:
    page = Procedure(cluster, "backup-by-hand.md", tmp_path)
    page.follow(page.commands(after="**The whole cluster**", before="Restore it"))
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(TOPIC)
    page.follow(page.commands(after="Restore it"))
    assert everything(cluster) == VALUES
    page.follow(page.commands(before="Write it back"))
    with Admin(cluster.bootstrap) as admin:
        admin.delete_topic(TOPIC)
    page.follow(page.commands(after="Write it back", before="**The whole cluster**"))
    assert everything(cluster) == VALUES


@long
def test_lose_a_quorum_of_disks_for_good(cluster: Cluster, tmp_path: Path) -> None:
    """The last one: the cluster's voters are disks from then on."""
    with Admin(cluster.bootstrap) as admin:
        admin.make_quorum_dynamic()
        before = {voter.node_id: voter.directory_id for voter in admin.describe_quorum().voters}
    cluster.stop(2)
    file = cluster.config_path(2)
    voters = re.compile(r"^controller\.quorum\.voters = .*$", re.MULTILINE)
    addresses = re.findall(r"@([^\"]+)", voters.findall(file.read_text())[0])
    file.write_text(voters.sub(f"controller.quorum.bootstrap.servers = {json.dumps(addresses)}", file.read_text()))
    lose_disks(cluster, 1, 2)
    page = Procedure(cluster, "lose-the-quorum.md", tmp_path)
    page.follow(page.commands(after="## If the disks", before="4. Start each once"))
    page.follow(page.commands(after="4. Start each once", before="5. A node that"))
    page.follow(page.commands(after="## If the voters"))
    with Admin(cluster.bootstrap) as admin:
        after = {voter.node_id: voter.directory_id for voter in admin.describe_quorum().voters}
        wait_until(lambda: admin.cluster_health().status == "healthy")
    assert after.keys() == before.keys() and (after[0], after[1]) == (before[0], before[1]) and after[2] != before[2]
    assert everything(cluster) == VALUES, "node 1 was in sync with every partition"
