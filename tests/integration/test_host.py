"""`penstock host` with real nodes: they live, die, are started again, and are restarted in order under a producer."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.local_nodes.node_ports import KAFKA_PORT_STEP
from penstock.node import PARENT_VARIABLE, node_command
from penstock.testing.ports import free_ports

TIMEOUT_S = 90
NODES = (10, 11, 12)


@dataclass
class Here:
    """A host of three nodes, all of them controllers."""

    config: Path
    port: int
    page: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + at}" for at in range(3))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "host", *words]
        return subprocess.run(
            [*command, "--config", str(self.config)], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )

    def nodes(self) -> dict[int, dict[str, Any]]:
        said = self.run("status", "--json").stdout
        return {one["node"]: one for one in json.loads(said)["nodes"]} if said else {}  # it has not begun to answer

    def until(self, holds: Callable[[dict[int, dict[str, Any]]], bool]) -> dict[int, dict[str, Any]]:
        deadline, pause = time.monotonic() + TIMEOUT_S, threading.Event()
        while not holds(nodes := self.nodes()):
            assert time.monotonic() < deadline, (nodes, self.log.read_text("utf-8")[-4_000:])
            pause.wait(0.1)
        return nodes

    def scrape(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/metrics", timeout=60) as answer:
            text: str = answer.read().decode()
        return text


def all_run(nodes: dict[int, dict[str, Any]]) -> bool:
    return len(nodes) == len(NODES) and all(one["state"] == "running" for one in nodes.values())


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("host")
    (ports,) = free_ports(1)
    port, page = min(ports.broker, 65_000 - KAFKA_PORT_STEP), ports.metrics
    voters = ",".join(f"{10 + at}@127.0.0.1:{port + 100 + at}" for at in range(3))
    config = folder / "host.toml"
    config.write_text(
        f'[host]\nnodes = 3\nfirst.node.id = 10\naddress = "127.0.0.1"\nport = {port}\nkafka.port = 0\n'
        "controllers = 3\n"
        f'directory = "{folder}/d"\nmetrics.listener = "127.0.0.1:{page}"\n'
        f'[node]\ncontroller.quorum.voters = "{voters}"\nreplica.placement.one.per.rack = false\n'
        "default.replication.factor = 3\nmin.insync.replicas = 2\nbroker.session.timeout.ms = 2000\n",
        encoding="utf-8",
    )
    done = subprocess.run(node_command("host-format", "--config", str(config)), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    log = folder / "log"
    with log.open("wb") as written:
        environ = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        command = node_command("host-start", "--config", str(config))
        process = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, env=environ)
    here = Here(config, port, page, process, log)
    try:
        here.until(all_run)
        yield here
    finally:
        process.kill()
        process.wait()


class Writer(threading.Thread):
    """Writes until it is told to stop; what was acked is in `acked`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.brokers, self.ends = bootstrap, threading.Event()
        self.acked: list[bytes] = []
        self.longest_s = 0.0

    def run(self) -> None:
        with Producer(self.brokers) as producer:
            last = time.monotonic()
            while not self.ends.wait(0.01):
                value = b"%d" % len(self.acked)
                producer.send("kept", value=value, partition=0).result(TIMEOUT_S)
                self.acked.append(value)
                now = time.monotonic()
                self.longest_s, last = max(self.longest_s, now - last), now


def test_nodes_that_die_and_a_restart_in_order_lose_nothing(host: Here) -> None:
    with Admin(host.bootstrap) as admin:
        admin.create_topic("kept", partitions=3)
    writer = Writer(host.bootstrap)
    writer.start()
    killed = host.nodes()[11]["pid"]
    os.kill(killed, signal.SIGKILL)
    nodes = host.until(lambda nodes: nodes[11]["restarts"] == 1 and all_run(nodes))
    assert nodes[11]["pid"] != killed and nodes[11]["last_end"] == "signal 9" and nodes[10]["restarts"] == 0
    before = {node: one["pid"] for node, one in nodes.items()}
    done = host.run("restart", "--bootstrap", host.bootstrap)
    assert done.returncode == 0, done.stderr
    order = [int(node) for node in re.findall(r"node (\d+) is in service again", done.stdout)]
    assert order == list(NODES) and done.stdout.endswith("every replica is in sync\n")
    after = host.nodes()
    assert all(after[node]["pid"] != before[node] for node in NODES) and after[11]["restarts"] == 1
    writer.ends.set()
    writer.join(TIMEOUT_S)
    assert not writer.is_alive() and len(writer.acked) > 10
    found = []
    with Consumer(host.bootstrap) as consumer:
        consumer.assign([TopicPartition("kept", 0)])
        consumer.seek_to_beginning()
        while len(found) < len(writer.acked):
            found += [record.value for record in consumer.poll(timeout_ms=5_000)]
    assert found == writer.acked


def test_one_page_has_the_metrics_of_all(host: Here) -> None:
    text = host.scrape()
    names = [f"127.0.0.1:{host.port + 200 + at}" for at in range(3)]
    for name in names:
        assert f'penstock_node_ready{{instance="{name}"}} 1' in text
        assert re.search(rf'penstock_host_node_up{{instance="{re.escape(name)}",node="1[012]"}} 1', text)
    assert text.count("# TYPE penstock_node_ready") == 1
    with urllib.request.urlopen(f"http://127.0.0.1:{host.page}/readyz", timeout=60) as answer:
        assert answer.status == 200


def test_a_node_is_stopped_and_started_alone(host: Here) -> None:
    assert host.run("stop", "--node", "12").returncode == 0
    nodes = host.until(lambda nodes: nodes[12]["state"] == "stopped")
    assert nodes[10]["state"] == nodes[11]["state"] == "running"
    status = host.run("status")
    assert status.returncode == 3 and "stopped" in status.stdout
    assert host.run("restart", "--node", "12", "--bootstrap", host.bootstrap).returncode == 0
    assert host.run("stop", "--node", "13").returncode == 2


def test_a_reload_is_taken_whole_or_not_at_all(host: Here) -> None:
    text = host.config.read_text(encoding="utf-8")
    host.config.write_text(text + "num.io.treads = 3\n", encoding="utf-8")
    wait_for(host, "nothing is reloaded", lambda: host.process.send_signal(signal.SIGHUP))
    host.config.write_text(text.replace("nodes = 3", "nodes = 4"), encoding="utf-8")
    wait_for(host, "node_ids changes with a restart", lambda: host.process.send_signal(signal.SIGHUP))
    host.config.write_text(text + "log.retention.ms = 7200000\n", encoding="utf-8")
    wait_for(host, "node 12: .*log.retention.ms", lambda: host.process.send_signal(signal.SIGHUP))
    assert all_run(host.nodes())


def wait_for(host: Here, words: str, begin: Callable[[], None]) -> None:
    begin()
    deadline, pause = time.monotonic() + TIMEOUT_S, threading.Event()
    while not re.search(words, host.log.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline, host.log.read_text(encoding="utf-8")[-4_000:]
        pause.wait(0.05)


def test_a_second_host_of_the_directory_is_refused(host: Here) -> None:
    command = node_command("host-start", "--config", str(host.config))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 2 and "another `penstock host start` runs there" in done.stderr


def test_the_end_is_in_order_and_leaves_no_process(host: Here) -> None:
    pids = [one["pid"] for one in host.nodes().values()]
    host.process.terminate()
    assert host.process.wait(TIMEOUT_S) == 0, host.log.read_text(encoding="utf-8")[-4_000:]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    done = host.run("status")
    assert done.returncode == 1 and "no host answers" in done.stderr
