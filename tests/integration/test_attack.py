"""A small part of `python -m tests.attack`: one secured node, every RPC of both protocols, no hole; and its own
eyes."""

from __future__ import annotations

import pytest

from tests.attack.campaign import ATTACKERS, Size, run
from tests.attack.guesses import differ
from tests.attack.verdict import HOLE, LOGIN, RIGHTS, TOLD, Outcome, Secrets, Table
from tests.support.amount import usually

SMALL = Size(nodes=1, every_version=False, one_of=usually(6, long=1), timed_refusals=0, guess_s=0.5, half_handshakes=0)
EYES = Secrets((b"hidden",), ("sesame",), ("nobody",))


def test_nobody_without_a_key_reads_changes_or_stops_anything() -> None:
    report = run(SMALL, lambda text: None)
    assert report.holes == []
    assert set(report.table.calls) == set(ATTACKERS)
    assert len(report.table.cells) > 110 and report.table.calls.total() > usually(1_000, long=3_000)


@pytest.mark.parametrize(
    ("there", "missing", "hole"),
    [
        (Outcome(TOLD, b"ok"), Outcome(TOLD, b"ok"), "was not refused"),
        (Outcome(HOLE, b"code 42"), Outcome(HOLE, b"code 42"), "was not refused"),
        (Outcome(RIGHTS, b"sesame: hidden"), Outcome(RIGHTS, b"nobody: hidden"), "the answer has hidden"),
        (Outcome(RIGHTS, b"sesame"), Outcome(RIGHTS, b"sesame"), "the answer has sesame"),
        (Outcome(RIGHTS, b"sesame"), Outcome(RIGHTS, b"nobody is not there"), "tells what is there"),
        (Outcome(RIGHTS, b""), Outcome(LOGIN, b""), "tells what is there"),
    ],
)
def test_a_hole_is_seen(there: Outcome, missing: Outcome, hole: str) -> None:
    table = Table()
    table.judge("Rpc", "somebody", {"there": there, "missing": missing}, EYES, may_be_told=False)
    assert any(hole in one for one in table.holes)


def test_what_is_refused_alike_is_none() -> None:
    table = Table()
    outcomes = {"there": Outcome(RIGHTS, b"not sesame"), "missing": Outcome(RIGHTS, b"not nobody")}
    table.judge("Rpc", "somebody", outcomes | {"wide": Outcome(TOLD, b"")}, EYES, may_be_told=False)
    assert table.holes == [] and table.lines(["somebody"])[1].split() == ["Rpc", RIGHTS]


def test_times_that_tell_users_apart_are_seen_and_the_noise_of_a_busy_machine_is_none() -> None:
    steady = [0.150 + 0.0005 * (turn % 3) for turn in range(30)]
    busy = [0.150 + 0.040 * (turn * 7 % 11) for turn in range(30)]
    assert differ(steady, [one + 0.006 for one in reversed(steady)])
    assert differ(busy, [one + 0.006 for one in busy]), "the same noise in both turns is none between them"
    assert not differ(steady, [one + 0.004 for one in steady])
    assert not differ(busy, [one + 0.006 for one in reversed(busy)])
