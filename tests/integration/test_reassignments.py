"""Replicas move between real nodes by the commands, under a producer of acks=all; a destination is killed meanwhile."""

from __future__ import annotations

import json
import threading

import pytest

from penstock import Consumer, Producer, TopicPartition
from penstock.testing import Cluster, NodeFailedError
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

ORDERS = TopicPartition("orders", 0)
NODES = 4
"""Three, and one that joins."""


def has_data(cluster: Cluster, node: int) -> bool:
    return (cluster.directory(node) / "orders-0").exists()


def content(cluster: Cluster, node: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((cluster.directory(node) / "orders-0").glob("*.log")))


def test_a_partition_moves_by_the_commands_and_loses_and_doubles_nothing() -> None:
    acked: list[tuple[int, bytes]] = []
    ends = threading.Event()

    def produce() -> None:
        with Producer(cluster.bootstrap, acks="all") as producer:
            while not ends.is_set():
                value = b"%d" % len(acked)
                acked.append((producer.send("orders", value=value, partition=0).result(60).offset, value))

    def moved(*target: int) -> None:
        done = penstock("reassignments", "start", f"orders-0={','.join(map(str, target))}", "--wait", *at)
        assert done.returncode == 0, done.stderr
        wait_until(lambda: [node for node in range(NODES) if has_data(cluster, node)] == sorted(target))

    with Cluster(nodes=NODES - 1) as cluster:
        at = "--bootstrap", cluster.bootstrap
        cluster.topic("orders", 1, 3, {"min.insync.replicas": "2"})
        first = json.loads(penstock("topics", "describe", "orders", "--json", *at).stdout)["partitions"][0]["replicas"]
        with pytest.raises(NodeFailedError, match="unknown key"):
            cluster.add_node({"no.such.key": 1})
        spare = cluster.add_node()
        assert spare == len(first)
        writing = threading.Thread(target=produce)
        writing.start()
        try:
            moved(spare, first[1], first[2])
            cluster.kill(first[0])
            begun = penstock("reassignments", "start", f"orders-0={first[0]},{first[1]},{spare}", *at)
            assert begun.returncode == 0, begun.stderr
            (move,) = json.loads(penstock("reassignments", "list", "--json", *at).stdout)
            assert (move["adding_replicas"], move["removing_replicas"]) == ([first[0]], [first[2]])
            cluster.start(first[0])
            wait_until(lambda: penstock("reassignments", "list", "--json", *at).stdout.strip() == b"[]", 60)
            cluster.wait_in_sync()
            enough = len(acked) + 20
            wait_until(lambda: len(acked) >= enough)
        finally:
            ends.set()
            writing.join(60)
        nothing = penstock("reassignments", "cancel", "orders", *at)
        assert (
            nothing.returncode == 0 and b"orders: no partition is being reassigned; there is nothing" in nothing.stderr
        )
        mistaken = penstock("reassignments", "delete", "orders-0", *at)
        assert mistaken.returncode == 2 and b"orders-0 is no topic; write the partition as orders:0" in mistaken.stderr
        refused = penstock("reassignments", "delete", "orders:0", *at)
        assert refused.returncode == 1 and b"is not being reassigned" in refused.stderr
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([ORDERS])
            read: list[tuple[int, bytes | None]] = []
            while len(read) < len(acked):
                read += [(record.offset, record.value) for record in consumer.poll(60_000)]
        assert read == acked
        replicas = (first[0], first[1], spare)
        wait_until(lambda: len({content(cluster, node) for node in replicas}) == 1)
        assert not has_data(cluster, first[2])
