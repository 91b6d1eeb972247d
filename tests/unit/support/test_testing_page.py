"""docs/testing.md counts the mutants that there are."""

from __future__ import annotations

from pathlib import Path

from tests.battery.mutants import MUTANTS as BATTERY_MUTANTS
from tests.simulation.raft.mutants import PATCHES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")


def test_the_page_counts_the_mutants_of_each_suite() -> None:
    row = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| ") and "`tests/" in line}
    assert f"; {len(PATCHES)} mutants |" in row["tests/simulation/raft/"]
    assert f"and {len(BATTERY_MUTANTS)} mutants" in row["tests/property/storage/test_battery.py"]
