"""Measures a scrape of /metrics: its time and size by partitions, and the throughput that scraping costs.

    python -m benchmarks.scrape [--partitions 1000 5000] [--records 3000000] [--rounds 5]

One node on this machine. The producer sends records of 100 bytes with send_many and acks=all to six partitions; runs
with a scrape each second and without one take turns, and the medians are compared. The goal is at most 2 %.
On a busy machine runs differ by more than that; then a scrape's processor time says what one each second can take.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import Admin
from penstock.testing import Cluster

GOAL = 0.02
SCRAPES = 40
RECORD_BYTES = 100
TOPIC = "scraped"
ALL_CREATED = b"\npenstock_partitions_to_create 0.0\n"
"""A topic exists before the logs of all its partitions do."""
LIKE_PROMETHEUS = {"Accept-Encoding": "gzip"}
TOPIC_PARTITIONS_MAX = 500
"""So many partitions are created at a time."""


def page(cluster: Cluster) -> bytes:
    """The text of one scrape."""
    request = urllib.request.Request(cluster.metrics_url(0), headers=LIKE_PROMETHEUS)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return gzip.decompress(answer.read())


def scrape(cluster: Cluster) -> tuple[float, int, float]:
    """Seconds of one, bytes of its text, and the node's processor time until then."""
    began = time.perf_counter()
    text = page(cluster)
    seconds = time.perf_counter() - began
    cpu = next(line for line in text.splitlines() if line.startswith(b"process_cpu_seconds_total"))
    return seconds, len(text), float(cpu.split()[1])


@contextmanager
def scraped_each_second(cluster: Cluster) -> Iterator[None]:
    """Meanwhile a thread of this process scrapes, as Prometheus would."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(1):
            scrape(cluster)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def records_per_second(cluster: Cluster, records: int) -> float:
    """The rate of one run of the producer, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.broker_client_penstock", "send_many", cluster.bootstrap, TOPIC]
    found = subprocess.run([*command, str(records), str(RECORD_BYTES)], capture_output=True, check=True)
    row = json.loads(found.stdout)
    return float(row["records"]) / float(row["seconds"])


def sizes(cluster: Cluster, admin: Admin, wanted: list[int]) -> None:
    """Adds partitions, and prints a row for each number of them."""
    print("| partitions | scrape, median ms | longest ms | processor ms | KiB |\n| ---: | ---: | ---: | ---: | ---: |")
    have = 0
    for partitions in sorted(wanted):
        while have < partitions:
            some = min(TOPIC_PARTITIONS_MAX, partitions - have)
            admin.create_topic(f"many-{have}", partitions=some)
            have += some
        while ALL_CREATED not in page(cluster):
            time.sleep(1)
        found = [scrape(cluster) for _ in range(SCRAPES)]
        seconds = [each for each, _, _ in found]
        middle, longest = statistics.median(seconds) * 1_000, max(seconds) * 1_000
        cpu = (found[-1][2] - found[0][2]) / (SCRAPES - 1) * 1_000
        row = f"{partitions:,} | {middle:.1f} | {longest:.1f} | {cpu:.1f} | {found[-1][1] / 1024:.0f}"
        print(f"| {row} |", flush=True)


def throughput(cluster: Cluster, records: int, rounds: int) -> float:
    """The share that scraping each second takes."""
    records_per_second(cluster, records)  # the first run warms the node up
    without, scraped = [], []
    for _ in range(rounds):
        without.append(records_per_second(cluster, records))
        with scraped_each_second(cluster):
            scraped.append(records_per_second(cluster, records))
    cost = 1 - statistics.median(scraped) / statistics.median(without)
    spread = (max(without) - min(without)) / statistics.median(without)
    print(
        f"records/s: {statistics.median(without):,.0f} without, {statistics.median(scraped):,.0f} scraped each second: "
        f"{cost:.1%} (goal: at most {GOAL:.0%}; runs without a scrape differ by {spread:.0%})",
        flush=True,
    )
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--records", type=int, default=3_000_000, help="of one run of the producer")
    parser.add_argument("--rounds", type=int, default=5, help="0: only the table")
    args = parser.parse_args()
    with Cluster() as cluster, Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=6)
        if args.rounds:
            throughput(cluster, args.records, args.rounds)
        sizes(cluster, admin, args.partitions)
        if args.rounds:
            print("with these partitions, ", end="")
            throughput(cluster, args.records, args.rounds)


if __name__ == "__main__":
    main()
