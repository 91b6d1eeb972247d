"""Makes every alert fire: `python -m tests.alerts_fire [FAULT …]`.

Each fault of cases.py strikes a real cluster of three nodes under a real Prometheus, with some seconds for each minute
of the rules. The alerts that the table names must fire, no other may, and all must be gone after the fault is healed.
What their pages look for in the nodes' logs must be there. Prints a row for each fault: what fired after how many
seconds, what was gone how many seconds after the remedy, what else fired, and how long the whole took. It is wrong when
a fault was not judged right, or could not be made.
"""

from __future__ import annotations

import shutil
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.alerts_fire import runbook_lines
from tests.alerts_fire.cases import CASES, Case
from tests.alerts_fire.stage import OF_THE_MACHINE, WAIT_S_MAX, FaultError, Stage, stage, until
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option

HELD_MINUTES = 6
"""A fault lasts so long at least, in minutes of the rules: most conditions must hold for 5."""
HEAD = ("| fault | fired, s after it | gone, s after the remedy | others | s |", "| --- | --- | --- | --- | --- |")
KNOWN = {case.name: case for case in CASES}


@dataclass(frozen=True, slots=True)
class Options:
    faults: tuple[str, ...] = option((), "all, if none is named", positional=True, metavar="FAULT")
    seconds_per_minute: int = option(4, "of the rules, at least 3")

    def __post_init__(self) -> None:
        if set(self.faults) - KNOWN.keys():
            raise ValueError(f"the faults are {', '.join(KNOWN)}")
        if self.seconds_per_minute < 3:
            raise ValueError("--seconds-per-minute is at least 3")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one fault; seconds after the fault, and after its remedy."""

    case: Case
    came_s: Mapping[str, float]
    went_s: Mapping[str, float]
    missing: frozenset[str]
    left: frozenset[str]
    whole_s: float
    mute: list[str] = field(default_factory=list)
    """Commands of the alerts' pages that find no line in any node's log."""

    @property
    def beside(self) -> frozenset[str]:
        """The alerts that should not have fired."""
        return frozenset(self.came_s) - self.case.must_fire - self.case.may_fire - OF_THE_MACHINE

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.left or self.beside or self.mute)

    def row(self) -> str:
        """A line of the table that HEAD begins: alerts without `Penstock`, in brackets what may fire but need not."""
        judged = self.case.must_fire | (self.case.may_fire & self.came_s.keys())
        wanted = sorted(judged, key=lambda name: self.came_s.get(name, WAIT_S_MAX))
        fired = [_cell(self.case, name, None if name in self.missing else self.came_s[name]) for name in wanted]
        came = [name for name in wanted if name in self.came_s]
        gone = [_cell(self.case, name, None if name in self.left else self.went_s[name]) for name in came]
        others = [f"{_short(name)} WRONG" for name in sorted(self.beside)]
        others += [f"`{command}` FINDS NOTHING" for command in self.mute]
        others += [f"({_short(name)})" for name in sorted(OF_THE_MACHINE & self.came_s.keys() - judged)]
        cells = [self.case.name, ", ".join(fired), ", ".join(gone), ", ".join(others) or "none", f"{self.whole_s:.0f}"]
        return f"| {' | '.join(cells)} |"


def _cell(case: Case, name: str, seconds: float | None) -> str:
    cell = f"{_short(name)} {'NEVER' if seconds is None else format(seconds, '.0f')}"
    return cell if name in case.must_fire else f"({cell})"


def _short(name: str) -> str:
    return name.removeprefix("Penstock")


def strike(case: Case, seconds_per_minute: int) -> Outcome:
    """One fault and its remedy, on a cluster of its own."""
    opened_s, not_judged = time.monotonic(), OF_THE_MACHINE - case.must_fire
    with stage(case.setting, seconds_per_minute) as here:
        paths = [here.cluster.log_path(node) for node in range(len(here.cluster))]
        logs = {path: path.stat().st_size for path in paths}
        with case.fault(here):
            until(lambda: _has_come(here, case))
            lasted_s = time.time() - here.began_s[-1]
            until(lambda: False, max(0.0, HELD_MINUTES * seconds_per_minute - lasted_s))
            came, healing_s = frozenset(here.fired()) | here.firing(), time.time()
            mute = list(runbook_lines.that_find_nothing(case.must_fire, logs))
        until(lambda: here.all_are_scraped() and here.firing() <= not_judged)
        fired, left = here.fired(), here.firing() - not_judged
    return Outcome(
        case,
        {name: first_s - here.began_s[-1] for name, (first_s, _) in fired.items()},
        {name: max(0.0, last_s - healing_s) for name, (_, last_s) in fired.items()},
        case.must_fire - came,
        left,
        time.monotonic() - opened_s,
        mute,
    )


def _has_come(here: Stage, case: Case) -> bool:
    """True if all that must fire fires; the alerts that speak of the machine, for every node of it."""
    firing = here.firing_nodes()
    names = {name for name, _ in firing}
    busy = case.must_fire & OF_THE_MACHINE
    return case.must_fire <= names and all(sum(name == one for name, _ in firing) == len(here.cluster) for one in busy)


def play(run: Run[Options]) -> None:
    if shutil.which("prometheus") is None:
        raise SystemExit("prometheus is not on the path: install it (Debian: apt install prometheus)")
    run.say(f"A minute of the rules is {run.options.seconds_per_minute} s; nothing waits longer than {WAIT_S_MAX} s.")
    run.report.table += HEAD
    for name in run.options.faults or KNOWN:
        try:
            outcome = strike(KNOWN[name], run.options.seconds_per_minute)
            row, is_right = outcome.row(), outcome.is_right
        except Exception as error:  # whatever a fault meets, the others are still made
            if not isinstance(error, FaultError):
                traceback.print_exc()
            row, is_right = f"| {name} | NOT MADE: {error} | | | |", False
        run.say(row)
        run.report.table.append(row)
        if not is_right:
            run.report.wrong(name, row)


CAMPAIGN = Campaign("tests.alerts_fire", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
