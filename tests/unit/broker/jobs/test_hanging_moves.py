"""A log dir that hangs in the last step of a move fails, its replica is held no longer, and a start finds the log."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from broker.jobs import log_dir_watch
from broker.jobs.log_dir_moves import move_swap
from broker.jobs.log_dir_watch import LogDirWatch
from penstock.clock import SystemClock
from penstock.errors import KafkaStorageError
from tests.support.moving_replica import Stage, played
from tests.support.partitions import PARTITION

LIMIT_MS = 50
VALUES = [b"value %02d" % n for n in range(30)]
HANGS = [("-moved", 0), ("/b/t-0", 1), ("-delete", 0)]
"""The rename that hangs, by the end of the new name, and the log dir that has failed then: the old or the new one."""


async def until_failed(made: Stage, moving: asyncio.Task[None]) -> None:
    """And its replica is held no longer."""
    failures = made.replicas.parts.failures.directory_failed
    fatal: list[BaseException] = []
    watching = LogDirWatch(made.manager.calls, LIMIT_MS, SystemClock(), failures, fatal.append)
    watching.start()
    async with asyncio.timeout(20):
        while not made.replicas.failed_log_dirs or made.is_held:
            assert not moving.done()
            await asyncio.wait({moving}, timeout=0.01)
    await watching.stop()
    assert not fatal


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_watch, "LOOK_MS", 5)
    monkeypatch.setattr(move_swap, "LOOK_MS", 5)


@pytest.mark.parametrize(("end", "failed"), HANGS)
def test_a_rename_that_hangs_fails_its_log_dir_and_holds_the_partition_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, failed: int
) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert (source, target) == made.dirs
        partition = made.partition
        assert await made.alter(target) is None
        renamed: list[str] = []
        rename, access = made.fs.rename, threading.Event()

        def hanging(source: str, target: str) -> None:
            if Path(target).name.startswith("t-0"):
                renamed.append(target)
            if target.endswith(end):
                access.wait()
            rename(source, target)

        monkeypatch.setattr(made.fs, "rename", hanging)
        moving = asyncio.create_task(made.run())
        try:
            await until_failed(made, moving)
            assert made.replicas.failed_log_dirs == [made.dirs[failed]]
            assert not made.is_held and PARTITION in made.replicas.lost.partitions
            assert isinstance(partition.offline, KafkaStorageError) and "try again" not in str(partition.offline)
        finally:
            access.set()
        await moving
        assert renamed[-1].endswith(end), "a thread that comes back changes nothing more"
        assert partition.log.closed and made.moves.statistics().completed == 0
        made.fs.let_locks_go()

    played(tmp_path, story)
    monkeypatch.undo()

    async def afterwards(made: Stage) -> None:
        assert made.values() == VALUES
        await made.run()
        assert made.values() == VALUES and made.here == "b"

    played(tmp_path, afterwards)


def test_a_thread_that_is_busy_in_a_log_dir_that_hangs_holds_no_partition_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another call hangs there: the swap has not begun."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        stray = made.manager.futures.name(PARTITION, target)
        made.manager.futures.create(stray, made.partition.topic_id)
        make_ready = made.manager.futures.make_ready
        with made.fs.standing_still("rename", f"{stray.unique}-delete"):

            def then_busy(side: object) -> None:
                make_ready(side)  # type: ignore[arg-type]
                made.moves.table.to_drop.append(stray)
                asyncio.run_coroutine_threadsafe(made.moves.drop(target), loop)

            loop = asyncio.get_running_loop()
            monkeypatch.setattr(made.manager.futures, "make_ready", then_busy)
            moving = asyncio.create_task(made.run())
            await until_failed(made, moving)
            assert made.replicas.failed_log_dirs == [target] and not made.is_held
        await moving
        made.fs.let_locks_go()

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        assert made.values() == VALUES

    played(tmp_path, afterwards)
