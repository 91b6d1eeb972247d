"""Promises about what a job tells of its micro-batches, from Spark's own progress reports."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import generate_latest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql import Row

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.frame.figures import ADDRESS, BatchFigures, Figures
from penstock.pipelines.frame.job_context import JobContext, local_spark
from penstock.pipelines.frame.plain_error import plain_error, plain_errors
from penstock.pipelines.frame.streams import batch_figures, run_queries
from penstock.pipelines.jobs.bronze import BronzeConf, run_bronze
from penstock.spark import lags, session
from penstock.spark.planning import DataLossError
from penstock.testing.ports import free_ports
from penstock.types import TopicPartition


def places(**offsets: int) -> str:
    partitions = {number.removeprefix("p"): [offset, 1] for number, offset in offsets.items()}
    return json.dumps({"version": 1, "topics": {"t": {"id": "x", "partitions": partitions}}})


def progress(end: str | None, latest: str | None) -> dict[str, Any]:
    return {
        "numInputRows": 30,
        "timestamp": "2026-01-01T00:00:10.000Z",
        "durationMs": {"triggerExecution": 1500},
        "stateOperators": [
            {"numRowsDroppedByWatermark": 2, "customMetrics": {"numDroppedDuplicateRows": 3}},
            {"numRowsDroppedByWatermark": 0, "customMetrics": {}},
        ],
        "observedMetrics": {"dead-letters": Row(late=4, early=None)},
        "sources": [{"endOffset": end, "latestOffset": latest}],
    }


def test_lag_is_the_sum_over_partitions_and_new_ones_count_whole() -> None:
    found = batch_figures(progress(places(p0=10, p1=5), places(p0=14, p1=5, p2=7)))
    assert found == BatchFigures(30, 1.5, 1767225611.5, 2, 3, 11, {"late": 4, "early": 0}, ("t",))


def test_lags_are_told_for_each_partition_by_topic_of_sparks_own_report_too() -> None:
    found = lags(progress(places(p0=10, p1=5), places(p0=14, p1=5, p2=7)))
    assert found == {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0, TopicPartition("t", 2): 7}
    assert lags(progress('{"logOffset": 3}', None)) == {}


def test_a_source_that_is_no_topic_has_no_lag() -> None:
    assert batch_figures(progress('{"logOffset": 3}', None)).lag is None


def test_metrics_add_up_over_batches() -> None:
    figures = Figures("silver")
    figures.take("silver", BatchFigures(30, 1.5, 100.0, 2, 3, 11, {"late": 4}))
    figures.take("silver", BatchFigures(0, 0.5, 101.0, 0, 0, None))
    text = generate_latest(figures.registry).decode()
    labels = '{pipeline="silver",query="silver"}'
    for line in ("batches_total%s 1.0", "input_rows_total%s 30.0", "late_rows_total%s 2.0", "lag_records%s 11.0"):
        assert f"penstock_pipeline_{line % labels}\n" in text
    assert 'penstock_pipeline_dead_letters_total{kind="late",pipeline="silver",query="silver"} 4.0\n' in text


def test_metrics_are_served_until_the_job_ends_and_the_port_is_free_for_the_next() -> None:
    port = free_ports(1)[0].metrics
    for job in ("bronze", "silver"):
        with Figures(job, port) as figures:
            figures.take(job, BatchFigures(30, 1.5, 100.0, 2, 3, 11))
            text = metrics_page(port)
        assert f'penstock_pipeline_input_rows_total{{pipeline="{job}",query="{job}"}} 30.0' in text
    with pytest.raises(OSError):
        metrics_page(port)


def test_a_port_that_cannot_be_used_is_named() -> None:
    port = free_ports(1)[0].metrics
    in_use = rf"metrics_port = {port}: .* \(Address already in use\); choose another"
    with Figures("bronze", port), pytest.raises(ConfigError, match=in_use):
        Figures("silver", port)
    with pytest.raises(ConfigError, match=r"metrics_port = 70000: .* cannot be used \(.*0-65535.*\); choose another"):
        Figures("silver", 70_000)


def metrics_page(port: int) -> str:
    with urllib.request.urlopen(f"http://{ADDRESS}:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_the_error_of_a_worker_is_found_in_the_trace() -> None:
    trace = (
        "[STREAM_FAILED] …\nTraceback\n  File x\npenstock.spark.planning.DataLossError: t-0: offsets are gone\nat java"
    )
    found = plain_error(trace)
    assert type(found) is DataLossError and str(found) == "t-0: offsets are gone"
    assert type(plain_error("penstock.errors.ConfigError: no")) is ConfigError
    other = plain_error("\n[X] something\nat java")
    assert type(other) is PenstockError and str(other) == "Spark failed: [X] something"


def test_an_error_of_the_source_names_the_keys_of_the_conf() -> None:
    bad = 'penstock.errors.UndecodableBatchError: name it in the option skipUndecodable={"t": {"0": [5]}}'
    assert str(plain_error(bad)) == 'name it in skip_undecodable = \'{"t": {"0": [5]}}\''
    found = plain_error("penstock.errors.MessageTooLargeError: the limit is kafka.max.request.size=5")
    assert str(found) == "the limit is [run] client.max.request.size=5"


def test_an_exception_of_java_that_pyspark_does_not_know_is_one_line() -> None:
    class OfJava:
        _target_id = "o1"

        def toString(self) -> str:
            return "java.io.IOException: Mkdirs failed to create /data\n\tat java"

    with (
        pytest.raises(PenstockError, match=r"^Spark failed: java.io.IOException: Mkdirs failed to create /data$"),
        plain_errors(),
    ):
        raise Py4JJavaError("An error occurred while calling o1.start.\n", OfJava())


@pytest.mark.parametrize(
    "gone", [Py4JError("An error occurred while calling o68.lastProgress"), ConnectionRefusedError()]
)
def test_a_java_that_was_killed_is_one_sentence_also_from_the_stop_of_its_query_and_session(
    monkeypatch: pytest.MonkeyPatch, gone: Exception
) -> None:
    class Gone:
        name = "bronze"

        def __getattr__(self, _: str) -> object:
            raise gone

    monkeypatch.setattr(session, "spark_session", lambda *_, **__: Gone())
    sentence = r"^Spark's Java process has ended: it was killed, or out of memory; run the job again"
    with pytest.raises(PenstockError, match=sentence), local_spark("bronze", RunConf()) as start:
        context = JobContext("bronze", RunConf(), start, Figures("bronze"))
        with pytest.raises(PenstockError, match=sentence):
            run_queries([cast(Any, start())], context)
    with pytest.raises(PenstockError, match=r"^Spark failed: py4j.Py4JException: no such method$"), plain_errors():
        raise Py4JError("An error occurred while calling o1.x. Trace:\npy4j.Py4JException: no such method\n\tat java")


def test_what_spark_refuses_before_a_stream_begins_is_one_line(tmp_path: Path) -> None:
    class Refusing:
        def __getattr__(self, _: str) -> object:
            raise AnalysisException("[X] there is no such thing\n\tat java")

    conf = BronzeConf(bootstrap="127.0.0.1:1", topic="t", output=tmp_path)
    context = JobContext("bronze", RunConf(), lambda: cast(Any, Refusing()), Figures("bronze"))
    with pytest.raises(ConfigError, match=r"^Spark failed: \[X\] there is no such thing$"):
        run_bronze(conf, context)


def test_a_spark_that_does_not_start_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited\nmore")

    monkeypatch.setattr(session, "spark_session", fail)
    with (
        pytest.raises(PenstockError, match=r"^Spark failed: \[JAVA_GATEWAY_EXITED\] Java") as caught,
        local_spark("bronze", RunConf()) as start,
    ):
        start()
    assert "check [run] master and [run] spark" in caught.value.__notes__[0]
