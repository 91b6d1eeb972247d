"""`penstock elect-leaders` on real nodes: at the price of records where no in-sync replica is left, then back again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.client.admin.admin_types import PartitionInfo
from penstock.testing import Cluster
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

TP = TopicPartition("t", 0)


def elect(cluster: Cluster, *arguments: str, answer: bytes = b"") -> tuple[int, str, str]:
    done = penstock("elect-leaders", *arguments, stdin=answer, bootstrap=cluster.bootstrap)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def write(cluster: Cluster, *values: bytes) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many("t", list(values)).result(60)


def read(cluster: Cluster) -> list[bytes | None]:
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        end = consumer.end_offsets([TP])[TP]
        found: list[bytes | None] = []
        wait_until(lambda: bool(found.extend(r.value for r in consumer.poll(timeout_ms=200)) or len(found) >= end))
        return found


@pytest.mark.penstock(nodes=3)
def test_a_partition_gets_a_leader_at_the_price_of_records_and_its_preferred_one_back(
    penstock_cluster: Cluster,
) -> None:
    cluster = penstock_cluster

    def partition() -> PartitionInfo:
        return admin.describe_topic("t").partitions[0]

    with Admin(cluster.bootstrap) as admin:
        preferred, other = admin.create_topic("t", 1, 2, {"min.insync.replicas": 1}).partitions[0].replicas
        write(cluster, b"both")
        cluster.kill(other)
        wait_until(lambda: partition().isr == (preferred,))
        write(cluster, b"preferred alone")
        code, out, err = elect(cluster, "t", "--unclean", "--yes")
        assert (code, out, err) == (0, "topic\tpartition\tleader\n", ""), "not while an ISR member lives"
        cluster.kill(preferred)
        cluster.start(other)
        wait_until(lambda: partition().leader_id == -1)
        code, out, err = elect(cluster, "t")
        assert code == 1 and f"broker {preferred} is fenced" in err
        code, out, err = elect(cluster, "t", "--unclean", answer=b"n\n")
        assert code == 2 and "stdin is no terminal to ask on: add --yes to agree" in err and partition().leader_id == -1
        code, out, err = elect(cluster, "--all", "--unclean", "--yes", "--json")
        found: Any = json.loads(out)
        assert (code, found) == (
            0,
            [{"topic": "t", "partition": 0, "leader_id": other, "elected": True, "error": None}],
        )
        write(cluster, b"other alone")
        assert read(cluster) == [b"both", b"other alone"]
        cluster.start(preferred)
        wait_until(lambda: set(partition().isr) == {preferred, other})
        assert partition().leader_id == other
        assert elect(cluster, "t") == (0, f"topic\tpartition\tleader\nt\t0\t{preferred}\n", "")
        assert partition().leader_id == preferred, "every broker has heard of it"
        assert read(cluster) == [b"both", b"other alone"]
        assert elect(cluster, "t", "-p", "3")[0] == 1
