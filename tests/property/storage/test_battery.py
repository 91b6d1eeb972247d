"""The storage battery at small size: nothing is WRONG, and every mistake made on purpose is noticed.

Whole: `python -m tests.battery --whole --mutants`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.battery.__main__ import PARTS
from tests.battery.crashes import inside_recovery
from tests.battery.history import History
from tests.battery.mutants import MUTANTS, cases_to_kill
from tests.battery.outcome import Outcome, Size, Tally
from tests.battery.scripts import every_change
from tests.battery.workload import Workload
from tests.support.amount import at_night, usually
from tests.support.losing_fs import LosingFileSystem

SHARES = {"damage": 0.1, "crashes": 0.1, "failures": 0.2, "repair": 0.2}
"""The least with which each part has the outcomes that it must have."""
QUICK = (
    "acks before the flush",
    "skips the fsync of directories",
    "takes a shortage for a broken disk",
    "deletes a stray directory",
    "retries a failed fsync",
    "forgets epochs",
    "remembers four batches",
)
"""Mistakes that are noticed before each merge, some of each kind and each soon; the others are left to the night."""
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
    tally = Tally().add(PARTS[part](Size(share=usually(SHARES[part], long=1.0))))

    assert "\n".join(f"{result.what}: {result.why}" for result in tally.wrong) == ""
    assert {outcome for outcome in Outcome if tally.counts[outcome]} >= EXPECTED[part]


def test_a_power_cut_in_the_start_after_a_kill_loses_nothing_of_a_swap() -> None:
    """The swap's name is not durable when the process is killed; the start removes what it replaces."""
    whole = LosingFileSystem()
    every_change(Workload(whole))
    named = [at for at, operation in enumerate(whole.trace) if operation.endswith(".log.swap")]
    fs = LosingFileSystem()
    moments: list[tuple[LosingFileSystem, History]] = []
    node = Workload(fs)

    def watch(now: LosingFileSystem) -> None:
        if now.operations - 1 in named:
            moments.append((now.snapshot(), node.history.copy()))

    fs.watch = watch
    every_change(node)
    assert len(moments) == len(named) > 2
    for seed, (disk, history) in enumerate(usually(moments[:1], long=moments)):
        for result in inside_recovery("killed", disk, history, seed, Size(whole=True)):
            assert result.outcome is not Outcome.WRONG, result


@pytest.mark.parametrize("name", at_night(MUTANTS, [name for name in MUTANTS if name not in QUICK]))
def test_mistake_is_noticed(name: str) -> None:
    cases, noticed = cases_to_kill(MUTANTS[name], Size())

    assert noticed is not None, f"{name} survived {cases} cases"
