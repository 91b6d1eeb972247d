"""A node and its clients where the names that Linux alone has are missing, as on macOS: nothing of Linux is needed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.another_system import environment

PLAIN = """
import os, sys, urllib.request
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster

assert sys.platform == "darwin" and not hasattr(os, "fdatasync")
with Cluster(nodes=1) as cluster:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("t", 1)
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many("t", [b"%d" % number for number in range(20)]).result(60)
    page = urllib.request.urlopen(cluster.metrics_url(0), timeout=60).read()
    assert b"penstock_log_flushes" in page
    cluster.pause(0)
    cluster.resume(0)
    cluster.kill(0)
    cluster.start(0)
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        found = []
        while len(found) < 20:
            found += consumer.poll(timeout_ms=1_000)
    assert [record.value for record in found] == [b"%d" % number for number in range(20)]
    assert cluster.stop(0) == 0
"""
SECURED = """
from penstock import Admin
from penstock.testing import Cluster

with Cluster(nodes=1, secure=True) as cluster, Admin(cluster.bootstrap, **cluster.client_options) as admin:
    admin.create_topic("t", 1)
    assert "t" in admin.list_topics()
"""
ORPHAN = """
import os, signal
from penstock.testing import Cluster

cluster = Cluster(nodes=1, directory="cluster")
cluster.__enter__()
print(cluster.pid(0), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(script: str, directory: Path, expected: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(directory),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == expected, done.stderr[-4_000:]
    return done.stdout


@pytest.mark.parametrize("script", [PLAIN, pytest.param(SECURED, marks=pytest.mark.long)], ids=["plain", "secured"])
def test_a_node_and_its_clients_need_nothing_of_linux(tmp_path: Path, script: str) -> None:
    run(script, tmp_path)
    assert len((tmp_path / "syncs").read_text().split()) > 5, "the drive's cache is flushed, too"


def test_a_node_ends_soon_after_a_killed_parent_where_the_kernel_does_not_see_to_it(tmp_path: Path) -> None:
    pid = int(run(ORPHAN, tmp_path, expected=-signal.SIGKILL))
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, f"node {pid} outlives its parent"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """False for one that has ended and that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
