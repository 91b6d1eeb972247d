"""The page about processing, followed literally: an order service, whose programs are killed and stopped at work."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer
from penstock.testing import Cluster
from tests.support.decided import wait_topic_decided
from tests.support.waiting import wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "processing.md"
PATIENCE_S = 120
ORDERS = 300
CONFIG: dict[str, object] = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.session.timeout.ms": 10_000}
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, config=CONFIG) as running:
        with Admin(running.bootstrap) as admin:
            page = PAGE.read_text(encoding="utf-8")
            for topics, partitions in re.findall(r"(?m)^penstock topics create (.+) -p (\d)$", page):
                for topic in topics.split():
                    admin.create_topic(topic, int(partitions))
        yield running


@pytest.fixture
def start(tmp_path: Path, cluster: Cluster) -> Iterator[Start]:
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        (tmp_path / name).write_text(text.replace('"127.0.0.1:9192"', f'"{cluster.bootstrap}"'), encoding="utf-8")
    started: list[subprocess.Popen[bytes]] = []

    def program(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-W", "error", name]
        started.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield program
    for one in started:
        one.kill()
        one.communicate(timeout=PATIENCE_S)


def committed(cluster: Cluster, topic: str) -> list[Any]:
    wait_topic_decided(cluster.bootstrap, topic)
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[Any] = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            found += [record.value for record in consumer.poll(timeout_ms=200)]
        return found


def stopped(program: subprocess.Popen[bytes]) -> str:
    program.send_signal(signal.SIGTERM)
    output, errors = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, errors.decode()
    return output.decode()


def test_each_order_is_priced_and_shipped_once_or_is_a_dead_letter(start: Start, cluster: Cluster) -> None:
    orders: list[dict[str, Any]] = [{"id": n, "item": ("pen", "ink")[n % 2], "count": n} for n in range(ORDERS)]
    for number, fragile in ((3, "a little"), (5, "very")):
        orders[number]["fragile"] = fragile
    with Producer(cluster.bootstrap) as producer:
        for order in orders:
            producer.send("incoming", json.dumps(order).encode(), key=b"%d" % order["id"])
        for wrong in (b"no JSON", b'{"item": "gold", "count": 1}'):
            producer.send("incoming", wrong)
    first = start("price_orders.py")
    wait_until(lambda: len(committed(cluster, "priced")) > 0, PATIENCE_S)
    first.kill()
    pricing, shipping, again = start("price_orders.py"), start("ship_orders.py"), start("ship_again.py")
    wait_until(
        lambda: len(committed(cluster, "shipped")) >= ORDERS - 1 and len(committed(cluster, "shipped-dead")) > 0,
        PATIENCE_S,
    )
    wait_until(lambda: len(committed(cluster, "incoming-dead")) == 2, PATIENCE_S)
    for program in (pricing, shipping, again):
        assert "ProcessingStatistics(records=" in stopped(program)
    priced = [json.loads(value) for value in committed(cluster, "priced")]
    assert Counter(order["id"] for order in priced) == dict.fromkeys(range(ORDERS), 1)
    assert all(order["total"] == {"pen": 2, "ink": 7}[order["item"]] * order["count"] for order in priced)
    shipped = Counter(json.loads(value)["id"] for value in committed(cluster, "shipped"))
    assert shipped == {number: 1 for number in range(ORDERS) if number != 5}
    assert [json.loads(value)["id"] for value in committed(cluster, "shipped-dead")] == [5]
    assert Counter(json.loads(value)["id"] for value in committed(cluster, "shipped-retry")) == {3: 1, 5: 3}
