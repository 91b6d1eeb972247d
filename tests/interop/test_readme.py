"""The page that a user sees first, with Kafka's clients: its blocks run as they stand, at another address."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Producer
from penstock.testing import Cluster

PAGE = Path(__file__).resolve().parents[2] / "README.md"
ADDRESS, TOPIC, RECORDS = "127.0.0.1:9092", "orders", 1000


def test_kcat_and_confluent_kafka_read_what_our_own_client_wrote_and_write_more() -> None:
    pytest.importorskip("confluent_kafka")
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    section = re.search(
        r"^## From Kafka's clients\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert section is not None
    shell, python = re.findall(r"```\w*\n(.*?)```", section[1], re.DOTALL)
    assert ADDRESS in shell and ADDRESS in python
    with Cluster(3) as cluster:
        cluster.topic(TOPIC, partitions=6)
        with Producer(cluster.bootstrap) as producer:
            producer.send_many(TOPIC, [b"%d" % n for n in range(RECORDS)])
        at = cluster.kafka_bootstrap.split(",")[0]
        counted = run(["bash", "-ec", shell.replace(ADDRESS, at)])
        assert int(counted) == RECORDS + 10
        first, *records = run([sys.executable, "-c", python.replace(ADDRESS, at)]).splitlines()
        again = run([sys.executable, "-c", python.replace(ADDRESS, at)]).splitlines()[1:]
    assert re.fullmatch(r"None \d+", first)
    assert len(records) == len(again) == 10
    assert all(re.fullmatch(r"\d+ b'\w+'", record) for record in (*records, *again))
    assert not set(records) & set(again), "the second consumer goes on where the first one stopped"


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
