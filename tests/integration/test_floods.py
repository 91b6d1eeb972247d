"""A small part of `python -m tests.attack --floods`: two floods beside honest clients, its own eyes, its mutants."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from dataclasses import replace

import pytest

from tests.attack.floods import campaign, mutant_node
from tests.attack.floods.campaign import ROOT, Settings, run
from tests.attack.floods.measures import Acts, Beside, Node
from tests.attack.floods.mutant_table import MUTANTS, Mutant
from tests.attack.floods.mutants import NOT_NOTICED, NOTICED, UNDECIDED, judged
from tests.attack.floods.stage import IDS_MAX, Stage, sources_of
from tests.attack.floods.table import FLOODS, ROWS, Bounds, Row
from tests.attack.floods.unplayed import UNPLAYED
from tests.attack.floods.verdict import MACHINE, MISSED, OK, Played, line

SMALL = Settings(seconds=2.0, alone_s=1.0)
SMALL_RATE = 0.25
"""The share of alone that is asked, not the campaign's 0.5: alone is four acts in a second here."""
SMALL_FLOODS = ("announced-frames/stranger/1", "unread-small-answers/mallory/1")
ROW = Row("announced-frames", "stranger", 3)
WELL, SLOW, PAUSED = Beside(4.0, 3.9, 0.4), Beside(4.0, 1.9, 1.0), Beside(4.0, 3.0, 3.5)


def test_honest_clients_work_beside_frames_that_never_come_and_answers_that_nobody_reads() -> None:
    rows = [replace(row, bounds=replace(row.bounds, rate=SMALL_RATE)) for row in ROWS if row.name in SMALL_FLOODS]
    played = run(rows, SMALL, lambda one: None)
    assert len(played) == len(SMALL_FLOODS)
    assert [one.misses for one in played if one.verdict == MISSED] == []
    assert all(one.figures["opened"] > 0 for one in played), "nobody was flooded"


@pytest.mark.parametrize(
    ("played", "verdict"),
    [
        (Played(ROW, {"a": WELL}), OK),
        (Played(ROW, {"a": WELL, "b": SLOW}), MISSED),
        (Played(ROW, {"a": PAUSED}), MISSED),
        (Played(ROW, {"a": SLOW}, control={"a": WELL}), MISSED),
        (Played(ROW, {"a": SLOW}, control={"a": SLOW}), MACHINE),
        (Played(ROW, {"a": SLOW, "b": PAUSED}, control={"a": SLOW, "b": WELL}), MISSED),
        (Played(ROW, {"a": WELL}, Node(129, 0, 0)), MISSED),
        (Played(ROW, {"a": WELL}, Node(0, 501, 0)), MISSED),
        (Played(ROW, {"a": WELL}, Node(0, 0, 33)), MISSED),
        (Played(ROW, {"a": WELL}, figures={"log_kib": 161}), MISSED),
        (Played(ROW, {"a": WELL}, facts=["the node ended"]), MISSED),
        (Played(replace(ROW, bounds=Bounds(figures={"oldest_s": 5})), {"a": WELL}, figures={"oldest_s": 6}), MISSED),
    ],
)
def test_a_flood_is_judged_by_each_of_its_bounds(played: Played, verdict: str) -> None:
    assert played.verdict == verdict
    assert verdict in line(played)


def test_a_rate_and_a_pause_count_from_the_first_moment_to_the_last() -> None:
    acts = Acts()
    for at in (9.9, 10.5, 11.0, 13.0, 20.1):
        acts.heard(f"ok log-in {at}\n")
    acts.heard("bad log-in 12.0 TimedOutError('too late')\n")
    assert acts.rate("log-in", 10, 20) == pytest.approx(0.3)
    assert acts.pause("log-in", 10, 20) == 7.0
    assert acts.pause("nothing", 10, 20) == 10.0
    assert acts.errors(10, 20) == ["log-in: TimedOutError('too late')"]


def test_a_stage_is_spent_before_its_honest_clients_have_filled_their_share_with_ids() -> None:
    stage = Stage(is_plain=True)
    for number in range(IDS_MAX - 1):
        stage.acts.heard(f"ok new-transactional-id {number}.5\n")
    assert not stage.is_spent
    stage.acts.heard("ok new-transactional-id 999.5\n")
    assert stage.is_spent


def test_a_row_after_a_spent_stage_gets_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[_PaintedStage]()

    def new_stage(**how: object) -> _PaintedStage:
        opened.append(_PaintedStage())
        return opened[-1]

    def play(stage: _PaintedStage, row: Row, *rest: object) -> Played:
        stage.played.append(row)
        return Played(row, {"a": WELL})

    monkeypatch.setattr(campaign, "Stage", new_stage)
    monkeypatch.setattr(campaign, "_begun", lambda *order: nullcontext())
    monkeypatch.setattr(campaign, "play", play)
    rows = [replace(ROW, addresses=number) for number in range(1, 6)]
    assert len(run(rows, SMALL, lambda one: None)) == len(rows)
    assert [len(stage.played) for stage in opened] == [2, 2, 1]
    assert all(stage.is_closed for stage in opened)


class _PaintedStage:
    """It is spent by two rows."""

    def __init__(self) -> None:
        self.played, self.is_closed = list[Row](), False

    @property
    def is_spent(self) -> bool:
        return len(self.played) >= 2

    def __enter__(self) -> _PaintedStage:
        return self

    def __exit__(self, *raised: object) -> None:
        self.is_closed = True


def test_two_floods_of_strangers_share_no_network() -> None:
    """The node shuts a network out for a minute, and the next flood would be none."""
    ours, next_ones = set(sources_of(replace(ROW, addresses=120), 1)), set(sources_of(ROW, 2))
    assert len(ours) == 120
    assert not ours & next_ones
    assert sources_of(replace(ROW, is_neighbour=True), 3) == ("",)


def test_every_row_has_a_flood_and_a_name_of_its_own() -> None:
    assert {row.flood for row in ROWS} <= set(FLOODS)
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_names_what_there_is(mutant: Mutant) -> None:
    """A limit that was renamed would be taken away no more."""
    assert mutant.flood in {row.name for row in ROWS}
    if mutant.attribute:
        mutant_node.found(mutant.attribute)
    assert bool(mutant.attribute) is not bool(mutant.config)


@pytest.mark.parametrize("limit", UNPLAYED)
def test_a_limit_that_no_flood_shows_has_a_test_that_is_there(limit: str) -> None:
    path, _, name = UNPLAYED[limit].partition("::")
    found = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    assert name in {one.name for one in found if isinstance(one, ast.FunctionDef)}
    assert limit not in {mutant.name for mutant in MUTANTS}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (Played(ROW, {"a": WELL}), Played(ROW, {"a": SLOW}), NOTICED),
        (Played(ROW, {"a": WELL}), Played(ROW, {"a": WELL}, Node(129, 0, 0)), NOTICED),
        (Played(ROW, {"a": WELL}), Played(ROW, {"a": WELL}), NOT_NOTICED),
        (Played(ROW, {"a": SLOW}), Played(ROW, {"a": PAUSED}), UNDECIDED),
        (Played(ROW, {"a": SLOW}), Played(ROW, {"a": SLOW}, Node(129, 0, 0)), NOTICED),
    ],
)
def test_a_mutant_is_noticed_by_a_bound_that_holds_without_it(before: Played, after: Played, verdict: str) -> None:
    assert judged(before, after) == verdict
