"""Runs the pipeline topic → Parquet as a user would: in a process of its own, with the cluster's address.

Spark's JVM, its memory and its output then stay out of the demo, and Ctrl-C ends both processes. verify.py checks the
table.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import MissingDependencyError, PenstockError

NEEDED = ("pyspark", "pyarrow", "numpy")
PIPELINE = "penstock.pipelines.topic_to_parquet"
TIMEOUT_S = 600.0
TAIL_LINES = 25
QUICK_BYTES_MAX = 4_000_000
"""Up to here the start of Spark costs more than the work, and a JVM that compiles lightly is done earlier."""


def require_spark(needed: Sequence[str] = NEEDED) -> None:
    """MissingDependencyError if a needed package is missing; called before anything is started."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the demo's last step needs {', '.join(missing)}: pip install 'penstock[spark]', or give --no-spark"
        )


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A finished table; `start_seconds` is the part of `seconds` that Spark took to start."""

    table: Path
    seconds: float
    start_seconds: float


def run_pipeline(bootstrap: str, topic: str, work: Path, topic_bytes: int) -> PipelineRun:
    """Writes the topic to a table below `work`; PenstockError with the end of Spark's output when it fails."""
    table, log_path = work / "table", work / "spark.log"
    options = ["--bootstrap", bootstrap, "--topic", topic, "--output", str(table), "--json"]
    if topic_bytes <= QUICK_BYTES_MAX:
        options.append("--quick")
    with log_path.open("wb") as log:
        try:
            done = subprocess.run(
                [sys.executable, "-m", PIPELINE, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PenstockError(
                f"{PIPELINE} was not done within {TIMEOUT_S:g} s; stream less text with --max-mb, or give --no-spark"
            ) from None
    if done.returncode != 0:
        lines = log_path.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        raise PenstockError("\n".join([f"{PIPELINE} ended with code {done.returncode}:", *lines]))
    told = json.loads(done.stdout.splitlines()[-1])
    return PipelineRun(table, float(told["seconds"]), float(told["start_seconds"]))
