"""Checks the idle gauges against a known load: `python -m benchmarks.idle_gauges [--only NAME …] [--seconds N]`.

A node has one processor to itself and its client another. The client keeps it at work for a known share of the time,
first with what the request handlers do, then with what decoding and encoding take. Each phase lasts as long as the
gauges' window. The expectation is computed from the definition (broker/load/node_load.py), without the figures that
the gauges are made of: what the kernel says of each thread and of the processor (schedstat, /proc/stat), and of the
loop's part the time of requests in their API (the histogram of request times) and what an idle node uses.

Prints a line a phase; exit code 1 when a gauge is off by more than 0.15, an idle node reads below 0.95, a saturated
one above 0.1, or processor time by kind does not add up to the process's own within 5 %.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock import Admin, Producer
from penstock.testing import Cluster

WINDOW_S = 60
SETTLE_S = 4
"""The load runs so long before the window begins."""
TOPIC = "gauged"
RECORDS = 20_000
VALUE = b"v" * 100
OFF_MAX = 0.15
IDLE_MIN = 0.95
SATURATED_MAX = 0.1
KINDS_OFF_MAX = 0.05
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
IDLE_COLUMNS = slice(3, 5)
"""idle and iowait, of a line of /proc/stat behind its name."""


class Phase(NamedTuple):
    name: str
    work: str
    duty: float


PHASES = (
    Phase("idle", "handlers", 0.0),
    Phase("handlers-50", "handlers", 0.5),
    Phase("handlers-100", "handlers", 1.0),
    Phase("network-50", "network", 0.5),
    Phase("network-100", "network", 1.0),
)


@dataclass(frozen=True, slots=True)
class Look:
    """Totals since some start, in seconds, but for the gauges."""

    at_s: float
    loop_s: float
    """Ran, or waited for the processor."""
    loop_ran_s: float
    threads_s: float
    """All other threads."""
    python_threads_s: float
    """The part of `threads_s` whose threads have the process's own name: gRPC names most of its threads."""
    processor_idle_s: float
    process_cpu_s: float
    in_apis_s: float
    kinds_cpu_s: float
    handler_idle: float
    network_idle: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the time between two looks."""

    loop: float
    loop_ran: float
    threads: float
    python_threads: float
    processor_idle: float
    cpu: float
    """Processor time of the whole process."""
    in_apis: float
    kinds_off: float
    """By which part processor time by kind differs from the process's."""

    @staticmethod
    def between(first: Look, last: Look) -> Shares:
        seconds = last.at_s - first.at_s
        cpu = last.process_cpu_s - first.process_cpu_s
        return Shares(
            (last.loop_s - first.loop_s) / seconds,
            (last.loop_ran_s - first.loop_ran_s) / seconds,
            (last.threads_s - first.threads_s) / seconds,
            (last.python_threads_s - first.python_threads_s) / seconds,
            (last.processor_idle_s - first.processor_idle_s) / seconds,
            cpu / seconds,
            (last.in_apis_s - first.in_apis_s) / seconds,
            abs(last.kinds_cpu_s - first.kinds_cpu_s - cpu) / cpu,
        )


@dataclass(frozen=True, slots=True)
class Row:
    phase: Phase
    busy: float
    handlers: float
    handlers_expected: float
    network: float
    network_expected: float
    kinds_off: float

    def faults(self) -> Iterator[str]:
        for kind, found, expected in (
            ("handlers", self.handlers, self.handlers_expected),
            ("network", self.network, self.network_expected),
        ):
            if abs(found - expected) > OFF_MAX:
                yield f"{kind} read {found:.2f}, {expected:.2f} expected"
            if self.phase.duty == 0 and found < IDLE_MIN:
                yield f"{kind} of an idle node read {found:.2f}"
            if self.phase.duty == 1 and found > SATURATED_MAX:
                yield f"{kind} of a saturated node read {found:.2f}"
        if abs(self.busy - self.phase.duty) > OFF_MAX:
            yield f"the node ran for {self.busy:.2f} of the time, {self.phase.duty} was wanted"
        if self.kinds_off > KINDS_OFF_MAX:
            yield f"processor time by kind is off by {self.kinds_off:.1%}"


def look(cluster: Cluster, processor: int) -> Look:
    """Reads all totals and gauges, within a few milliseconds."""
    pid = cluster.pid(0)
    with urllib.request.urlopen(cluster.metrics_url(0), timeout=10) as answer:
        scrape: str = answer.read().decode()
    schedstats = _schedstats(pid)
    ran_and_waited = {thread: sum(times[:2]) / 1e9 for thread, times in schedstats.items()}
    loop_s = ran_and_waited.pop(pid)
    unnamed = _unnamed(pid)
    return Look(
        at_s=time.monotonic(),
        loop_s=loop_s,
        loop_ran_s=schedstats[pid][0] / 1e9,
        threads_s=sum(ran_and_waited.values()),
        python_threads_s=sum(seconds for thread, seconds in ran_and_waited.items() if thread in unnamed),
        processor_idle_s=_processor_idle_s(processor),
        process_cpu_s=_sum_of(scrape, "process_cpu_seconds_total"),
        in_apis_s=_sum_of(scrape, 'penstock_request_seconds_sum{.*phase="local".*}'),
        kinds_cpu_s=_sum_of(scrape, "penstock_cpu_seconds_total{.*}"),
        handler_idle=_sum_of(scrape, "penstock_request_handler_avg_idle_percent"),
        network_idle=_sum_of(scrape, "penstock_network_processor_avg_idle_percent"),
    )


def _schedstats(pid: int) -> dict[int, list[int]]:
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                found[int(thread)] = [int(number) for number in file.read().split()]
        except OSError:  # it has ended
            continue
    return found


def _unnamed(pid: int) -> set[int]:
    """Threads with the name of the process: Python gives its threads none."""
    names: dict[int, str] = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm") as file:
                names[int(thread)] = file.read()
        except OSError:
            continue
    return {thread for thread, name in names.items() if name == names[pid]}


def _processor_idle_s(processor: int) -> float:
    with open("/proc/stat") as file:
        (line,) = (line for line in file if line.startswith(f"cpu{processor} "))
    return sum(int(number) for number in line.split()[1:][IDLE_COLUMNS]) / TICKS_PER_S


def _sum_of(scrape: str, series: str) -> float:
    return sum(float(value) for value in re.findall(rf"^{series} (\S+)$", scrape, re.MULTILINE))


def expected(phase: Phase, found: Shares, at_rest: Shares) -> tuple[float, float]:
    """The idle share of the handlers and of the network: idle / (idle + own busy).

    Idle is when the loop had nothing to do and the processor nothing else. All that happens beyond what the node does
    at rest is the work of the phase: what is not in an API was network, gRPC's own threads included. The loop's waiting
    for the processor is shared by what it ran for. Look-ups are done in the I/O threads.
    """
    in_apis = found.in_apis * max(1.0, found.loop / max(found.loop_ran, found.in_apis))
    look_ups = max(0.0, found.python_threads - at_rest.python_threads) if phase.work == "handlers" else 0.0
    idle = max(0.0, min(1 - found.loop, found.processor_idle))
    network = max(0.0, found.loop - at_rest.loop - in_apis) + found.threads - look_ups
    if not idle:
        return 0.0, 0.0
    return idle / (idle + in_apis + look_ups), idle / (idle + network)


def measured(
    cluster: Cluster, phase: Phase, seconds: int, processor: int, at_rest: Shares | None
) -> tuple[Row, Shares]:
    """Measures one phase: the row of the table, and the shares that it follows from."""
    command = [sys.executable, "-m", "benchmarks.idle_gauges_load", phase.work, cluster.endpoint(0), TOPIC]
    command += [str(phase.duty), str(SETTLE_S + seconds + 2)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as load:
        try:
            time.sleep(SETTLE_S)
            first = look(cluster, processor)
            time.sleep(seconds)
            last = look(cluster, processor)
        finally:
            load.terminate()
    shares = Shares.between(first, last)
    handlers, network = expected(phase, shares, at_rest or shares)
    row = Row(phase, shares.cpu, last.handler_idle, handlers, last.network_idle, network, shares.kinds_off)
    return row, shares


def prepare(cluster: Cluster) -> None:
    """A topic of a few mebibytes."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=1)
    with Producer(cluster.bootstrap, batch_size=1 << 20) as producer:
        producer.send_many(TOPIC, [VALUE] * RECORDS)
        producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [phase.name for phase in PHASES]
    parser.add_argument("--only", action="append", choices=names, help="a phase, after the idle one; several times")
    parser.add_argument("--seconds", type=int, default=WINDOW_S + 2, help="how long a phase is looked at")
    args = parser.parse_args()
    own, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise SystemExit("this needs two processors: one for the node alone, one for its client")
    os.sched_setaffinity(0, {own})
    failed, at_rest = False, None
    with Cluster(1) as cluster:
        prepare(cluster)
        os.sched_setaffinity(0, {others[0]})
        print("phase          busy   handlers expected   network expected   kinds of CPU off by")
        for phase in PHASES:
            if args.only and phase.duty and phase.name not in args.only:
                continue
            row, shares = measured(cluster, phase, args.seconds, own, at_rest)
            at_rest = at_rest or shares
            print(
                f"{phase.name:<14} {row.busy:.3f}   {row.handlers:.3f}    {row.handlers_expected:.3f}      "
                f"{row.network:.3f}   {row.network_expected:.3f}      {row.kinds_off:.1%}",
                flush=True,
            )
            for fault in row.faults():
                failed = True
                print(f"  {fault}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
