"""The command of the pipeline: wrong usage is one line that names it, before Spark is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

COMMAND = "python -m penstock.pipelines.topic_to_parquet"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "'--bootstrap'"),
        (("--bootstrap", "127.0.0.1:1", "--topic", "t", "--output", "out", "--max-offsets", "many"), "many"),
        (("--what",), "--what"),
    ],
)
def test_wrong_usage_is_one_line_that_names_it_and_the_help(arguments: tuple[str, ...], named: str) -> None:
    command = [sys.executable, "-m", "penstock.pipelines.topic_to_parquet", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("topic_to_parquet: ") and result.stderr.endswith(f"; see `{COMMAND} --help`\n")
    assert named in result.stderr


def test_a_wrong_partitioning_is_named() -> None:
    options = ("--bootstrap", "127.0.0.1:1", "--topic", "t", "--output", "out", "--partition-by", "hour")
    command = [sys.executable, "-m", "penstock.pipelines.topic_to_parquet", *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "topic_to_parquet: partition_by='hour' must be one of date, partition, none\n"
