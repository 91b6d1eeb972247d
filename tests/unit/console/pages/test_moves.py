"""The plan's goals are a few known words, whatever the address says."""

from __future__ import annotations

import pytest

from penstock.console.fields import FieldError
from penstock.console.pages.moves import show_plan
from tests.support.console_pages import view_of


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (",".join(["leaders"] * 10_000), "a goal is given twice"),
        ("leaders,leaders", "a goal is given twice"),
        ("leaders," * 3, "a goal is given twice"),
        ("leaders,", "'' must be one of"),
        ("dirs", "'dirs' must be one of replicas, leaders, bytes"),
        ("x" * 10_000, "'" + "x" * 64 + "' must be one of"),
    ],
)
def test_goals_that_are_repeated_or_unknown_are_refused_before_anything_is_asked(by: str, expected: str) -> None:
    with pytest.raises(FieldError, match=f"^by: {expected}") as failure:
        view_of(show_plan, object(), by=by)
    assert len(str(failure.value)) < 200
