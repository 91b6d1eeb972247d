"""The page for users' own tests, followed literally: its files are written, and pytest runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Producer
from penstock.errors import TimedOutError
from penstock.testing import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-tests.md"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


def test_the_files_of_the_page_pass_as_they_stand(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    pytest.importorskip("confluent_kafka")
    files = {name[1]: block for block in blocks if (name := re.match(r"# (\w+\.py)\n", block))}
    assert set(files) == {
        "test_orders.py",
        "conftest.py",
        "test_with_kafkas_client.py",
        "test_alone.py",
        "test_secured.py",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr


def test_a_node_that_was_down_or_stood_still_is_in_sync_behind_the_block(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    assert cluster.topic("named") == "named" and topic != cluster.topic()
    with Producer(cluster.bootstrap, acks="all") as producer:
        first = cluster.leader(topic)
        with cluster.down(first):
            assert not cluster.is_running(first) and cluster.leader(topic) != first
            producer.send(topic, b"v", partition=0).result(60)
            with pytest.raises(TimedOutError, match=r"not every replica is in sync after 0 s: .* in sync"):
                cluster.wait_in_sync(timeout_s=0)
        assert cluster.is_running(first)
        controller = cluster.controller()
        with cluster.paused(controller):
            producer.send(topic, b"v", partition=0).result(60)
        cluster.wait_in_sync(topic, timeout_s=0)


def test_a_partition_that_is_not_there_is_named(cluster: Cluster) -> None:
    topic = cluster.topic(replication_factor=1)
    with pytest.raises(ValueError, match=f"{topic} has the partitions 0 to 0, not 4"):
        cluster.leader(topic, 4)
