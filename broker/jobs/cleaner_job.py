"""Has compacted logs cleaned: the job log-cleaner, every log.cleaner.backoff.ms.

A run goes on until no log is due, with log.cleaner.threads passes at a time. A pass decides and changes logs on the
loop. Each of its blocking steps runs in a thread of the cleaner, which throttling may hold for long. While the clock
cannot be trusted nothing is cleaned, because tombstones are removed by age.

`storage/cleaner/log_cleaner.py` decides which log is cleaned, which records are removed, and how a pass may end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from broker.config.node_config import NodeConfig
from broker.jobs.scheduler import Scheduler
from broker.replication.disk_failures import DiskFailures
from broker.replication.hosting.hosted_partitions import HostedPartitions
from penstock.clock import Clock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.threads import Threads
from storage.cleaner.cleaner_log_view import Candidate, LogToClean
from storage.cleaner.cleaner_types import CleanerConfig, CleanerStatistics
from storage.cleaner.log_cleaner import LogCleaner
from storage.disk.file_system import FileSystem
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)

JOB = "log-cleaner"


class CleanerJob:
    """Has compacted logs cleaned. There is one per broker, on the event loop."""

    def __init__(
        self,
        config: CleanerConfig,
        hosted: HostedPartitions,
        failures: DiskFailures,
        log_manager: LogManager,
        scheduler: Scheduler,
        wall_ms: Callable[[], int | None],
        clock: Clock,
        fs: FileSystem,
        threads: Threads,
    ) -> None:
        """`wall_ms` gives the wall time, or None while it cannot be trusted."""
        self.cleaner = LogCleaner(fs, config, self._candidates, clock, threads)
        self.dead = 0
        """Workers that met a bug."""
        self._hosted, self._failures = hosted, failures
        self._wall_ms = wall_ms
        self._log_manager = log_manager
        self._scheduler = scheduler
        self._executor = threads.executor("log-cleaner", config.threads)

    def schedule(self) -> None:
        self._scheduler.add(JOB, self.cleaner.config.backoff_ms, self.run)

    def reconfigure(self, io_max_bytes_per_second: int, backoff_ms: int) -> None:
        """Another limit and another pause; passes under way go on with them."""
        self.cleaner.reconfigure(io_max_bytes_per_second, backoff_ms)
        self._scheduler.change_interval(JOB, backoff_ms)

    def _candidates(self) -> Iterator[Candidate]:
        for partition in self._hosted.all():
            if partition.offline is None and partition.log.config.is_compacted:
                checkpoint = self._log_manager.cleaner_checkpoint(partition.log)
                if checkpoint is not None:
                    yield Candidate(partition.log, partition.high_watermark, checkpoint)

    async def run(self) -> None:
        """Clean until there is nothing to clean."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self.cleaner.config.threads):
                workers.create_task(self._clean_all())

    async def _clean_all(self) -> None:
        try:
            while (wall_ms := self._wall_ms()) is not None and (chosen := self.cleaner.choose(wall_ms)) is not None:
                await self._clean(chosen, wall_ms)
        except Exception:
            self.dead += 1
            raise

    async def _clean(self, chosen: LogToClean, wall_ms: int) -> None:
        try:
            for step in self.cleaner.clean(chosen, wall_ms):
                await self._scheduler.in_executor(self._executor, chosen.log.log_dir, step)
        except (CorruptFileError, KafkaStorageError) as error:
            partition = self._hosted.find(chosen.log.topic_partition)
            if partition is not None and partition.log is chosen.log and partition.offline is None:
                self._failures.disk_error(partition, error)
            else:
                _log.warning("%s: the cleaner met an error in a log that is out of use: %s", chosen.log, error)

    def stop(self) -> None:
        """Passes under way end soon, and the run with them; call it before the scheduler is stopped."""
        self.cleaner.stop()

    def close(self) -> None:
        """Call it after the scheduler was stopped, which waits for every step; a step that hangs keeps its thread."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def statistics(self) -> CleanerStatistics:
        return self.cleaner.statistics()

    def __repr__(self) -> str:
        return f"CleanerJob({self.cleaner!r})"


def cleaner_config(config: NodeConfig) -> CleanerConfig:
    """The node's log.cleaner.* keys."""
    return CleanerConfig(
        threads=config.log_cleaner_threads,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        backoff_ms=config.log_cleaner_backoff_ms,
    )
