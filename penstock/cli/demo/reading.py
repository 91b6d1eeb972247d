"""Reads the demo's topic back, record by record, and its Parquet table. Not here: what should be there (report.py)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from penstock import Consumer
from penstock.cli.demo.text import Sums
from penstock.cli.output import Progress
from penstock.errors import MissingDependencyError, PenstockError, TimedOutError
from penstock.lazy_dataclass import dataclass
from penstock.pipelines.table_files import table_files

POLL_MS = 1_000
QUIET_S_MAX = 60.0
"""The read fails after this long without a record."""
NEEDED = ("pyspark", "pyarrow", "numpy")
PIPELINE = "penstock.pipelines.topic_to_parquet"
SPARK_TIMEOUT_S = 600.0
TAIL_LINES = 25
QUICK_BYTES_MAX = 4_000_000
"""Up to here the start of Spark costs more than the work, and a JVM that compiles lightly is done earlier."""


def read_topic(bootstrap: str, topic: str, bar: Progress) -> Sums:
    """Every record of every partition, from its log start to its present end."""
    found = Sums()
    last = time.monotonic()
    with Consumer(bootstrap) as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while behind := [tp for tp, end in ends.items() if consumer.position(tp) < end]:
            before = found.size_bytes
            for record in consumer.poll(timeout_ms=POLL_MS):
                found.add(record.key or b"", [record.value or b""])
            if found.size_bytes > before:
                last = time.monotonic()
                bar.advance(found.size_bytes - before)
            elif time.monotonic() - last > QUIET_S_MAX:
                late = ", ".join(f"{tp} stands at {consumer.position(tp)} of {ends[tp]}" for tp in behind)
                raise TimedOutError(f"{late}: no record within {QUIET_S_MAX:g} s")
    return found


@dataclass(frozen=True, slots=True)
class Table:
    """The topic as a Parquet table; `start_seconds` is the part of `seconds` that Spark took to start."""

    sums: Sums
    files: int
    seconds: float
    start_seconds: float


def require_spark(needed: Sequence[str] = NEEDED) -> None:
    """MissingDependencyError if a needed package is missing; called before anything is started."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the demo's last step needs {', '.join(missing)}: pip install 'penstock[spark]', or give --no-spark"
        )


def write_table(bootstrap: str, topic: str, work: Path, topic_bytes: int) -> Table:
    """Runs the pipeline as a user would, in a process of its own: Spark's output stays out of the demo's."""
    output, log_path = work / "table", work / "spark.log"
    command = [sys.executable, "-m", PIPELINE, "--bootstrap", bootstrap, "--topic", topic, "--output", str(output)]
    command += ["--json", *(["--quick"] if topic_bytes <= QUICK_BYTES_MAX else [])]
    with log_path.open("wb") as log:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=SPARK_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PenstockError(
                f"{PIPELINE} was not done within {SPARK_TIMEOUT_S:g} s; stream less text with --max-mb, or give"
                " --no-spark"
            ) from None
    if done.returncode != 0:
        lines = log_path.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        raise PenstockError("; ".join([f"{PIPELINE} ended with code {done.returncode}:", *lines]))
    answer = json.loads(done.stdout.splitlines()[-1])
    sums, files = _read_table(output)
    return Table(sums, files, float(answer["seconds"]), float(answer["start_seconds"]))


def _read_table(directory: Path) -> tuple[Sums, int]:
    """Every row, partition by partition, in offset order."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset([str(path) for path in table_files(directory)], format="parquet")
    found = Sums()
    for partition in sorted(pc.unique(table.to_table(["partition"])["partition"]).to_pylist()):
        part = table.to_table(["offset", "key", "value"], filter=ds.field("partition") == partition).sort_by("offset")
        for key, value in zip(part["key"].to_pylist(), part["value"].to_pylist(), strict=True):
            found.add(key, [value])
    return found, len(table.files)
