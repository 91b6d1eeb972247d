"""The storage battery at small size: nothing is WRONG, and every mistake made on purpose is noticed.

Whole: `python -m tests.battery --whole --mutants`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.battery.__main__ import PARTS
from tests.battery.mutants import MUTANTS, cases_to_kill
from tests.battery.outcome import Outcome, Size, Tally

SMALL = Size()
EXPECTED = {
    "damage": {Outcome.EXACT, Outcome.REFUSED, Outcome.TAIL_LOST},
    "crashes": {Outcome.EXACT, Outcome.TAIL_LOST},
    "failures": {Outcome.EXACT, Outcome.TAIL_LOST},
    "repair": {Outcome.REPAIRED},
}
"""The outcomes that some cases must have, or the part does not do what it says."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of recoveries have thousands of warnings."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_wrong(part: str) -> None:
    tally = Tally().add(PARTS[part](SMALL))

    assert "\n".join(f"{result.what}: {result.why}" for result in tally.wrong) == ""
    assert {outcome for outcome in Outcome if tally.counts[outcome]} >= EXPECTED[part]


@pytest.mark.parametrize("name", MUTANTS)
def test_mistake_is_noticed(name: str) -> None:
    cases, noticed = cases_to_kill(MUTANTS[name], SMALL)

    assert noticed is not None, f"{name} survived {cases} cases"
