"""How much the suite runs: a part before each merge, the whole at night, where PENSTOCK_LONG_TESTS=1 asks for it.

A test of drawn cases asks `usually` how many it draws, or which of its cases it plays. A test or a case that the night
alone has is marked `@pytest.mark.long`; tests/conftest.py leaves it out, and pytest counts it as deselected.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
IS_LONG = bool(os.environ.get("PENSTOCK_LONG_TESTS"))


def usually(part: T, *, long: T) -> T:
    """The one that this run has time for."""
    return long if IS_LONG else part


def at_night(cases: Iterable[T], long: Collection[T]) -> list[Any]:
    """All cases for `parametrize`, of which those of `long` run at night alone."""
    given = list(cases)
    assert not (unknown := [case for case in long if case not in given]), unknown
    return [pytest.param(case, marks=pytest.mark.long) if case in long else case for case in given]


def leave_out_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests that the night alone has, unless this is the night."""
    left_out = [] if IS_LONG else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
