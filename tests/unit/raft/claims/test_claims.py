"""Each claim has tests, and each test that a claim names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.unit.raft.claims import claim, figure_2, kip_595, kip_996
from tests.unit.raft.claims.claim import Claim

ROOT = Path(__file__).parents[4]
TABLES = {"figure 2": figure_2.CLAIMS, "KIP-595": kip_595.CLAIMS, "KIP-996": kip_996.CLAIMS}
BOXES = {
    "State, persistent on all servers": 3,
    "State, volatile on all servers": 2,
    "State, volatile on leaders": 2,
    "AppendEntries, arguments and results": 3,
    "AppendEntries, receiver": 5,
    "RequestVote, arguments and results": 2,
    "RequestVote, receiver": 2,
    "Rules, all servers": 2,
    "Rules, followers": 2,
    "Rules, candidates": 4,
    "Rules, leaders": 4,
}
"""The boxes of figure 2 and how many lines each has here: those of the paper, arguments and results taken together."""


@cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def exists(reference: str) -> bool:
    """True if this test is in its file, and the file has a word for the case in brackets, if there are any."""
    match = re.fullmatch(r"(.+\.py)::(test_\w+)(?:\[(\w+)\])?", reference)
    if match is None or not (ROOT / match[1]).exists() or match[2] not in functions_in(match[1]):
        return False
    return match[3] is None or re.search(rf"\b{match[3]}\b", (ROOT / match[1]).read_text(encoding="utf-8")) is not None


@pytest.mark.parametrize("source", TABLES)
def test_every_claim_has_tests_and_they_exist(source: str) -> None:
    for one in TABLES[source]:
        assert one.tests, f"{one.place}: no test"
        assert [name for name in one.tests if not exists(name)] == [], one.place


@pytest.mark.parametrize("source", TABLES)
def test_every_claim_has_a_place_of_its_own(source: str) -> None:
    places = [one.place for one in TABLES[source]]
    assert len(places) == len(set(places))
    assert all(one.says for one in TABLES[source])


def test_every_line_of_figure_2_is_there() -> None:
    """In the order of the figure, numbered within its boxes."""
    assert [one.place for one in figure_2.CLAIMS] == [
        f"{box}, {line}" for box, lines in BOXES.items() for line in range(1, lines + 1)
    ]


def test_every_test_that_was_written_for_a_claim_is_named_by_one() -> None:
    named = {name.partition("[")[0] for table in TABLES.values() for one in table for name in one.tests}
    written = {
        f"{file}::{test}"
        for file in (claim.FIGURE_2, claim.KIP_595, claim.KIP_996)
        for test in functions_in(file)
        if test.startswith("test_")
    }
    assert written <= named


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert exists(claim.figure("figure_7"))
    assert not exists(claim.figure("figure_9"))
    assert not exists(f"{claim.FIGURE_2}::test_of_nothing")
    assert not exists("nowhere.py::test_of_nothing")
    assert not exists(f"{claim.FIGURE_2}::leader_of_epoch_1")


def test_a_claim_that_does_not_hold_says_what_does() -> None:
    deviating = [one for table in TABLES.values() for one in table if one.instead]
    assert all(isinstance(one, Claim) and one.instead.endswith(".") for one in deviating)
    assert deviating
