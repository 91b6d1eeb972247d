"""`penstock transactions`: what it refuses before it asks anybody."""

from __future__ import annotations

from tests.support.command_line import penstock


def test_a_state_that_there_is_not_is_refused_by_the_name_of_its_option() -> None:
    done = penstock("transactions", "list", "--state", "ongoing", "--state", "gone", bootstrap="127.0.0.1:1")
    assert done.returncode == 2
    assert b"--state: 'gone' is none of Empty, Ongoing, PrepareCommit" in done.stderr
