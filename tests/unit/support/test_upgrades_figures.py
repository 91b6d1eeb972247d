"""The table of a pass of upgrades: losses, doubles, failures and gaps are in the row of their step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.upgrades.figures import Accounts, Found, Row, rows, table, wrongs
from tests.upgrades.releases import CLIENTS, COMMITS, NOW, release, unpacked

BEGAN = [0.0, 10.0]
PLAIN = {(0, 0): ("a", 1), (0, 1): ("a", 2), (0, 2): ("a", 2)}
TRANSACTIONAL = {(0, 0): ("t", 1)}


def _accounts() -> Accounts:
    return Accounts(
        writers={"w": [[0, 0, "a", 1, 1.0, 2.0], [0, 1, "a", 2, 11.0, 12.5], ["failed", "TimedOut", 13.0]]},
        transactions={"t": [["committed", "t", [1, 2], 14.0, 15.0], ["aborted", "t", [3], 15.5, 16.0]]},
        members={"m": [["load", 0, 0, "a", 1], ["load", 0, 1, "a", 2], ["load", 0, 0, "t", 1]]},
    )


def test_each_step_has_its_own_row() -> None:
    made = rows(BEGAN, _accounts(), Found(PLAIN, TRANSACTIONAL))
    assert made == [Row(acked=1), Row(acked=3, failed=1, lost=1, doubled=1, gap_s=10.5, pause_s=1.0)]
    assert list(table("a pass", ["one", "two"], made))[3] == "| two | 3 | 1 | 1 | 1 | 10.5 | 1.0 |"


def test_an_ack_without_an_offset_is_lost_only_where_the_record_is_nowhere() -> None:
    accounts = Accounts(writers={"w": [[0, None, "a", 1, 1.0, 2.0], [0, None, "a", 9, 11.0, 12.0]]})
    assert [row.lost for row in rows(BEGAN, accounts, Found(PLAIN, {}))] == [0, 1]


def test_all_is_well_where_everything_was_seen_and_nothing_aborted() -> None:
    assert list(wrongs(_accounts(), Found(PLAIN, TRANSACTIONAL))) == []


def test_an_aborted_record_is_told_wherever_it_was_read() -> None:
    accounts = _accounts()
    accounts.members["m"] = [*accounts.members["m"], ["load", 0, 9, "t", 3]]
    found = list(wrongs(accounts, Found(PLAIN, {**TRANSACTIONAL, (0, 9): ("t", 3)})))
    assert [kind for kind, _ in found] == ["aborted-read", "aborted-read"]


def test_a_member_that_was_not_given_a_record_is_told() -> None:
    accounts = _accounts()
    accounts.members["m"] = accounts.members["m"][1:]
    assert [kind for kind, _ in wrongs(accounts, Found(PLAIN, TRANSACTIONAL))] == ["not-consumed"]


def test_a_writer_that_did_nothing_is_told() -> None:
    accounts = _accounts()
    accounts.writers["idle"] = [["failed", "TimedOut", 1.0]]
    assert [kind for kind, _ in wrongs(accounts, Found(PLAIN, TRANSACTIONAL))] == ["idle"]


def test_a_history_without_a_release_is_said_to_lack_it(tmp_path: Path) -> None:
    """As in a shallow clone, or in an unpacked archive."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(
        ValueError, match=r"does not have commit 6baf50e0a5ae, which is release 0\.1\.0: .* --unshallow"
    ):
        unpacked("0.1.0", tmp_path / "tree", tmp_path)
    assert not (tmp_path / "tree").exists()


def test_this_tree_is_a_release_by_the_name_now(tmp_path: Path) -> None:
    assert release(NOW, tmp_path).tree == Path(__file__).resolve().parents[3]
    assert list(COMMITS) == sorted(COMMITS)


def test_what_is_no_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no tree of Penstock"):
        release(str(tmp_path), tmp_path)


@pytest.mark.parametrize("script", ["ours", "confluent", "administrator"])
def test_a_client_imports_what_every_release_has(script: str) -> None:
    code = f"import runpy; runpy.run_path({str(CLIENTS / script)!r} + '.py', run_name='looked at')"
    environ = {"PYTHONPATH": f"{CLIENTS}:{Path(__file__).resolve().parents[3]}"}
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environ)
