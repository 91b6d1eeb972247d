"""The alerts about busy nodes, on a real overloaded cluster with a real Prometheus: `python -m tests.busy_alerts`.

Three nodes share this machine with their producers, which send as fast as they are acked. Prometheus has the rules of
ops/prometheus/, with a second for each minute that a condition must hold. Both alerts must fire for every node, and be
gone again after the producers have ended; the gauges are means over a minute, so each takes about that long. Exit
code 1 when one does not come or does not go in time.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock import Admin
from penstock.testing import Cluster
from tests.support.prometheus import query, running_prometheus, write_config

NODES = 3
ALERTS = ("PenstockHandlersBusy", "PenstockNetworkBusy")
GAUGES = ("penstock_request_handler_avg_idle_percent", "penstock_network_processor_avg_idle_percent")
TOPIC = "overload"
WAIT_S_MAX = 180
RECORDS = "100000000"
"""More than a producer sends before it is ended."""


@contextmanager
def overload(bootstrap: str, producers: int) -> Iterator[None]:
    """Producers of 100-byte records, at work meanwhile."""
    command = [sys.executable, "-m", "benchmarks.broker_client_penstock", "send_many", bootstrap, TOPIC, RECORDS, "100"]
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(producers)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def firing(api: str) -> set[tuple[str, str]]:
    """Alert and node, of those about busy nodes that fire now."""
    found = query(api, "query", query='ALERTS{alertstate="firing"}')["result"]
    labels = [sample["metric"] for sample in found]
    return {(label["alertname"], label["instance"]) for label in labels if label["alertname"] in ALERTS}


def all_are_scraped(api: str) -> bool:
    """Whether Prometheus answers, and has fresh samples of every node."""
    return bool(query(api, "query", query=f"count(up == 1) == {NODES}")["result"])


def gauges(api: str) -> str:
    """The idle gauges of the nodes, as text."""
    found = {name: query(api, "query", query=name)["result"] for name in GAUGES}
    return "; ".join(
        f"{name.removeprefix('penstock_')} " + ", ".join(f"{float(sample['value'][1]):.3f}" for sample in samples)
        for name, samples in found.items()
    )


def seconds_until(holds: Callable[[], bool]) -> float | None:
    """How long it took; None when it did not come."""
    began, pause = time.monotonic(), threading.Event()
    while time.monotonic() < began + WAIT_S_MAX:
        if holds():
            return time.monotonic() - began
        pause.wait(1)
    return None


def run(directory: Path, producers: int) -> bool:
    """Whether both alerts came and went."""
    with Cluster(NODES) as cluster:
        write_config(directory, cluster, seconds_per_minute=1)
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=6, replication_factor=NODES)
        with running_prometheus(directory) as api:
            if seconds_until(lambda: all_are_scraped(api)) is None:
                raise SystemExit(f"Prometheus does not scrape {NODES} nodes within {WAIT_S_MAX} s")
            print(f"before: {gauges(api)}; firing: {sorted(firing(api))}", flush=True)
            with overload(cluster.bootstrap, producers):
                came = seconds_until(lambda: len(firing(api)) == len(ALERTS) * NODES)
                print(f"overloaded, {_after(came)}: {gauges(api)}; firing: {sorted(firing(api))}", flush=True)
            gone = seconds_until(lambda: all_are_scraped(api) and not firing(api))
            print(f"at rest, {_after(gone)}: {gauges(api)}; firing: {sorted(firing(api))}", flush=True)
    return came is not None and gone is not None


def _after(seconds: float | None) -> str:
    return f"not within {WAIT_S_MAX} s" if seconds is None else f"after {seconds:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=6, help="how many send at a time")
    args = parser.parse_args()
    if shutil.which("prometheus") is None:
        raise SystemExit("prometheus is not on the path: install it (Debian: apt install prometheus)")
    with tempfile.TemporaryDirectory(prefix="penstock-alerts-") as directory:
        raise SystemExit(not run(Path(directory), args.producers))


if __name__ == "__main__":
    main()
