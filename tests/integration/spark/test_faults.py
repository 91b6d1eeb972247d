"""Two quick faults of the campaign of Spark's sink; all of them: python -m tests.spark_exactly_once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.testing import Cluster
from tests.spark_exactly_once.faults.stage import Stage
from tests.spark_exactly_once.faults.table import Fault, named

pytestmark = pytest.mark.spark

QUICK = ("failed-tasks/twin", "names/one-name-for-two-topics")


@pytest.mark.parametrize("fault", named(QUICK, 1), ids=lambda fault: fault.name)
def test_a_fault_ends_as_the_page_promises(spark: SparkSession, cluster: Cluster, tmp_path: Path, fault: Fault) -> None:
    stage = Stage(spark, cluster, tmp_path, tmp_path / "log")
    fault.play(stage, fault.draw())
    assert not stage.problems
