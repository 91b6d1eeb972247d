"""Promises about the campaign of Spark's sink: what its seeds draw, what its judge sees, and where its mutants are."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.spark_exactly_once.faults import checkpoints, tasks, writes
from tests.spark_exactly_once.faults.mutants import MUTANTS, edited_text, path_of
from tests.spark_exactly_once.faults.promise import ROOT, Seen, problems_of, promise_of, promises
from tests.spark_exactly_once.faults.stage import Stage
from tests.spark_exactly_once.faults.table import FAULTS, NAMES, NOT_HERE, NOT_PLAYED, Fault, drawn, named, names, play
from tests.support.campaign.frame import Report


def named_rows() -> set[str]:
    """The beginnings of rows that the faults name."""
    values = [value for module in (checkpoints, tasks, writes) for value in vars(module).values()]
    begins = [value for value in values if isinstance(value, str) and len(value) > 10]
    return {row.happens for row in promises() if row.happens.startswith(tuple(begins))}


def test_every_row_of_the_page_is_drawn_and_judged_by_its_cells() -> None:
    assert {row.happens for row in promises()} - named_rows() == {promise_of(NOT_HERE).happens}


def test_a_seed_draws_one_fault_of_each_kind_and_as_many_seeds_as_a_kind_has_draw_them_all() -> None:
    for seed in range(20):
        assert sorted(fault.kind for fault in drawn(seed)) == sorted(FAULTS)
    for kind, plays in FAULTS.items():
        some = [fault for seed in range(7, 7 + len(plays)) for fault in drawn(seed) if fault.kind == kind]
        assert {fault.play for fault in some} == set(plays)
    assert len(set(names())) == len(names())


def test_a_fault_that_is_played_alone_has_the_numbers_that_it_has_in_its_run() -> None:
    fault = drawn(5)[0]
    (alone,) = named([fault.name], 5)
    assert alone == fault and alone.draw().random() == fault.draw().random()
    assert {drawn(seed)[0].draw().random() for seed in range(5)} != {fault.draw().random()}


GOOD: dict[str, Any] = {
    "error": "",
    "committed": Counter({1: 1, 2: 1}),
    "wanted": Counter({1: 1, 2: 1}),
    "appended": 0,
    "is_another_read": True,
}
REFUSED = "AtomicBatchVersionError: version 1 is repeated with 3 other rows, of which none were written"


@pytest.mark.parametrize(
    ("row", "changes", "problem"),
    [
        (writes.REPEATED, {}, ""),
        (writes.REPEATED, {"committed": Counter({1: 1})}, "1 rows are missing: [2]"),
        (writes.REPEATED, {"committed": Counter({1: 2, 2: 1})}, "1 rows are there that should not be, or twice: [1]"),
        (writes.REPEATED, {"appended": 3}, "3 records were appended"),
        (writes.REPEATED, {"error": "QueryError: no"}, "the query should go on: QueryError: no"),
        (writes.REPEATED, {"is_another_read": False}, "wait for a transaction that nobody will end"),
        (checkpoints.LOST, {}, "it ended without an error"),
        (checkpoints.LOST, {"error": REFUSED}, ""),
        (checkpoints.LOST, {"error": "ProducerFencedError"}, "the query should end with 'AtomicBatchVersionError"),
    ],
)
def test_the_judge_tells_what_is_not_as_the_page_promises(row: str, changes: dict[str, Any], problem: str) -> None:
    found = problems_of(promise_of(row), Seen(**{**GOOD, **changes}))
    assert bool(found) == bool(problem) and all(problem in one for one in found)


def test_a_fault_that_breaks_and_one_that_is_not_as_promised_are_told_and_the_others_are_played(tmp_path: Path) -> None:
    def breaks(stage: Stage, draw: Random) -> None:
        raise RuntimeError("no session")

    def surprises(stage: Stage, draw: Random) -> None:
        stage.problems.append("twice")

    def holds(stage: Stage, draw: Random) -> None:
        """All is as promised."""

    faults = [Fault(NAMES, one, 1) for one in (breaks, surprises, holds)]
    report, stage = Report(tmp_path), cast(Stage, SimpleNamespace(problems=[]))
    said: list[str] = []
    play(tmp_path / "faults", faults, report, said.append, lambda directory: nullcontext(stage))
    words = ("names/breaks: not played: RuntimeError, ", "names/surprises: twice, ", "names/holds: as promised, ")
    assert all(text.startswith(begins) for text, begins in zip(said, words, strict=True))
    assert report.anomalies == {NOT_PLAYED: 1, "names/surprises": 1}
    assert report.examples == [f"{NOT_PLAYED}: names/breaks: RuntimeError: no session", "names/surprises: twice"]
    assert report.figures["played"].keys() == {"names/breaks", "names/surprises", "names/holds"}


def test_each_mutant_has_a_fault_of_the_table_and_a_place_that_is_where_it_was() -> None:
    for mutant in MUTANTS:
        assert mutant.fault_name in names()
        for edit in mutant.edits:
            text = (ROOT / path_of(edit)).read_text(encoding="utf-8")
            compile(changed := edited_text(edit, text), str(path_of(edit)), "exec")
            assert changed != text and changed.count("\n") == text.count("\n")
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
