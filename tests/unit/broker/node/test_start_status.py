"""Promises of what `systemctl status` says while a node opens its logs."""

from __future__ import annotations

from broker.node.start_status import StartStatus
from storage.log_dirs.log_manager_config import LoadProgress


def test_the_status_says_how_many_logs_are_left_in_each_log_dir_that_is_not_done() -> None:
    said: list[str] = []
    status = StartStatus(said.append)
    for progress in (
        LoadProgress("/a", 0, 40, 0, was_clean=False),
        LoadProgress("/b", 0, 2, 0, was_clean=True),
        LoadProgress("/a", 12, 40, 1 << 20, was_clean=False),
        LoadProgress("/b", 2, 2, 1 << 20, was_clean=True),
        LoadProgress("/a", 40, 40, 1 << 20, was_clean=False),
    ):
        status.told(progress)
    assert said == [
        "opening logs: 40 of 40 left to check after an unclean stop in /a",
        "opening logs: 40 of 40 left to check after an unclean stop in /a, 2 of 2 left in /b",
        "opening logs: 28 of 40 left to check after an unclean stop in /a, 2 of 2 left in /b",
        "opening logs: 28 of 40 left to check after an unclean stop in /a",
    ]
