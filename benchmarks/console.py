"""The cost of a console with 20 browsers: `python -m benchmarks.console [--quick] [--pairs 5] [--browsers 20]`.

Three nodes take records with acks=all from one producer that sends as fast as it can, in turns with and without the
console: in the turns without it, the console and its browsers stand still (SIGSTOP). A browser here has an open stream
and fetches what a real one does (static/live.js): each page's moving parts, at most every two seconds.

Printed are the throughput with it by that without it, pair by pair, and the processor time of the nodes for each
record. On one machine the console and the browsers take processors from the nodes, which on a machine of their own
they would not: the second number has none of that. Exit code 1 when the median of the first is below 1 - COST_MAX.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from typing import NamedTuple

import httpx

from penstock import Consumer, Producer
from penstock.testing import Cluster

COST_MAX = 0.02
EVERY_S = 2.0
RECORD = b"x" * 100
AT_ONCE = 2_000
IN_FLIGHT = 8
PAGES = (
    ("/overview", "/series.json?subject=cluster-records", "/series.json?subject=cluster-lag"),
    ("/topic?name=load", "/series.json?subject=topic-records&name=load"),
    (
        "/group?id=reader",
        "/series.json?subject=group-lag&name=reader",
        "/series.json?subject=partition-lag&name=reader",
    ),
    ("/flow",),
    ("/events",),
)
"""The addresses that an open tab of each page fetches."""


class Turn(NamedTuple):
    """One turn of load."""

    records_per_second: float
    nodes_us_per_record: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="turns with the console, and as many without")
    parser.add_argument("--seconds", type=float, default=20, help="the length of a turn")
    parser.add_argument("--browsers", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two pairs of 5 s")
    parser.add_argument("--as-browsers", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_browsers:
        asyncio.run(browse(options.as_browsers, options.browsers))
        return
    pairs, seconds = (2, 5.0) if options.quick else (options.pairs, options.seconds)
    sys.exit(0 if measure(pairs, seconds, options.browsers) >= 1 - COST_MAX else 1)


def measure(pairs: int, seconds: float, browsers: int) -> float:
    """The throughput with the console, by that without it: the median of the pairs."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(nodes=3))
        cluster.topic("load", partitions=6)
        producer = stack.enter_context(Producer(cluster.bootstrap))
        read_something(cluster, producer)
        program = "from penstock.cli.main import main; main()"
        console = started(stack, "-c", program, "console", "--port", "0", "--bootstrap", cluster.bootstrap)
        assert console.stdout is not None
        url = console.stdout.readline().decode().strip()
        tabs = started(stack, "-m", "benchmarks.console", "--as-browsers", url, "--browsers", str(browsers))
        beside = (console, tabs)
        time.sleep(EVERY_S * 3)  # every tab is open, and the console has looked at all
        costs, rates = [], []
        for number in range(pairs):
            found = {}
            for has_console in (True, False) if number % 2 else (False, True):
                for process in beside:
                    process.send_signal(signal.SIGCONT if has_console else signal.SIGSTOP)
                begun_ms = processor_ms(console.pid)
                found[has_console] = turn(cluster, producer, seconds)
                if has_console:
                    share = (processor_ms(console.pid) - begun_ms) / (seconds * 1000)
                    print(f"  the console itself took {share:.1%} of a processor")
            rates.append(found[True].records_per_second / found[False].records_per_second)
            costs.append(found[True].nodes_us_per_record / found[False].nodes_us_per_record)
            print(f"without: {shown(found[False])}; with {browsers} browsers: {shown(found[True])}", flush=True)
        for process in beside:
            process.send_signal(signal.SIGCONT)
    print(f"throughput with it by that without it: median {statistics.median(rates):.3f} of {len(rates)} pairs")
    print(f"the nodes' processor time for a record, likewise: median {statistics.median(costs):.3f}")
    return statistics.median(rates)


def shown(one: Turn) -> str:
    return f"{one.records_per_second:,.0f} records/s, {one.nodes_us_per_record:.2f} us of the nodes a record"


def started(stack: ExitStack, *words: str) -> subprocess.Popen[bytes]:
    """A process that ends with the stack, should it stand still, too."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)

    def end() -> None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(30)

    stack.callback(end)
    return process


def read_something(cluster: Cluster, producer: Producer) -> None:
    """A group with a lag."""
    producer.send_many("load", [RECORD] * AT_ONCE).result()
    with Consumer(cluster.bootstrap, group_id="reader", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["load"])
        consumer.poll(timeout_ms=10_000)
        consumer.commit()


def turn(cluster: Cluster, producer: Producer, seconds: float) -> Turn:
    """Load for as long a time, with a bounded number of records in flight."""
    nodes = [cluster.pid(index) for index in range(len(cluster))]
    begun_ms, begun = sum(map(processor_ms, nodes)), time.monotonic()
    waiting, acked = [], 0
    while time.monotonic() - begun < seconds:
        waiting.append(producer.send_many("load", [RECORD] * AT_ONCE))
        if len(waiting) >= IN_FLIGHT:
            waiting.pop(0).result()
            acked += AT_ONCE
    for future in waiting:
        future.result()
        acked += AT_ONCE
    took = time.monotonic() - begun
    return Turn(acked / took, (sum(map(processor_ms, nodes)) - begun_ms) * 1000 / acked)


def processor_ms(pid: int) -> float:
    """The processor time that a process has taken."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def browse(url: str, browsers: int) -> None:
    """Keeps as many tabs open until the process is ended."""
    limits = httpx.Limits(max_connections=4 * browsers)
    async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as client, asyncio.TaskGroup() as tabs:
        for number in range(browsers):
            tabs.create_task(tab(client, PAGES[number % len(PAGES)]))


async def tab(client: httpx.AsyncClient, addresses: tuple[str, ...]) -> None:
    """One tab: news by its stream, and then what its page fetches."""
    while True:
        with suppress(httpx.HTTPError):
            async with client.stream("GET", "/live") as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data:"):
                        for address in addresses:
                            await client.get(address, headers={"X-Penstock-Live": "1"})
                        await asyncio.sleep(EVERY_S)


if __name__ == "__main__":
    main()
