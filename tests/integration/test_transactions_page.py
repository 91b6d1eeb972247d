"""The page about transactions, followed literally: its programs move money, and copy each word once though killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer
from penstock.testing import Cluster
from tests.support.decided import wait_topic_decided
from tests.support.waiting import wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transactions.md"
PATIENCE_S = 120
COUNT = 1_000
CONFIG: dict[str, object] = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.session.timeout.ms": 10_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, config=CONFIG) as running:
        with Admin(running.bootstrap) as admin:
            for topic in ("accounts", "orders", "words", "shouts"):
                admin.create_topic(topic, 3)
        yield running


@pytest.fixture
def programs(tmp_path: Path, cluster: Cluster) -> Path:
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / name).write_text(text.replace('"127.0.0.1:9192"', f'"{cluster.bootstrap}"'), encoding="utf-8")
    return tmp_path


def committed(cluster: Cluster, topic: str) -> list[bytes | None]:
    wait_topic_decided(cluster.bootstrap, topic)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes | None] = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            found += [record.value for record in consumer.poll(timeout_ms=200)]
        return found


def test_both_records_of_the_transfer_are_there(programs: Path, cluster: Cluster) -> None:
    subprocess.run([sys.executable, "transfer.py"], cwd=programs, check=True, timeout=PATIENCE_S)
    assert sorted(committed(cluster, "accounts"), key=str) == [b"+100", b"-100"]


def test_a_day_is_imported_once_however_often_the_program_runs(programs: Path, cluster: Cluster) -> None:
    """The day that is run again makes no second copy."""
    said = [
        subprocess.run(
            [sys.executable, "import_day.py", day],
            cwd=programs,
            check=True,
            timeout=PATIENCE_S,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        for day in ("0", "0", "3")
    ]
    assert said == ["committed 2000\n", "was committed before 2000\n", "committed 2000\n"]
    expected = {b"day %d, part %d, row %d" % (d, p, r): 1 for d in (0, 3) for p in (0, 1) for r in range(1_000)}
    assert Counter(committed(cluster, "orders")) == expected


def send_words(cluster: Cluster, numbers: range) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("words", [b"word %d" % n for n in numbers], keys=[b"%d" % n for n in numbers])


def test_each_word_is_shouted_once_though_the_program_is_killed(programs: Path, cluster: Cluster) -> None:
    """Each program finds words that none before it has read, so each is ended at work, not while it starts."""
    for turn, number in enumerate((signal.SIGKILL, signal.SIGINT, signal.SIGKILL)):
        before = len(committed(cluster, "shouts"))
        send_words(cluster, range(turn * COUNT, (turn + 1) * COUNT))
        program = subprocess.Popen([sys.executable, "shout.py"], cwd=programs, stderr=subprocess.PIPE)
        try:
            wait_until(lambda before=before: len(committed(cluster, "shouts")) > before, PATIENCE_S)
        finally:
            program.send_signal(number)
            _, output = program.communicate(timeout=PATIENCE_S)
        assert number == signal.SIGKILL or (program.returncode, output) == (0, b"")
    program = subprocess.Popen([sys.executable, "shout.py"], cwd=programs, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(committed(cluster, "shouts")) >= 3 * COUNT, PATIENCE_S)
    finally:
        program.kill()
        program.wait(PATIENCE_S)
    assert Counter(committed(cluster, "shouts")) == {b"WORD %d" % n: 1 for n in range(3 * COUNT)}
