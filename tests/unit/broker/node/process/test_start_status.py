"""Promises of what `systemctl status` says while a node opens its logs, and of the time that a long start asks for."""

from __future__ import annotations

import asyncio

from broker.node.process.start_status import ASK_MS, SEGMENT_SECONDS, StartStatus
from broker.node.server import MORE_SECONDS, STATUS_SECONDS, ask_for_time
from penstock.clock import ManualClock
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_dirs.log_manager_config import LoadProgress
from storage.recovery.recovery import LastKnown
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.storage import SMALL, TP, filled
from tests.support.virtual_time import run_virtual


def test_the_status_says_how_many_logs_are_left_in_each_log_dir_that_is_not_done() -> None:
    said: list[str] = []
    status = StartStatus(said.append, lambda seconds: None, ManualClock())
    for progress in (
        LoadProgress("/a", 0, 40, 0, was_clean=False),
        LoadProgress("/b", 0, 2, 0, was_clean=True),
        LoadProgress("/a", 12, 40, 1 << 20, was_clean=False),
        LoadProgress("/b", 2, 2, 1 << 20, was_clean=True),
        LoadProgress("/a", 40, 40, 1 << 20, was_clean=False),
    ):
        status.note(progress)
    assert said == [
        "opening logs: 40 of 40 left to check after an unclean stop in /a",
        "opening logs: 40 of 40 left to check after an unclean stop in /a, 2 of 2 left in /b",
        "opening logs: 28 of 40 left to check after an unclean stop in /a, 2 of 2 left in /b",
        "opening logs: 28 of 40 left to check after an unclean stop in /a",
    ]


def test_a_start_that_gets_on_asks_for_more_time_and_one_that_does_not_asks_for_none() -> None:
    asked: list[int] = []
    clock = ManualClock()
    status = StartStatus(lambda line: None, asked.append, clock)
    status.note(LoadProgress("/a", 0, 1, 0, was_clean=False))
    for _ in range(1_000):
        status.gets_on()
    assert asked == [SEGMENT_SECONDS]
    for _ in range(3):
        clock.advance(ASK_MS)
        status.gets_on()
    assert asked == [SEGMENT_SECONDS] * 4
    clock.advance(10 * SEGMENT_SECONDS * 1000)
    assert len(asked) == 4


def test_a_recovery_of_one_large_log_gets_on_with_each_segment() -> None:
    """Progress that is told log by log says nothing for as long as one log takes."""
    fs, checked = LosingFileSystem(), list[None]()
    segments = len(filled(fs, 40).segments)
    options = LogOptions(
        THREADS, last_known=LastKnown(recovery_point=0), on_segment_checked=lambda: checked.append(None)
    )
    Log(fs, "/d/orders-0", TP, SMALL, options)
    assert len(checked) == segments > 4

    Log(fs, "/d/orders-0", TP, SMALL, LogOptions(THREADS, last_known=LastKnown(recovery_point=40))).close()


class Manager:
    """The notifier of a service manager that listens."""

    has_listener = True

    def __init__(self) -> None:
        self.asked: list[int] = []

    def extend(self, seconds: int) -> None:
        self.asked.append(seconds)


def test_a_node_that_waits_for_its_quorum_or_stops_asks_for_more_time_while_its_loop_turns() -> None:
    async def run() -> list[int]:
        manager = Manager()
        asking = asyncio.create_task(ask_for_time(manager))
        await asyncio.sleep(3_600)
        asking.cancel()
        at_the_end = len(manager.asked)
        await asyncio.sleep(3_600)
        assert len(manager.asked) == at_the_end
        return manager.asked

    assert MORE_SECONDS >= 4 * STATUS_SECONDS  # a datagram may be lost
    assert run_virtual(run()) == [MORE_SECONDS] * (3_600 // STATUS_SECONDS)


def test_nobody_is_asked_without_a_service_manager() -> None:
    manager = Manager()
    manager.has_listener = False
    run_virtual(ask_for_time(manager))
    assert manager.asked == []
