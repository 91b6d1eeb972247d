"""Promises of the job log-cleaner: compacted logs are cleaned until none is left, and what it meets is not hidden."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.config.config import parse_config
from broker.jobs.cleaner_job import cleaner_config
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.record.reader import read_columns
from storage.cleaner.log_cleaner import LogCleaner
from storage.log_config import LogConfig
from tests.support.upkeep_stage import Stage, stage
from tests.unit.broker.config.test_config import GOOD

COMPACT = LogConfig(segment_bytes=1_000, cleanup_policy="compact", min_cleanable_dirty_ratio=0.1)


def offsets(made: Stage) -> list[int]:
    """The offsets that a reader finds."""
    log, found = made.partition.log, []
    at = log.log_start_offset
    while at < log.log_end_offset:
        fetched = log.reader.read(at, 1 << 20)
        found += list(read_columns(fetched.records, from_offset=at).offsets)
        at = fetched.next_offset
    return found


def test_a_run_cleans_until_nothing_is_left_to_clean(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, COMPACT) as made:
            made.write(11, keys=2)  # five full segments, and one record in the active one
            await made.cleaner.run()
            assert offsets(made) == [8, 9, 10]
            assert made.cleaner.statistics().passes >= 1 and made.cleaner.statistics().uncleanable == ()
            await made.cleaner.run()
            assert offsets(made) == [8, 9, 10]

    asyncio.run(scenario())


def test_nothing_above_the_high_watermark_is_cleaned(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, COMPACT) as made:
            made.write(5, keys=2)
            made.partition.min_insync_replicas = 2  # this broker is alone: what follows is not committed
            made.write(6, keys=2)
            assert made.partition.high_watermark == 5
            await made.cleaner.run()
            assert offsets(made) == [2, 3, 4, 5, 6, 7, 8, 9, 10]  # segments of two: 0 and 1 have newer values below 5

    asyncio.run(scenario())


def test_a_log_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, LogConfig(segment_bytes=1_000)) as made:
            made.write(11, keys=2)
            await made.cleaner.run()
            assert offsets(made) == list(range(11))

    asyncio.run(scenario())


def test_while_the_clock_is_not_believed_nothing_is_cleaned(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, COMPACT) as made:
            made.write(11, keys=2)
            made.clock.jump_wall(2_500_000_000_000)
            await made.cleaner.run()
            assert made.cleaner.statistics().passes == 0
            made.clock.jump_wall(-2_500_000_000_000)
            await made.cleaner.run()
            assert made.cleaner.statistics().passes == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "takes_the_dir"),
    [(CorruptFileError("t-0/00.log", 0, "rot"), False), (KafkaStorageError("broken"), True)],
)
def test_what_a_pass_meets_takes_the_replica_or_its_dir_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, takes_the_dir: bool
) -> None:
    def fails(_self: LogCleaner, *_args: object) -> None:
        raise error from (OSError(5, "EIO") if takes_the_dir else None)

    async def scenario() -> None:
        async with stage(tmp_path, COMPACT) as made:
            made.write(11, keys=2)
            monkeypatch.setattr(LogCleaner, "clean", fails)
            await made.cleaner.run()
            assert made.partition.offline is not None
            assert made.replicas.failed_log_dirs == ([str(made.directory)] if takes_the_dir else [])
            assert made.replicas.lost.statistics().damaged == (0 if takes_the_dir else 1)

    asyncio.run(scenario())


def test_a_stopped_cleaner_begins_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, COMPACT) as made:
            made.write(11, keys=2)
            made.cleaner.stop()
            await made.cleaner.run()
            assert made.cleaner.statistics().passes == 0

    asyncio.run(scenario())


def test_the_node_keys_reach_the_cleaner() -> None:
    config = cleaner_config(parse_config(GOOD | {"log.cleaner.threads": 2, "log.cleaner.backoff.ms": 7}))
    assert (config.threads, config.backoff_ms, config.dedupe_buffer_bytes) == (2, 7, 128 << 20)
