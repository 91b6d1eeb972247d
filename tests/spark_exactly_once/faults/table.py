"""The faults, and how a seed draws them: one of each kind in each run, its numbers from a stream of its own.

The variants of a kind come in turn, seed after seed, in an order that is shuffled for each kind: as many seeds in a row
as a kind has variants play them all. A fault that is played alone (`--only`) has the numbers that it has in the run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.spark_exactly_once.faults import checkpoints, tasks, writes
from tests.spark_exactly_once.faults.stage import Stage, stage_in
from tests.support.campaign.frame import Report, Say

Play = Callable[[Stage, random.Random], None]
LOST_PLANS, SET_BACK, TASKS = "lost-plans", "set-back-checkpoints", "failed-tasks"
NAMES, JOINED, SLOW = "names", "joined", "slow-batches"
FAULTS: dict[str, tuple[Play, ...]] = {
    LOST_PLANS: (
        checkpoints.plan_with_as_many_other_rows,
        checkpoints.plan_with_more_rows,
        checkpoints.plan_before_the_decision,
        checkpoints.note_of_the_commit,
        checkpoints.decision,
    ),
    SET_BACK: (
        checkpoints.one_batch_and_the_topic_grew,
        checkpoints.one_batch_and_the_topic_is_as_it_was,
        checkpoints.further,
    ),
    TASKS: (
        tasks.dies_once,
        tasks.pythons_are_killed_once,
        tasks.pythons_are_killed_always,
        tasks.a_machine_is_lost,
        tasks.twin,
        tasks.dies_for_good,
        tasks.the_only_task_dies_for_good,
        tasks.a_row_that_no_topic_takes,
        tasks.batch_write,
    ),
    NAMES: (writes.alike, writes.renamed, writes.one_name_for_two_topics, writes.second_run),
    JOINED: (
        writes.a_table_that_grew,
        writes.a_table_that_is_as_it_was,
        writes.two_topics_into_one,
        writes.two_writes_of_a_batch,
    ),
    SLOW: (tasks.too_long, tasks.more_than_half_as_long),
}
"""By kind."""
NOT_PLAYED = "not-played"
"""A fault that could not be played to its end; it is no verdict about the product."""
NOT_HERE = "a broker or a coordinator is lost"
"""The row of the page that the kills of campaign.py play alone."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one run."""

    kind: str
    play: Play
    seed: int

    @property
    def name(self) -> str:
        return name_of(self.kind, self.play)

    def draw(self) -> random.Random:
        return random.Random(f"{self.seed} {self.name}")


def name_of(kind: str, play: Play) -> str:
    return f"{kind}/{play.__name__.replace('_', '-')}"


def names() -> list[str]:
    return [name_of(kind, play) for kind, plays in FAULTS.items() for play in plays]


def drawn(seed: int) -> list[Fault]:
    """The faults of a run, in a drawn order."""
    found = []
    for kind, plays in FAULTS.items():
        order = random.Random(kind).sample(plays, len(plays))
        found.append(Fault(kind, order[seed % len(order)], seed))
    return random.Random(seed).sample(found, len(found))


def named(only: Sequence[str], seed: int) -> list[Fault]:
    """The faults whose names have one of these words."""
    return [
        Fault(kind, play, seed)
        for kind, plays in FAULTS.items()
        for play in plays
        if any(word in name_of(kind, play) for word in only)
    ]


def play(
    directory: Path,
    faults: Iterable[Fault],
    report: Report,
    say: Say,
    staged: Callable[[Path], AbstractContextManager[Stage]] = stage_in,
) -> None:
    """Plays the faults on one session of Spark and one node."""
    directory.mkdir()
    played = report.figures.setdefault("played", {})
    with staged(directory) as stage:
        for fault in faults:
            began, stage.problems, outcome = time.monotonic(), [], "as promised"
            try:
                fault.play(stage, fault.draw())
            except Exception as error:  # the faults that follow are played all the same
                outcome = f"not played: {type(error).__name__}"
                report.wrong(NOT_PLAYED, f"{fault.name}: {type(error).__name__}: {error}")
            report.all_wrong(fault.name, stage.problems)
            played[fault.name] = round(time.monotonic() - began, 1)
            say(f"{fault.name}: {'; '.join(stage.problems) or outcome}, {played[fault.name]} s")
