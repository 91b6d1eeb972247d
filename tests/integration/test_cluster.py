"""`penstock.testing.Cluster` as a user meets it: real nodes, killed, stopped, paused, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import PenstockError
from penstock.testing import Cluster, NodeFailedError
from tests.support.amount import at_night
from tests.support.forked import in_child
from tests.support.waiting import wait_until


def write(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many(topic, values).result(60)


def summed(cluster: Cluster, series: str, *, maximum: bool = False) -> float:
    """The sum of a series over the nodes that run, or the largest; a node that does not show it counts 0."""
    found = [0.0]
    for index in range(len(cluster)):
        if cluster.is_running(index):
            with urllib.request.urlopen(cluster.metrics_url(index), timeout=60) as answer:
                lines = answer.read().decode().splitlines()
            found += [float(line.split()[-1]) for line in lines if line.startswith(f"{series} ")]
    return max(found) if maximum else sum(found)


def read_all(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found: list[bytes | None] = []
        wait_until(lambda: bool(found.extend(r.value for r in consumer.poll(timeout_ms=200)) or len(found) >= count))
        return found


@pytest.mark.penstock(nodes=3, config={"log.segment.bytes": 1048576})
def test_three_nodes_keep_every_acked_record_when_one_is_killed(penstock_cluster: Cluster) -> None:
    cluster = penstock_cluster
    values = [b"%d" % number for number in range(1000)]
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", partitions=1, replication_factor=3)
        write(cluster, "orders", values)
        leader = admin.describe_topic("orders").partitions[0].leader_id
        cluster.kill(leader)
        assert not cluster.is_running(leader)
        assert read_all(cluster, "orders", 1000) == values
        wait_until(lambda: summed(cluster, "penstock_broker_sessions_expired_total") >= 1)
        wait_until(lambda: summed(cluster, "penstock_fenced_brokers", maximum=True) == 1)
        assert summed(cluster, "penstock_leader_elections_total") >= 1
        assert summed(cluster, "penstock_quorum_elections_won_total") >= 1
        wait_until(lambda: summed(cluster, 'penstock_requests_total{api="FetchFollower",listener_type="GRPC"}') >= 1)
        cluster.start(leader)
        wait_until(lambda: len(admin.describe_topic("orders").partitions[0].isr) == 3)
    assert read_all(cluster, "orders", 1000) == values


def test_the_fixture_is_one_ready_node(penstock_cluster: Cluster) -> None:
    with Admin(penstock_cluster.bootstrap) as admin:
        info = admin.describe_cluster()
    assert [(broker.node_id, broker.fenced) for broker in info.brokers] == [(0, False)]
    assert info.cluster_id == penstock_cluster.cluster_id
    assert penstock_cluster.directory(0).joinpath("meta.properties").exists()
    with urllib.request.urlopen(penstock_cluster.metrics_url(0), timeout=60) as answer:
        assert b"penstock_active_controllers 1.0" in answer.read()


def test_a_directory_that_is_kept_is_started_again_with_its_data(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path) as cluster:
        first_id = cluster.cluster_id
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
        write(cluster, "orders", [b"kept"])
    with Cluster(directory=tmp_path) as cluster:
        assert cluster.cluster_id == first_id
        assert read_all(cluster, "orders", 1) == [b"kept"]


def test_a_stopped_node_exits_0_and_starts_again(penstock_cluster: Cluster) -> None:
    assert penstock_cluster.stop(0) == 0
    penstock_cluster.start(0)
    with Admin(penstock_cluster.bootstrap) as admin:
        assert list(admin.list_topics()) == []


def test_a_forked_child_that_ends_leaves_the_cluster_alone(penstock_cluster: Cluster) -> None:
    topic = penstock_cluster.topic()
    in_the_child = in_child(
        lambda: (penstock_cluster.is_running(0), penstock_cluster.leader(topic), penstock_cluster.close())
    )
    assert in_the_child == "(True, 0, None)"
    assert in_child(lambda: penstock_cluster.__exit__(SystemExit, SystemExit(0), None)) == "None"
    assert penstock_cluster.is_running(0) and penstock_cluster.directory(0).exists()
    penstock_cluster.restart(0)
    with Producer(penstock_cluster.bootstrap) as producer:
        assert producer.send(topic, b"v").result(60).offset == 0


def test_a_paused_node_goes_on_where_it_stood(penstock_cluster: Cluster) -> None:
    penstock_cluster.pause(0)
    assert Path(f"/proc/{penstock_cluster.pid(0)}/stat").read_text().split()[2] == "T"
    penstock_cluster.resume(0)
    with Admin(penstock_cluster.bootstrap) as admin:
        assert list(admin.list_topics()) == []


def test_a_temporary_directory_is_gone_afterwards() -> None:
    with Cluster() as cluster:
        directory = cluster.directory(0)
        assert directory.exists()
    assert not directory.parent.parent.exists()
    with pytest.raises(PenstockError, match="is not open"):
        cluster.pid(0)


def test_a_bad_override_is_the_nodes_own_error_line() -> None:
    with pytest.raises(NodeFailedError, match=r"(?s)ended with code 2.*did you mean log\.segment\.bytes\?"):
        Cluster(config={"log.segment.byte": 1}).open()


HOLDS_A_CLUSTER = """
import sys, signal
from penstock.testing import Cluster
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
cluster = Cluster().open()
print(cluster.pid(0), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", at_night([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
def test_no_node_outlives_the_process_that_started_it(tmp_path: Path, number: signal.Signals) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLDS_A_CLUSTER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ) as holder:
        assert holder.stdout is not None
        node = int(holder.stdout.readline())
        assert Path(f"/proc/{node}").exists()
        holder.send_signal(number)
        holder.wait()
    wait_until(lambda: not Path(f"/proc/{node}").exists() or _is_zombie(node))


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_a_topic_that_does_not_exist_is_said_soon_and_a_failed_test_shows_the_logs_of_its_nodes(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text("def test_it(penstock_cluster):\n    penstock_cluster.leader('nope')\n")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1 and "UnknownTopicOrPartitionError" in done.stdout, done.stdout + done.stderr
    assert "penstock_cluster: node 0, " in done.stdout and "node 0 is ready" in done.stdout
    assert time.monotonic() - began < 60, "it waited a minute"
