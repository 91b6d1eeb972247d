"""One hostile address at a node's listener: silent connections, and streams that never read."""

from __future__ import annotations

import re
import socket
import threading
import urllib.request
from collections.abc import Iterator

import grpc
import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.pb import broker_pb2 as pb
from penstock.testing import Cluster
from tests.support.grpc_stub import Stub
from tests.support.waiting import wait_until

CONNECTIONS_MAX = 40
CUT = 'penstock_tcp_connections_cut_total{{listener="BROKER",reason="{}"}}'
OPEN = 'penstock_tcp_connections{listener="BROKER"}'
ANSWERS = 'penstock_memory_used_bytes{kind="answers"}'
RECORDS, RECORD_BYTES = 40, 100_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "max.connections": CONNECTIONS_MAX,
        "connections.max.write.stall.ms": 1_000,
        "queued.max.response.bytes": 4 << 20,
    }
    with Cluster(config=config) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic("t", partitions=1)
        with Producer(running.bootstrap) as producer:
            for _ in range(RECORDS):
                producer.send("t", value=b"x" * RECORD_BYTES)
        yield running


def reading(cluster: Cluster, name: str) -> float:
    with urllib.request.urlopen(cluster.metrics_url(0), timeout=60) as answer:
        found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def test_silent_connections_are_counted_and_cut_and_who_was_here_before_goes_on(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    with Producer(cluster.bootstrap) as producer:
        before = producer.send("t", value=b"before").result(60)
        silent = [socket.create_connection((host, int(port))) for _ in range(10 * CONNECTIONS_MAX)]
        try:
            # One look finds nearly all, where the machine is quiet. Those that a late look misses end by themselves.
            wait_until(lambda: reading(cluster, CUT.format("limit")) >= CONNECTIONS_MAX)
            wait_until(lambda: reading(cluster, OPEN) <= CONNECTIONS_MAX)  # with the producer's
            assert producer.send("t", value=b"meanwhile").result(60).offset == before.offset + 1
        finally:
            for connection in silent:
                connection.close()


def test_streams_that_never_read_cost_their_share_and_are_cut_and_others_are_served(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        topic_id = admin.describe_topic("t").topic_id
    wanted = pb.FetchPartition(
        topic="t", topic_id=topic_id, current_leader_epoch=-1, last_fetched_epoch=-1, max_bytes=50 << 20
    )
    request = pb.FetchRequest(replica_id=-1, broker_epoch=-1, max_bytes=50 << 20, partitions=[wanted])
    silent = threading.Event()

    def once() -> Iterator[pb.FetchRequest]:
        yield request
        silent.wait()

    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
    with grpc.insecure_channel(cluster.bootstrap, options=options) as channel:
        streams = [Stub(channel, "Broker").Fetch(once()) for _ in range(30)]
        wait_until(lambda: reading(cluster, ANSWERS) > 1 << 20)
        assert reading(cluster, ANSWERS) < (4 << 20) + 30 * 3 * RECORD_BYTES
        wait_until(lambda: reading(cluster, CUT.format("stalled")) >= 1)
        silent.set()
        for stream in streams:
            stream.cancel()
    with Consumer(cluster.bootstrap) as consumer:
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning()
        found = 0
        while found < RECORDS:
            found += len(consumer.poll(timeout_ms=1_000))
    wait_until(lambda: reading(cluster, ANSWERS) == 0)
