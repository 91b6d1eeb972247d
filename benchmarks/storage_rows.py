"""The rows of benchmarks/storage.py: what was measured, beside what, the goal, and how a rate is taken.

A rate is the best of several rounds in which our code and the bare one take turns, because the machine has other work
and only ever makes things slower. Each round is timed twice, by the wall and by this process's CPU: `ratio` is the
wall's, `cpu_ratio` is what it would be on a machine with nothing else to do.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

Work = Callable[[], object]
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done: `FULL` for figures, `QUICK` to see that everything runs."""

    rounds: int
    log_mib: int
    segment_mib: int
    partitions: tuple[int, ...]
    seconds: float


FULL = Scale(rounds=7, log_mib=256, segment_mib=1024, partitions=(1_000, 5_000), seconds=2.0)
QUICK = Scale(rounds=2, log_mib=64, segment_mib=128, partitions=(200,), seconds=0.3)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `goal` is a lower bound of `goal_on`, which is the ratio or the value."""

    section: str
    what: str
    value: float
    unit: str
    bare: float | None = None
    ratio: float | None = None
    cpu_ratio: float | None = None
    goal: float | None = None
    goal_on: str = "ratio"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None where there is no goal."""
        measured = self.ratio if self.goal_on == "ratio" else self.value
        return None if self.goal is None or measured is None else measured >= self.goal

    def as_json(self) -> str:
        """One line, without what does not apply."""
        fields = {name: value for name, value in asdict(self).items() if value is not None and value != ""}
        if self.goal is None:
            del fields["goal_on"]
        else:
            fields["met"] = self.met
        return json.dumps({"benchmark": "storage"} | fields)


@dataclass(frozen=True, slots=True)
class Seconds:
    """The best of all rounds."""

    wall: float
    cpu: float

    def better(self, other: Seconds) -> Seconds:
        return Seconds(min(self.wall, other.wall), min(self.cpu, other.cpu))


NEVER = Seconds(float("inf"), float("inf"))


def best_of(rounds: int, *works: Work) -> list[Seconds]:
    """Runs each work once a round, in turns. What a work returns is called afterwards, off the clock, if it can be."""
    best = [NEVER] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            best[at] = best[at].better(timed(work))
    return best


def timed(work: Work) -> Seconds:
    """One run. The collector stays out of it: what is made has no cycles, and it would land on whoever is running."""
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        took = Seconds(time.perf_counter() - wall, time.process_time() - cpu)
    finally:
        gc.enable()
    if callable(result):
        result()
    return took


def rate_row(section: str, what: str, total_bytes: int, ours: Seconds, bare: Seconds, goal: float | None = None) -> Row:
    """MB/s beside the bare loop's."""
    return Row(
        section,
        what,
        round(total_bytes / ours.wall / 1e6, 1),
        "MB/s",
        round(total_bytes / bare.wall / 1e6, 1),
        round(bare.wall / ours.wall, 3),
        round(bare.cpu / ours.cpu, 3) if ours.cpu else None,
        goal,
    )


def print_table(rows: Sequence[Row]) -> None:
    """Everything once more, for people."""
    print(f"\n{'':64} {'measured':20} {'bare':>12} {'ratio':>7} {'by CPU':>7}  goal")
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            print(f"{section}")
        ratios = f"{_number(row.ratio):>7} {_number(row.cpu_ratio):>7}"
        line = f"  {row.what:62} {_number(row.value):>10} {row.unit:9} {_number(row.bare):>12} {ratios}"
        print(f"{line}  {_goal(row)}{row.note}".rstrip())


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    bound = f"≥ {row.goal:g}×" if row.goal_on == "ratio" else f"≥ {row.goal:,.0f} {row.unit}"
    return f"{bound} {'met' if row.met else 'MISSED'} "


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def all_met(rows: Iterable[Row]) -> bool:
    return all(row.met is not False for row in rows)
