"""The page about consumer groups, followed literally: its programs share a topic, are killed, and go on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import Admin, Producer, TopicPartition
from penstock.testing import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "consumer-groups.md"
COUNT = 600
PATIENCE_S = 120
CONFIG: dict[str, object] = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.session.timeout.ms": 10_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, config=CONFIG) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic("orders", 6)
        yield running


class Program:
    """One of the page's programs in a process of its own."""

    def __init__(self, folder: Path, name: str, number: int) -> None:
        self._output = folder / f"{name}-{number}.out"
        with open(self._output, "wb") as out:
            self.process = subprocess.Popen([sys.executable, name], cwd=folder, stdout=out, stderr=subprocess.PIPE)

    @property
    def records(self) -> list[tuple[int, int]]:
        lines = self._output.read_text(encoding="utf-8").splitlines(keepends=True)
        found = [line.split() for line in lines if line.endswith("\n")]
        return [(int(partition), int(offset)) for partition, offset, _ in found]

    def end(self, number: signal.Signals) -> str:
        self.process.send_signal(number)
        _, output = self.process.communicate(timeout=PATIENCE_S)
        return output.decode()


@pytest.fixture
def start(tmp_path: Path, cluster: Cluster) -> Iterator[Callable[[str], Program]]:
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / name).write_text(text.replace('"127.0.0.1:9192"', f'"{cluster.bootstrap}"'), encoding="utf-8")
    started: list[Program] = []

    def begin(name: str) -> Program:
        started.append(Program(tmp_path, name, len(started)))
        return started[-1]

    yield begin
    for program in started:
        program.process.kill()
        program.process.communicate()


def produce(cluster: Cluster) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send_many("orders", [b"%d" % n for n in range(COUNT)], keys=[b"%d" % n for n in range(COUNT)])


def wait(check: Callable[[], bool], *programs: Program) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, [len(program.records) for program in programs]
        assert all(program.process.poll() is None for program in programs), "a program has ended"
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["share.py", "careful.py"])
def test_two_programs_share_a_topic_and_the_next_one_goes_on(
    name: str, cluster: Cluster, start: Callable[[str], Program]
) -> None:
    produce(cluster)
    one = start(name)
    wait(lambda: len(set(one.records)) >= COUNT, one)
    two = start(name)
    before = len(one.records)
    while not two.records:  # until it has its share
        produce(cluster)
        time.sleep(0.5)
        wait(lambda: len(one.records) > before, one, two)
    assert not set(one.records) & set(two.records), "a partition is read by one at a time"
    assert "KeyboardInterrupt" in two.end(signal.SIGINT)
    produce(cluster)
    with Admin(cluster.bootstrap) as admin:
        ends = admin.list_offsets([TopicPartition("orders", number) for number in range(6)])
    total = sum(info.offset for info in ends.values())
    wait(lambda: len(set(one.records) | set(two.records)) == total, one)
    one.end(signal.SIGKILL)
    produce(cluster)
    three = start(name)
    everything = set(one.records) | set(two.records)
    wait(lambda: len(everything | set(three.records)) == total + COUNT, three)
    assert len(three.records) < total, "it went on where they had stopped, and did not begin anew"
