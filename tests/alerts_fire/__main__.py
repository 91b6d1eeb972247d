"""Makes every alert fire: `python -m tests.alerts_fire [FAULT …]`.

Each fault of cases.py strikes a real cluster of three nodes under a real Prometheus, with some seconds for each minute
of the rules. The alerts that the table names must fire, no other may, and all must be gone after the fault is healed.
Prints what fired after how many seconds, and what was gone how many seconds after the remedy. Exit code 1 when a fault
was not judged right.
"""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import dataclass

from tests.alerts_fire.cases import CASES, Case
from tests.alerts_fire.stage import OF_THE_MACHINE, WAIT_S_MAX, FaultError, Stage, stage, until

HELD_MINUTES = 6
"""A fault lasts so long at least, in minutes of the rules: most conditions must hold for 5."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one fault did; seconds after the fault, and after its remedy."""

    case: Case
    came_s: dict[str, float]
    went_s: dict[str, float]
    missing: frozenset[str]
    left: frozenset[str]

    @property
    def beside(self) -> frozenset[str]:
        """The alerts that should not have fired."""
        return frozenset(self.came_s) - self.case.must_fire - self.case.may_fire - OF_THE_MACHINE

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.left or self.beside)

    def lines(self) -> list[str]:
        told = []
        for name, came_s in sorted(self.came_s.items(), key=lambda item: item[1]):
            if name in OF_THE_MACHINE - self.case.must_fire:
                continue
            why = "must" if name in self.case.must_fire else "may" if name in self.case.may_fire else "MUST NOT"
            told.append(f"| {self.case.name} | {name} | {why} | {came_s:.0f} | {self.went_s[name]:.0f} |")
        told += [f"| {self.case.name} | {name} | must | DID NOT COME | |" for name in sorted(self.missing)]
        told += [f"| {self.case.name} | {name} | | | DID NOT GO |" for name in sorted(self.left)]
        return told


def run(case: Case, seconds_per_minute: int) -> Outcome:
    """One fault and its remedy, on a cluster of its own."""
    with stage(case.setting, seconds_per_minute) as here:
        with case.fault(here):
            until(lambda: _has_come(here, case))
            lasted_s = time.time() - here.began_s[-1]
            until(lambda: False, max(0.0, HELD_MINUTES * seconds_per_minute - lasted_s))
            came, healing_s = frozenset(here.fired()) | {name for name, _ in here.firing_nodes()}, time.time()
        judged = case.must_fire | (frozenset(here.fired()) - OF_THE_MACHINE)
        until(lambda: here.all_are_scraped() and not judged & {name for name, _ in here.firing_nodes()})
        fired, left = here.fired(), frozenset(judged & {name for name, _ in here.firing_nodes()})
    return Outcome(
        case,
        {name: first_s - here.began_s[-1] for name, (first_s, _) in fired.items()},
        {name: max(0.0, last_s - healing_s) for name, (_, last_s) in fired.items()},
        case.must_fire - came,
        left,
    )


def _has_come(here: Stage, case: Case) -> bool:
    """Whether all that must fire fires; what speaks of the machine, for every node of it."""
    firing = here.firing_nodes()
    names = {name for name, _ in firing}
    busy = case.must_fire & OF_THE_MACHINE
    return case.must_fire <= names and all(sum(name == one for name, _ in firing) == len(here.cluster) for one in busy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="all, if none is named")
    parser.add_argument("--seconds-per-minute", type=int, default=4, help="of the rules (default: 4, at least 3)")
    args = parser.parse_args()
    known = {case.name: case for case in CASES}
    unknown = [name for name in args.faults if name not in known]
    if unknown or args.seconds_per_minute < 3:
        parser.error(f"the faults are {', '.join(known)}" if unknown else "--seconds-per-minute is at least 3")
    if shutil.which("prometheus") is None:
        raise SystemExit("prometheus is not on the path: install it (Debian: apt install prometheus)")
    print(f"A minute of the rules is {args.seconds_per_minute} s; nothing waits longer than {WAIT_S_MAX} s.\n")
    print("| fault | alert | | fired after s | gone after s |\n| --- | --- | --- | --- | --- |", flush=True)
    wrong = []
    for name in args.faults or known:
        try:
            outcome = run(known[name], args.seconds_per_minute)
        except FaultError as error:
            print(f"| {name} | {error} | | | |", flush=True)
            wrong.append(name)
            continue
        print("\n".join(outcome.lines()), flush=True)
        wrong += [] if outcome.is_right else [name]
    print(f"\nWrong: {', '.join(wrong)}" if wrong else "\nAll as the table says.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
