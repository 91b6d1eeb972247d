"""The rows of `benchmarks/broker.py --door kafka`: one C client drives each system by Kafka's protocol, in turn.

The C client is `flood.c` of the folder that --peers names: librdkafka at full speed, so that what a broker can take and
give is measured, and not what a Python process can make. One record at a time is confluent-kafka's produce and flush.
Beside each rate stands the processor time that all nodes took for a record: it holds on a busy machine, too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import broker_systems as systems
from benchmarks.broker_goals import Comparison

PARTITIONS = (1, 12)
PRODUCER = ("linger.ms=5", "batch.size=1000000")
CONSUMER = ("fetch.wait.max.ms=20",)
"""librdkafka at times asks a broker only for partitions that it has read to the end: whichever system it asks, that
fetch waits for its whole time, and with the default of 500 ms a run of 0.6 s becomes one of 1.1 s."""
TIMEOUT_S = 300
PASSES_MAX = 4
STILL_WARMING = 0.8
"""A pass of single records whose median is below this part of the one before shows a JVM that is still compiling."""
PEERS = ("kafka", "kafka-fsync")
PRODUCE_AT_LEAST = {1: 1.0, 3: 1.5}
CONSUME_AT_LEAST = 1.0
SERIAL_AT_MOST = 1.0

Start = Callable[[], AbstractContextManager[systems.System]]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FloodSize:
    """How much is done."""

    records: dict[int, int]
    serial_records: int


FULL = FloodSize(records={100: 2_000_000, 1024: 400_000}, serial_records=1_000)
QUICK = FloodSize(records={100: 500_000, 1024: 100_000}, serial_records=300)


@cache
def flood_binary(peers: Path) -> str:
    """Compiled once a run."""
    binary = Path(tempfile.mkdtemp(prefix="penstock-flood-")) / "flood"
    subprocess.run(["cc", "-O2", "-o", str(binary), str(peers / "flood.c"), "-lrdkafka"], check=True)
    return str(binary)


def missing_for_flood(peers: Path | None) -> list[str]:
    """The tools that this machine lacks for the C client, beside those for Kafka itself."""
    missing = [] if peers is None or (peers / "flood.c").is_file() else [str(peers / "flood.c")]
    missing += [] if shutil.which("cc") else ["cc"]
    found = any(Path(folder, "librdkafka", "rdkafka.h").is_file() for folder in ("/usr/include", "/usr/local/include"))
    return missing + ([] if found else ["librdkafka-dev"])


def flood_session(start: Start, nodes: int, size: FloodSize, pair: int, peers: Path) -> Iterator[Row]:
    """Every row of one fresh cluster. The first work of each kind warms it, and does not count."""
    flood = flood_binary(peers)
    with start() as system:
        base: Row = {"system": system.name, "nodes": nodes, "pair": pair}
        address = system.kafka_bootstrap
        system.create_topic("warm-up", 1)
        some = str(size.records[100])
        _run([flood, "produce", address, "warm-up", some, "100", "all", *PRODUCER])
        _run([flood, "consume", address, "warm-up", some, "1", *CONSUMER])
        for partitions in PARTITIONS:
            for value_bytes, records in size.records.items():
                topic = f"t-{partitions}-{value_bytes}"
                system.create_topic(topic, partitions)
                shape: Row = {**base, "bytes": value_bytes, "partitions": partitions}
                produce = [flood, "produce", address, topic, str(records), str(value_bytes), "all", *PRODUCER]
                yield shape | _measured(system, "produce", f"produce-{partitions}", produce, records)
                consume = [flood, "consume", address, topic, str(records), str(partitions), *CONSUMER]
                yield shape | _measured(system, "consume", f"consume-{partitions}", consume, records)
        yield base | _serial(system, size.serial_records)


def _measured(system: systems.System, row: str, how: str, command: list[str], records: int) -> Row:
    cpu = systems.cpu_seconds(system)
    measured = _run(command)
    nodes_cpu_s = systems.cpu_seconds(system) - cpu
    return {"row": row, "how": how, **measured, "cpu_us": round(1e6 * nodes_cpu_s / records, 3)}


def _serial(system: systems.System, records: int) -> Row:
    """Passes until one is not much faster than the one before; that one counts."""
    system.create_topic("serial", 1)
    before = 0.0
    for _ in range(PASSES_MAX):
        command, folder = system.kafka_client("serial", system.kafka_bootstrap, "serial", str(records), "100")
        measured = _run(command, folder)
        if "error" in measured or (before and measured["p50_ms"] >= STILL_WARMING * before):
            break
        before = measured["p50_ms"]
    return {"row": "serial", "bytes": 100, **measured}


def _run(command: list[str], folder: Path | None = None) -> Row:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        return {"error": (done.stdout + done.stderr).strip()[-500:]}
    shown: Row = json.loads(done.stdout)
    return shown


def flood_comparisons(peer: str, nodes: int) -> list[Comparison]:
    """Every line of the table beside one peer."""
    lines: list[Comparison] = []
    for work, at_least in (("produce", PRODUCE_AT_LEAST[nodes]), ("consume", CONSUME_AT_LEAST)):
        for partitions in PARTITIONS:
            for size in (100, 1024):
                how = f"{work}-{partitions}"
                title = f"{work} {size} B, {partitions} partition{'s' if partitions > 1 else ''}"
                lines.append(Comparison(f"{title}, records/s", how, how, size, at_least=at_least))
                lines.append(Comparison("  processor time a record, µs", f"{how}-cpu", f"{how}-cpu", size))
    goal = SERIAL_AT_MOST if nodes == 1 and peer == "kafka-fsync" else None
    return [*lines, Comparison("one record at a time, p50 ms", "serial_ms", "serial_ms", 100, at_most=goal)]
