"""Promises about the end of a job's queries: a stop lets the micro-batch under way end, a failure stops the others."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from penstock.pipelines.frame import streams
from penstock.pipelines.frame.conf import RunConf
from penstock.pipelines.frame.figures import Figures
from penstock.pipelines.frame.job_context import JobContext
from penstock.pipelines.frame.streams import run_queries


class FakeQuery:
    """A query whose micro-batches take three looks each; `tick` is one look."""

    def __init__(self, name: str, fails_at_tick: int = 0) -> None:
        self.name = name
        self.isActive = True
        self.recentProgress: list[dict[str, Any]] = []
        self.stopped_at_tick = 0
        self._ticks = 0
        self._fails_at_tick = fails_at_tick

    def tick(self) -> None:
        self._ticks += 1
        if self.isActive and self._ticks % 3 == 0:
            self.recentProgress.append(self._progress(self._ticks // 3 - 1))
        if self._ticks == self._fails_at_tick:
            self.isActive = False

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": True}

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> str | None:
        return "failed" if self._fails_at_tick and not self.isActive else None

    def awaitTermination(self) -> None:
        if self._fails_at_tick:
            raise ValueError(f"{self.name} failed")

    def stop(self) -> None:
        self.stopped_at_tick = self.stopped_at_tick or self._ticks
        self.isActive = False

    @staticmethod
    def _progress(batch: int) -> dict[str, Any]:
        return {
            "batchId": batch,
            "numInputRows": 10,
            "timestamp": f"2026-01-01T00:00:{batch:02d}.000Z",
            "durationMs": {"triggerExecution": 1000},
            "stateOperators": [],
            "observedMetrics": {},
            "sources": [],
            "sink": {"numOutputRows": 10},
        }


def run(monkeypatch: pytest.MonkeyPatch, *queries: FakeQuery, stop_at: int = 0) -> dict[str, streams.Totals]:
    stop, ticks = threading.Event(), iter(range(1, 100))

    def look(_: float) -> None:
        for query in queries:
            query.tick()
        if next(ticks) == stop_at:
            stop.set()

    # not the module itself: a thread of py4j sleeps, too, once Spark was used in this process
    monkeypatch.setattr(streams, "time", SimpleNamespace(sleep=look, monotonic=time.monotonic))

    def hush() -> None:
        assert any(query.isActive for query in queries), "too late: Spark logs what the stop cuts off"
        hushed.append(True)

    hushed: list[bool] = []
    context = JobContext("job", RunConf(), lambda: pytest.fail("Spark is not needed"), Figures("job"), stop, hush=hush)
    totals = run_queries(list(queries), context)
    assert bool(hushed) is bool(stop_at), "Spark's log ends only for a stop"
    return totals


def test_a_stop_waits_for_the_micro_batch_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    query = FakeQuery("bronze")
    totals = run(monkeypatch, query, stop_at=4)
    assert query.stopped_at_tick == 6
    assert (totals["bronze"].batches, totals["bronze"].rows, totals["bronze"].written) == (2, 20, 20)


def test_a_query_that_fails_stops_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = FakeQuery("silver"), FakeQuery("dead-letters", fails_at_tick=2)
    with pytest.raises(ValueError, match="dead-letters failed"):
        run(monkeypatch, good, bad)
    assert good.stopped_at_tick == 2
