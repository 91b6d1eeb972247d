"""Several nodes of one machine as a host: `python -m benchmarks.host [--quick] [--nodes 1 2 4] [--size 1000]`.

Each row is a fresh host of so many nodes (`penstock host`), one topic of four partitions a node with one replica, and
as many producer processes as there are nodes; then as many consumers. It gives the records and bytes a second, the
processor time of the nodes and of the clients for each MB, and what share of the topic's partitions the busiest node
leads.

Clients and nodes share this machine's processors, so a row above them shows what more nodes cost, and not what they
give. What more processors would give is reckoned, not measured, and printed as such: a node's event loop takes at most
one processor, clients are elsewhere, and the busiest node of the placement that `place_replicas` draws is full first.
So the rate of N nodes on C processors is that of one full node, times N divided by the busiest node's share of N, or
what C processors can pay of the nodes' time, whichever is less. Disk and network are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from metadata.controller.topics.placement import place_replicas
from metadata.registrations import BrokerRegistration
from penstock import Admin
from penstock.cli.host.asking import ask_host
from penstock.node import PARENT_VARIABLE, node_command
from penstock.testing.ports import free_ports

TICKS = os.sysconf("SC_CLK_TCK")
START_S = 60
PARTITIONS_OF_A_NODE = 4
RECKONED = ((4, 4), (8, 8), (16, 16), (16, 8))
"""Nodes and processors."""
DRAWS = 200


class Row(NamedTuple):
    """One kind of work on a host of so many nodes."""

    work: str
    nodes: int
    mb: float
    seconds: float
    records: int
    nodes_s: float
    """Processor time of the nodes."""
    clients_s: float

    def shown(self) -> dict[str, object]:
        return {
            "work": self.work,
            "nodes": self.nodes,
            "records_per_s": round(self.records / self.seconds),
            "mb_per_s": round(self.mb / self.seconds, 1),
            "nodes_ms_per_mb": round(1_000 * self.nodes_s / self.mb, 2),
            "clients_ms_per_mb": round(1_000 * self.clients_s / self.mb, 2),
            "nodes_processors": round(self.nodes_s / self.seconds, 2),
        }


@contextmanager
def host(nodes: int) -> Iterator[tuple[str, str]]:
    """A host that runs: its file, and its brokers' addresses."""
    with tempfile.TemporaryDirectory(prefix="penstock-host-") as folder:
        port = min(free_ports(1)[0].broker, 32_000)
        path = Path(folder) / "host.toml"
        path.write_text(
            f'[host]\nnodes = {nodes}\naddress = "127.0.0.1"\nport = {port}\nkafka.port = 0\ndirectory = "{folder}/d"\n'
            f'[node]\ncontroller.quorum.voters = "1@127.0.0.1:{port + 100}"\n',
            encoding="utf-8",
        )
        subprocess.run(node_command("host-format", "--config", str(path)), check=True, capture_output=True)
        environ = os.environ | {PARENT_VARIABLE: str(os.getpid())}
        with (Path(folder) / "log").open("wb") as log:
            command = node_command("host-start", "--config", str(path))
            process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            wait_all(str(path))
            yield str(path), ",".join(f"127.0.0.1:{port + at}" for at in range(nodes))
        finally:
            process.terminate()
            process.wait(START_S)


def wait_all(path: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if all(one["state"] == "running" for one in ask_host(path, "status")["nodes"]):
                return
        except Exception:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
    raise SystemExit(f"the host is not in service after {START_S} s")


def cpu_s(pids: Sequence[int]) -> float:
    """User and system time of these processes so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def measured(nodes: int, records: int, size: int) -> list[Row]:
    """Produce, then consume what was produced."""
    rows = []
    with host(nodes) as (path, bootstrap):
        topics = [f"t{at}" for at in range(nodes)]
        with Admin(bootstrap) as admin:
            for topic in topics:
                admin.create_topic(topic, partitions=PARTITIONS_OF_A_NODE * nodes)
        pids = [one["pid"] for one in ask_host(path, "status")["nodes"]]
        share = records // nodes
        for work in ("produce", "consume"):
            options = ["-n", str(share), "--bootstrap", bootstrap, "--json"]
            options += ["--size", str(size)] if work == "produce" else []
            before, children = cpu_s(pids), os.times()
            command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "bench", work]
            clients = [
                subprocess.Popen([*command, topic, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                for topic in topics
            ]
            said = [json.loads(client.communicate()[0]) for client in clients]
            seconds, after = max(one["seconds"] for one in said), os.times()  # by the clients, without their start
            of_clients = after.children_user + after.children_system - children.children_user - children.children_system
            mb = share * nodes * size / 1e6
            rows.append(Row(work, nodes, mb, seconds, share * nodes, cpu_s(pids) - before, of_clients))
    return rows


def busiest_share(nodes: int) -> float:
    """The share of a topic's partitions that its busiest node leads, times the nodes: 1 is even. A mean of draws of
    the placement, with as many topics as nodes."""
    brokers = [BrokerRegistration(one, "p", 0, "h", 9192, "", False, False, ()) for one in range(nodes)]
    found = []
    for seed in range(DRAWS):
        rng = random.Random(seed)
        led: Counter[int] = Counter()
        for _ in range(nodes):
            led.update(replicas[0] for replicas in place_replicas(brokers, PARTITIONS_OF_A_NODE * nodes, 1, rng))
        found.append(nodes * max(led.values()) / led.total())
    return mean(found)


def reckoned(row: Row) -> Iterator[dict[str, Any]]:
    """The rates of this work on more processors, from one node's processor time for a MB."""
    per_mb = row.nodes_s / row.mb
    for nodes, processors in RECKONED:
        full = nodes / busiest_share(nodes) / per_mb
        paid = processors / per_mb
        yield {
            "reckoned": row.work,
            "nodes": nodes,
            "processors": processors,
            "mb_per_s": round(min(full, paid)),
            "bound_by": "the busiest node" if full < paid else "processors",
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the records")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4], help="hosts of so many nodes; default 1 2 4")
    parser.add_argument("--size", type=int, default=1_000, help="bytes of a value; default 1000")
    arguments = parser.parse_args()
    records = 100_000 if arguments.quick else 500_000
    print(json.dumps({"processors": os.cpu_count(), "records": records, "size": arguments.size}), flush=True)
    for nodes in arguments.nodes:
        for row in measured(nodes, records, arguments.size):
            print(json.dumps(row.shown()), flush=True)
            if nodes == 1:
                for line in reckoned(row):
                    print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
