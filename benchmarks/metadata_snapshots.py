"""Snapshots of the metadata of many partitions: size, time, the longest stall of the event loop, memory, and growth.

    python -m benchmarks.metadata_snapshots [--partitions 1000 10000 100000]

Partitions have three replicas, 50 of them are a topic. For each number two clusters of controllers run, each node in a
process of its own with the product's code (metadata_snapshots_node.py). One node alone loads a snapshot from its disk
and, a while later, writes one. Of three nodes, two have the snapshot, and the third, which has nothing, fetches it.
Controllers host no partitions: what a broker does with the metadata is not in these figures.

`stall_ms` is the longest time for which the event loop did nothing else while the snapshot was encoded and written in a
thread; `idle_stall_ms` is the same without one, and `settle_stall_ms` the same in the first seconds, when the node
becomes the active controller. Prints a JSON line for each number, and the exponent with which each figure grows. Exit
code 1 when the longest stall is over the goal.
"""

from __future__ import annotations

import argparse
import json
import math
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from broker.quorum.metadata_snapshots import MetadataSnapshots
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import PartitionRecord, RegisterBrokerRecord, TopicRecord
from penstock.ids import system_ids
from penstock.testing.layout import HOST, free_ports
from storage.disk.file_system import OsFileSystem

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS_OF_A_TOPIC, BROKERS, EPOCH = 50, 3, 1
STALL_MS_MAX = 50.0
ANSWER_S_MAX = 180.0
WRITTEN = ("bytes", "encode_s", "write_s", "stall_ms", "idle_stall_ms", "settle_stall_ms")
FITTED = ("bytes", "encode_s", "write_s", "load_s", "fetch_s", "install_s", "stall_ms")


def image_of(partitions: int) -> MetadataImage:
    """Three brokers, which are fenced so that the controller has nothing to do with them."""
    ids, delta, offset = system_ids(), MetadataDelta(EMPTY_IMAGE), BROKERS - 1
    log_dirs = tuple(ids.new_id() for _ in range(BROKERS))
    for broker_id, log_dir in enumerate(log_dirs):
        port = 10_000 + broker_id
        delta.replay(RegisterBrokerRecord(broker_id, ids.new_id(), broker_id, HOST, port, log_dirs=(log_dir,)))
    for number in range(partitions):
        topic, index = divmod(number, PARTITIONS_OF_A_TOPIC)
        if index == 0:
            topic_id = ids.new_id()
            delta.replay(TopicRecord(f"topic-{topic}", topic_id))
            offset += 1
        replicas = tuple((number + place) % BROKERS for place in range(BROKERS))
        directories = tuple(log_dirs[broker_id] for broker_id in replicas)
        delta.replay(PartitionRecord(topic_id, index, replicas, replicas, replicas[0], directories=directories))
        offset += 1
    return delta.apply(offset, EPOCH)


class Controllers:
    """So many voters in one directory."""

    def __init__(self, directory: Path, count: int) -> None:
        self.directory, self.cluster_id = directory, system_ids().new_id()
        endpoints = [f"{HOST}:{ports.controller}" for ports in free_ports(count)]
        for node_id, endpoint in enumerate(endpoints):
            own = self.config_path(node_id)
            own.parent.mkdir(parents=True)
            keys = {
                "node.id": node_id,
                "process.roles": ["controller"],
                "listeners": [f"CONTROLLER://{endpoint}"],
                "controller.quorum.voters": [f"{voter}@{address}" for voter, address in enumerate(endpoints)],
                "log.dirs": [str(own.parent / "data")],
                "metadata.log.max.snapshot.interval.ms": 5_000,
            }
            own.write_text("".join(f'"{key}" = {json.dumps(value)}\n' for key, value in keys.items()))

    def config_path(self, node_id: int) -> Path:
        return self.directory / str(node_id) / "node.toml"

    @contextmanager
    def node(self, node_id: int, wanted_offset: int) -> Iterator[subprocess.Popen[str]]:
        """Ends in order, after the block."""
        script = [sys.executable, "-m", "benchmarks.metadata_snapshots_node"]
        command = [*script, str(self.config_path(node_id)), self.cluster_id, str(wanted_offset)]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.communicate(timeout=ANSWER_S_MAX)

    def give(self, node_id: int, image: MetadataImage) -> int:
        """Its snapshot, to a node that is stopped and has a metadata log; the bytes."""
        log_directory = next((self.directory / str(node_id) / "data").glob("__cluster_metadata-*"))
        return (
            MetadataSnapshots(OsFileSystem(), str(log_directory)).write(image, time.time_ns() // 1_000_000).size_bytes
        )


def answer_of(process: subprocess.Popen[str], what: str) -> dict[str, Any]:
    """The next line of the process; RuntimeError if there is none in time."""
    stdout = process.stdout
    if stdout is None or not select.select([stdout], [], [], ANSWER_S_MAX)[0] or not (line := stdout.readline()):
        raise RuntimeError(f"no {what!r} from a node: its own message stands above")
    found: dict[str, Any] = json.loads(line)
    if found["what"] != what:
        raise RuntimeError(f"a node told {found}, not {what!r}")
    return found


def write_and_load(directory: Path, image: MetadataImage) -> dict[str, Any]:
    """One node alone."""
    controllers = Controllers(directory, 1)
    with controllers.node(0, 0) as process:
        answer_of(process, "ready")
    controllers.give(0, image)
    with controllers.node(0, image.offset) as process:
        ready = answer_of(process, "ready")
        written = answer_of(process, "written")
    return {
        **{key: written[key] for key in WRITTEN},
        "load_s": ready["load_s"],
        "rss_mib": ready["rss_mib"],
        "peak_mib": written["peak_mib"],
    }


def fetch(directory: Path, image: MetadataImage) -> dict[str, Any]:
    """The third of three nodes has nothing."""
    controllers = Controllers(directory, 3)
    with ExitStack() as stack:
        for process in [stack.enter_context(controllers.node(node_id, 0)) for node_id in (0, 1)]:
            answer_of(process, "ready")
    for node_id in (0, 1):
        controllers.give(node_id, image)
    with ExitStack() as stack:
        for process in [stack.enter_context(controllers.node(node_id, image.offset)) for node_id in (0, 1)]:
            answer_of(process, "ready")
        ready = answer_of(stack.enter_context(controllers.node(2, image.offset)), "ready")
    found = {key: ready[key] for key in ("fetch_s", "chunks", "install_s")}
    return found | {"fetcher_stall_ms": ready["stall_ms"], "fetcher_peak_mib": ready["peak_mib"]}


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms: 1 is linear."""
    xs, ys = [math.log(size) for size in sizes], [math.log(max(value, 1e-6)) for value in values]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread


def main() -> int:
    """Exit code 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    sizes = sorted(parser.parse_args().partitions)
    rows = []
    for partitions in sizes:
        image = image_of(partitions)
        with tempfile.TemporaryDirectory(prefix="metadata-snapshots-") as directory:
            row = write_and_load(Path(directory, "one"), image) | fetch(Path(directory, "three"), image)
        rows.append(row)
        print(json.dumps({"partitions": partitions} | row), flush=True)
    if len(sizes) > 1:
        fits = {key: round(exponent(sizes, [row[key] for row in rows]), 2) for key in FITTED}
        print(json.dumps({"exponent of growth": fits}), flush=True)
    longest = max(row["stall_ms"] for row in rows)
    print(json.dumps({"longest stall while written, ms": longest, "goal": STALL_MS_MAX}), flush=True)
    return 1 if longest > STALL_MS_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
