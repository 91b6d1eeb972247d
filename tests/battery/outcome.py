"""The outcomes of a case of the battery, and a count of them.

`WRONG` is the only failure: a bad byte was read, something flushed is gone in silence, a record appeared that nobody
wrote, damage that costs time only took a log out of use, or an error had no type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    EXACT = "exact"
    TAIL_LOST = "unsynced tail lost"
    REFUSED = "refused"
    REPAIRED = "repaired from a peer"
    WRONG = "WRONG"


class Result(NamedTuple):
    """One case: what was done, what it came to, and, if that is wrong, why."""

    what: str
    outcome: Outcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of the battery to run: every case, or a sample that the seed shifts."""

    whole: bool = False
    seed: int = 0
    backwards: bool = False
    """The same cases, the last one first."""
    share: float = 1.0
    """So much of a sample."""

    def of(self, cases: int, enough: int) -> range:
        """Which of `cases` to run, by number from 0: all in the whole battery, else about `enough`, spread evenly."""
        step = 1 if self.whole else max(1, cases // max(1, round(enough * self.share)))
        chosen = range(self.seed % step, cases, step)
        return chosen[::-1] if self.backwards else chosen


@dataclass
class Tally:
    """Results of one part, counted."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    wrong: list[Result] = field(default_factory=list)

    def add(self, results: Iterable[Result]) -> Tally:
        for result in results:
            self.counts[result.outcome] += 1
            if result.outcome is Outcome.WRONG:
                self.wrong.append(result)
        return self

    @property
    def cases(self) -> int:
        return self.counts.total()


def cases_until_wrong(results: Iterator[Result]) -> tuple[int, Result | None]:
    """How many cases it took until something was wrong, and what that was; None when nothing was."""
    count = 0
    try:
        for result in results:
            count += 1
            if result.outcome is Outcome.WRONG:
                return count, result
    except Exception as error:
        return count + 1, Result("making the cases", Outcome.WRONG, repr(error))
    return count, None
