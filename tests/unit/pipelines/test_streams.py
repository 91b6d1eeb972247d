"""Promises about what a job tells of its micro-batches, from Spark's own progress reports."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import generate_latest

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.frame.figures import BatchFigures, Figures
from penstock.pipelines.frame.plain_error import plain_error
from penstock.pipelines.frame.streams import batch_figures
from penstock.spark.planning import DataLossError


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
        "sources": [{"endOffset": end, "latestOffset": latest}],
    }


def test_lag_is_the_sum_over_partitions_and_new_ones_count_whole() -> None:
    found = batch_figures(progress(places(p0=10, p1=5), places(p0=14, p1=5, p2=7)))
    assert found == BatchFigures(30, 1.5, 1767225611.5, 2, 3, 11)


def test_a_source_that_is_no_topic_has_no_lag() -> None:
    assert batch_figures(progress('{"logOffset": 3}', None)).lag is None


def test_metrics_add_up_over_batches() -> None:
    figures = Figures("silver")
    figures.take("silver", BatchFigures(30, 1.5, 100.0, 2, 3, 11))
    figures.take("silver", BatchFigures(0, 0.5, 101.0, 0, 0, None))
    text = generate_latest(figures.registry).decode()
    labels = '{pipeline="silver",query="silver"}'
    for line in ("batches_total%s 1.0", "input_rows_total%s 30.0", "late_rows_total%s 2.0", "lag_records%s 11.0"):
        assert f"penstock_pipeline_{line % labels}\n" in text


def test_the_error_of_a_worker_is_found_in_the_trace() -> None:
    trace = (
        "[STREAM_FAILED] …\nTraceback\n  File x\npenstock.spark.planning.DataLossError: t-0: offsets are gone\nat java"
    )
    found = plain_error(trace)
    assert type(found) is DataLossError and str(found) == "t-0: offsets are gone"
    assert type(plain_error("penstock.errors.ConfigError: no")) is ConfigError
    other = plain_error("\n[X] something\nat java")
    assert type(other) is PenstockError and str(other) == "Spark failed: [X] something"
