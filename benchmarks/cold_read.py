"""The cost of a cold read for others: `python -m benchmarks.cold_read [--mib 1024] [--mb-per-s 50] [--before TREE]`.

One node, a disk that gives the records of one topic at so many MB/s (cold_read_node.py), and 1,000 single records a
second to another topic with acks=all. Turns alternate: nobody reads, or a consumer reads the cold topic from its
beginning on, again and again, until so many MiB are read. Prints a JSON line a turn and one for each tree: the ratio of
the medians of p99 with and without the reader. Exit code 1 when that of this tree is above 2.

Takes --mib and a little more in the directory for temporary files, and removes it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import PenstockError
from penstock.testing.layout import Layout, new_layout

ROOT = Path(__file__).resolve().parent.parent
COLD, LIVE = "cold", "live"
VALUE = bytes(range(256)) * 40
MIB = 1024 * 1024
RATE = 1_000
RATIO_MAX = 2.0
READY_S = 60


@contextmanager
def _node(layout: Layout, tree: Path, bytes_per_s: int) -> Iterator[None]:
    """The node's process, of the tree, on such a disk."""
    python = sys.executable if tree == ROOT else str(tree / ".venv" / "bin" / "python")
    script = str(ROOT / "benchmarks" / "cold_read_node.py")
    command = [python, "-P", script, str(layout.config_path(0)), layout.cluster_id, COLD, str(bytes_per_s)]
    process = subprocess.Popen(command, cwd=tree, env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"})
    try:
        _wait_until_ready(layout.bootstrap, process)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(bootstrap: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with Admin(bootstrap) as admin:
                if admin.describe_cluster().brokers:
                    return
        except PenstockError:
            time.sleep(0.2)
    raise RuntimeError("the node did not start: its own message stands above")


def _fill(bootstrap: str, mib: int) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic(COLD, 1, 1)
        admin.create_topic(LIVE, 1, 1)
    with Producer(bootstrap) as producer:
        for _ in range(mib):
            producer.send_many(COLD, [VALUE] * (MIB // len(VALUE)))
        producer.flush()


def _read(bootstrap: str, seconds: float) -> None:
    """From the beginning on, again and again; tells how much, at the end."""
    os.nice(19)  # what it takes of a processor is not the node's doing
    partition, got, began = TopicPartition(COLD, 0), 0, time.perf_counter()
    with Consumer(bootstrap) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        while (took := time.perf_counter() - began) < seconds:
            table = consumer.poll_arrow(timeout_ms=1000)
            if table.num_rows:
                got += table.num_rows * len(VALUE)
            else:
                consumer.seek_to_beginning()
    print(json.dumps({"cold_mib": got // MIB, "cold_mb_per_s": round(got / took / 1e6, 1)}))


def _turn(bootstrap: str, seconds: int, *, with_reader: bool) -> dict[str, Any]:
    """One JSON line of the open loop, and what was read beside it."""
    reader = None
    if with_reader:
        command = [sys.executable, "-m", "benchmarks.cold_read", "--read", bootstrap, "--seconds", str(seconds)]
        reader = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    arguments = ["latency", bootstrap, LIVE, str(RATE * seconds), "100"]
    command = [sys.executable, "-m", "benchmarks.broker_client_penstock", *arguments]
    found: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    if reader is not None:
        found |= json.loads(reader.communicate()[0])
    return found


def _measure(tree: Path, mib: int, mb_per_s: int, pairs: int) -> float:
    """The ratio of p99 with the reader to that without."""
    p99: dict[bool, list[float]] = {False: [], True: []}
    seconds = max(5, round(mib * MIB / (mb_per_s * 1e6)))
    with tempfile.TemporaryDirectory(prefix="cold-read-") as directory:
        layout = new_layout(Path(directory), 1, None)
        layout.write([{}])
        with _node(layout, tree, 0):
            _fill(layout.bootstrap, mib)
        with _node(layout, tree, round(mb_per_s * 1e6)):
            _turn(layout.bootstrap, 5, with_reader=False)
            for _ in range(pairs):
                for with_reader in p99:
                    found = _turn(layout.bootstrap, seconds, with_reader=with_reader)
                    print(json.dumps({"tree": tree.name, "reader": with_reader} | found), flush=True)
                    p99[with_reader].append(found["p99_ms"])
    without, beside = statistics.median(p99[False]), statistics.median(p99[True])
    ratio = round(beside / without, 2)
    row = {"tree": tree.name, "p99_ms": without, "p99_ms_beside_cold_read": beside, "ratio": ratio}
    print(json.dumps(row), flush=True)
    return ratio


def main() -> int:
    """Exit code 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="size of the cold topic")
    parser.add_argument("--mb-per-s", type=int, default=50, help="what the disk gives")
    parser.add_argument("--pairs", type=int, default=2, help="turns without and with the reader")
    parser.add_argument("--before", type=Path, help="a checkout with a .venv, measured as well")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        _read(options.read, options.seconds)
        return 0
    if options.before:
        _measure(options.before.resolve(), options.mib, options.mb_per_s, options.pairs)
    return 1 if _measure(ROOT, options.mib, options.mb_per_s, options.pairs) > RATIO_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
