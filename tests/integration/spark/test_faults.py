"""A quick fault of the campaign of Spark's sink, at night three; all of them: python -m tests.spark_exactly_once."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from penstock.testing import Cluster
from tests.spark_exactly_once.faults import checkpoints, tasks, writes
from tests.spark_exactly_once.faults.promise import promise_of
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


@pytest.mark.parametrize("module", [checkpoints, tasks, writes], ids=lambda module: str(module.__name__))
def test_each_row_that_a_fault_is_judged_by_is_on_the_page(module: ModuleType) -> None:
    """Else the fault is not played, which a campaign alone would notice."""
    assert module.__file__ is not None
    calls = [node for node in ast.walk(ast.parse(Path(module.__file__).read_text())) if isinstance(node, ast.Call)]
    judged = [
        call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in ("repeats", "judged")
    ]
    rows = {name.id for call in judged for name in call.args[:2] if isinstance(name, ast.Name) and name.id.isupper()}
    assert rows, "the constants with the beginnings of rows"
    for row in rows:
        assert promise_of(getattr(module, row))
