"""Runs the pipeline topic → Parquet as a user would: a process of its own, with the cluster's address.

So that Spark's JVM, its memory and its output stay out of the demo, and Ctrl-C ends both. What it writes is checked by
demo_verify.py.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from penstock.errors import MissingDependencyError, PenstockError

NEEDED = ("pyspark", "pyarrow", "numpy")
PIPELINE = "penstock.pipelines.topic_to_parquet"
TIMEOUT_S = 600.0
TAIL_LINES = 25


def require_spark() -> None:
    """MissingDependencyError before anything is started."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(
            f"the demo's last step needs {', '.join(missing)}: pip install 'penstock[spark]', or give --no-spark"
        )


def run_pipeline(bootstrap: str, topic: str, work: Path) -> Path:
    """The directory of the finished table; PenstockError with the end of Spark's output when it fails."""
    table, log_path = work / "table", work / "spark.log"
    command = [sys.executable, "-m", PIPELINE, "--bootstrap", bootstrap, "--topic", topic, "--output", str(table)]
    with log_path.open("wb") as log:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=TIMEOUT_S
            ).returncode
        except subprocess.TimeoutExpired:
            raise PenstockError(f"{PIPELINE} was not done within {TIMEOUT_S:g} s") from None
    if code != 0:
        lines = log_path.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:]
        raise PenstockError("\n".join([f"{PIPELINE} ended with code {code}:", *lines]))
    return table
