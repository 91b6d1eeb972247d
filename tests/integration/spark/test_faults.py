"""A quick fault of the campaign of Spark's sink, at night three; all of them: python -m tests.spark_exactly_once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.testing import Cluster
from tests.spark_exactly_once.faults.stage import Stage
from tests.spark_exactly_once.faults.table import Fault, named
from tests.support.amount import usually

pytestmark = pytest.mark.spark

QUICK = ("failed-tasks/twin", "failed-tasks/the-only-task-dies-for-good", "names/one-name-for-two-topics")
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Few: a task that dies has sent some of its rows (faults/stage.py)."""


@pytest.mark.parametrize("fault", named(usually(QUICK[:1], long=QUICK), 1), ids=lambda fault: fault.name)
def test_a_fault_ends_as_the_page_promises(spark: SparkSession, cluster: Cluster, tmp_path: Path, fault: Fault) -> None:
    stage = Stage(spark, cluster, tmp_path, tmp_path / "log")
    before = spark.conf.get(ROWS)
    spark.conf.set(ROWS, "8")
    try:
        fault.play(stage, fault.draw())
    finally:
        spark.conf.set(ROWS, str(before))
    assert not stage.problems
