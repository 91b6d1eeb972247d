"""The table of exceptions is true: each is there, has a reason, and is one of an invariant that stands in the docs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests.simulation.cluster.not_judged import NOT_JUDGED, NotJudged

INVARIANTS = (Path(__file__).parents[3] / "docs" / "invariants.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", NOT_JUDGED, ids=lambda row: f"{row.place.__qualname__}: {row.condition}")
def test_an_exception_stands_where_the_table_says(row: NotJudged) -> None:
    assert inspect.getsource(row.place).count(row.condition) == 1
    assert row.reason
    assert set(row.invariants) <= set(re.findall(r"^\| (I\d+) \|", INVARIANTS, re.MULTILINE))


def test_the_page_of_invariants_names_the_table_and_has_no_exceptions_besides() -> None:
    assert "tests/simulation/cluster/not_judged.py" in INVARIANTS
    assert "Not judged" not in INVARIANTS
