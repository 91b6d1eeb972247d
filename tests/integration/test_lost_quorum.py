"""A real cluster that loses its quorum, and a broker that hangs: what the command line and the metrics say then.

The tests share one cluster, and each leaves it whole.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin
from penstock.testing import Cluster
from tests.support import command_line
from tests.support.python_nursery import quick_python
from tests.support.waiting import wait_until

MAIN = "from penstock.cli.main import main; main()"
DEGRADED, CRITICAL = 3, 4
ANSWER_S = 45
"""Below the minute that a client waits by default, on a busy machine, too: nothing here waits for what is lost."""

Result = subprocess.CompletedProcess[bytes]
Run = Callable[..., list[Result]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    steady = {"broker.session.timeout.ms": 4_000, "replica.lag.time.max.ms": 4_000}
    with Cluster(nodes=3, config=steady) as running, Admin(running.bootstrap) as admin:
        admin.create_topic("orders", partitions=6, replication_factor=3)
        yield running


@pytest.fixture
def penstock(cluster: Cluster) -> Run:
    def run(*commands: str) -> list[Result]:
        """One after the other."""
        return [command_line.penstock(*command.split(), bootstrap=cluster.bootstrap) for command in commands]

    return run


def shown(cluster: Cluster, index: int) -> dict[str, float]:
    """The metrics of a node that have no labels."""
    with urllib.request.urlopen(cluster.metrics_url(index), timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line[0] != "#" and "{" not in line}


def checks(result: Result) -> dict[str, Any]:
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def wait_whole(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        wait_until(lambda: admin.cluster_health().status == "healthy")


class Background:
    """A command that runs on while the cluster is ill; what it says goes to a file."""

    def __init__(self, cluster: Cluster, folder: Path, *arguments: str, stdin: bytes = b"") -> None:
        self.said = folder / f"{arguments[0]}.stderr"
        command = [quick_python(), "-c", MAIN, *arguments, "--bootstrap", cluster.bootstrap]
        given = folder / f"{arguments[0]}.stdin"
        given.write_bytes(stdin)
        with given.open("rb") as lines, self.said.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=lines, stdout=subprocess.PIPE, stderr=errors)

    def says(self, text: str) -> bool:
        return text in self.said.read_text(encoding="utf-8")

    def exit_code(self) -> int:
        """Once it ends by itself."""
        self.process.communicate(timeout=60)
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_a_node_whose_two_peers_are_dead_says_so_everywhere_and_at_once(
    cluster: Cluster, penstock: Run, tmp_path: Path
) -> None:
    wait_whole(cluster)
    well = penstock("cluster health", "cluster describe", "quorum describe")
    assert [result.returncode for result in well] == [0, 0, 0]
    cluster.kill(1)
    cluster.kill(2)
    wait_until(lambda: shown(cluster, 0)["penstock_broker_fenced"] == 1)
    wait_until(lambda: shown(cluster, 0)["penstock_under_min_isr_partitions"] > 0)
    wait_until(lambda: shown(cluster, 0)["penstock_metadata_age_seconds"] >= 3)
    metrics, began = shown(cluster, 0), time.monotonic()
    described, health, quorum, topic = penstock(
        "cluster describe --json", "cluster health --json", "quorum describe --json", "topics describe orders"
    )
    assert time.monotonic() - began < ANSWER_S
    assert metrics["penstock_metadata_age_seconds"] >= 2 and metrics["penstock_quorum_leader_id"] == -1
    assert metrics["penstock_under_min_isr_partitions"] == metrics["penstock_leaders"] > 0

    assert described.returncode == health.returncode == quorum.returncode == CRITICAL
    info = json.loads(described.stdout)
    assert info["controller_id"] == -1 and info["standing"]["fenced"]
    assert info["standing"]["metadata_age_ms"] >= 2_000
    assert b"no controller: what is shown is old" in described.stderr
    assert json.loads(quorum.stdout)["only_own_view"]
    found = checks(health)
    assert {name for name, check in found.items() if check["status"] == "critical"} >= {
        "quorum",
        "controller",
        "offline partitions",
        "min.insync.replicas",
    }
    assert len(found["brokers"]["details"]) == 3
    assert "orders-" in " ".join(found["min.insync.replicas"]["details"])
    assert b"s old: no controller answers the broker" in topic.stderr and topic.returncode == 0

    producing = Background(cluster, tmp_path, "produce", "orders", stdin=b"\n".join(b"%d" % n for n in range(1000)))
    reading = Background(cluster, tmp_path, "consume", "orders", "--from-beginning", "-n", "1")
    try:
        for command in (producing, reading):
            wait_until(lambda command=command: command.says("penstock: waiting for"))
            wait_until(lambda command=command: command.says("the cluster: the quorum has no leader"))
            assert command.says("orders-")
        assert producing.says("a producer id, which brokers get from the controller")
        cluster.start(1, wait=False)
        cluster.start(2)
        assert producing.exit_code() == 0 and producing.says("penstock: going on after")
        assert reading.exit_code() == 0
    finally:
        producing.kill()
        reading.kill()
    wait_whole(cluster)
    assert shown(cluster, 0)["penstock_under_min_isr_partitions"] == 0


def test_a_broker_that_hangs_is_named_and_the_answer_does_not_wait_for_it(cluster: Cluster, penstock: Run) -> None:
    wait_whole(cluster)
    with Admin(cluster.bootstrap) as admin:
        index = next(i for i in range(3) if i != admin.describe_quorum().leader_id)
    cluster.pause(index)
    try:
        wait_until(lambda: shown(cluster, (index + 1) % 3)["penstock_fenced_brokers"] == 1)
        began = time.monotonic()
        health, described = penstock("cluster health --json", "cluster describe")
        assert health.returncode == described.returncode == DEGRADED and time.monotonic() - began < ANSWER_S
        assert b"\tfenced\n" in described.stdout
        (found,) = checks(health)["brokers"]["details"]
        assert f"broker {index} " in found and "does not answer" in found
    finally:
        cluster.resume(index)
    wait_whole(cluster)
