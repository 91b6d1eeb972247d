"""Promises of the checkpoint jobs: a log dir that is gone is noticed, and a full disk costs no log dir."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.jobs.checkpoint_jobs import CheckpointJobs
from broker.jobs.scheduler import Scheduler
from penstock.clock import ManualClock
from penstock.errors import KafkaStorageError
from storage.log_dirs.log_checkpoints import LogCheckpoints
from tests.support.machine import THREADS, stop_wait


@pytest.mark.parametrize("what", ["recovery_points", "log_starts", "high_watermarks"])
@pytest.mark.parametrize(("code", "fails_the_dir"), [(errno.EROFS, True), (errno.ENOSPC, False)])
def test_a_checkpoint_that_its_log_dir_refuses_fails_the_dir_unless_the_disk_is_full(
    code: int, fails_the_dir: bool, what: str
) -> None:
    async def scenario() -> None:
        refusal = KafkaStorageError(f"/d: the {what} were not written")
        refusal.__cause__ = OSError(code, "refused")
        failed: list[tuple[str, Exception]] = []
        checkpoints = SimpleNamespace(log_dirs=("/d",), **{f"try_{what}": lambda *args: refusal})
        scheduler = Scheduler(ManualClock(), THREADS, pytest.fail)
        jobs = CheckpointJobs(
            cast(LogCheckpoints, checkpoints),
            dict,
            lambda log_dir, error: failed.append((log_dir, error)),
            scheduler,
        )
        with pytest.raises(KafkaStorageError):
            await getattr(jobs, f"checkpoint_{what}")("/d")
        assert failed == ([("/d", refusal.__cause__)] if fails_the_dir else [])
        await scheduler.stop(stop_wait())

    asyncio.run(scenario())


def test_each_of_several_log_dirs_has_checkpoints_of_its_own() -> None:
    checkpoints = cast(LogCheckpoints, SimpleNamespace(log_dirs=("/a", "/b")))
    scheduler = Scheduler(ManualClock(), THREADS, pytest.fail)
    config: Any = SimpleNamespace(
        log_flush_offset_checkpoint_interval_ms=1,
        log_flush_start_offset_checkpoint_interval_ms=2,
        replica_high_watermark_checkpoint_interval_ms=3,
    )

    async def scenario() -> None:
        CheckpointJobs(checkpoints, dict, lambda log_dir, error: None, scheduler).schedule(config)

    asyncio.run(scenario())
    kinds = ("recovery-point", "log-start", "high-watermark")
    assert {job.name for job in scheduler.statistics()} == {
        f"{kind}-checkpoint {log_dir}" for kind in kinds for log_dir in ("/a", "/b")
    }
