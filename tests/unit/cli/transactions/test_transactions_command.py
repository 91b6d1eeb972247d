"""`penstock transactions`: what it refuses before it asks anybody."""

from __future__ import annotations

from datetime import datetime

import pytest

from penstock.cli.transactions import command
from penstock.client.admin.transactions.transaction_types import TransactionDetails
from tests.support.command_line import penstock


def test_a_state_that_there_is_not_is_refused_by_the_name_of_its_option() -> None:
    done = penstock("transactions", "list", "--state", "ongoing", "--state", "gone", bootstrap="127.0.0.1:1")
    assert done.returncode == 2
    assert b"--state: 'gone' is none of Empty, Ongoing, PrepareCommit" in done.stderr


def test_a_time_is_shown_as_one_in_a_pipe_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """For numbers scripts have --json."""
    command._show(TransactionDetails("till-1", None, "Ongoing", 7, 0, 60_000, 1_795_904_540_680, (), 1))
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert datetime.fromisoformat(said["open_since"]).timestamp() == 1_795_904_540.68
