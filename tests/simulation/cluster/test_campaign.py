"""The end of a campaign says what it came to; rows that were kept say the same again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.cluster.run import Kinds, main, report
from tests.simulation.cluster.world import Outcome


def outcomes() -> list[tuple[Outcome, float]]:
    good = Outcome(1, seconds=30.0, steps=9_000, acked=5, given_back=4, faults=Counter({"KILL": 2}))
    good.met["KILL", "ELECTING"] = 2
    good.throttles.update(changed=3, held=7)
    good.producers.update(duplicates=1_000, unknown=0)
    bad = Outcome(2, ["lost-write: 1"], seconds=42.0, steps=3_000, faults=Counter({"KILL": 1}))
    bad.throttles["changed"] = 1
    bad.producers["duplicates"] = 2
    return [(good, 1.0), (bad, 2.0)]


def test_rows_of_two_campaigns_are_summed_up_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    assert report(outcomes()[:1], "", log=False, rows=rows) == 0
    assert report(outcomes()[1:], Kinds(30.0, voters=True).words, log=False, rows=rows) == 1
    assert "cluster --voters --seed 2 --transcript" in capsys.readouterr().out
    assert main(["--sum", str(rows)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("KILL ") and line.split()[1:4] == ["3", "·", "2"] for line in lines)
    assert "producers: duplicates 1,002, unknown 0" in lines
    assert "throttles: in 2 seeds; copies held 7, in 1 of them" in lines
    assert "elections: 4 by schedule, in 1 seeds" in lines
    assert lines[-3].startswith("2 seeds, 1 failed; 0.02 hours simulated; 12,000 events")
    assert lines[-2] == "4,000 events and 24.0 simulated seconds in a second of one processor"
    assert lines[-1] == "failed: 2"
