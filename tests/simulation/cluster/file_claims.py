"""I26 of the files of a log that takes appends: a roll, and an append that is refused, leave them as they say.

A log that has rolled has the names of all its segments but the newest on its disk, so no power cut leaves a hole. After
a refused append the files end where the log ends. If the refusal says that nothing was written, no whole batch of the
append was ever in the active segment, so no power cut can leave one there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable

from broker.replication.partition import Partition
from penstock.errors import ApiError
from storage.append.placing import Placed
from storage.log.log_writer import LogWriter
from storage.log_config import LogConfig
from storage.segment.segment import Segment
from tests.simulation.cluster.durable_log import Violated, durable_entries, parse
from tests.simulation.cluster.machine import Machine
from tests.support.losing_fs import File


class HeardWriter:
    """The writer of a log; each append that it refuses is checked."""

    def __init__(self, machine: Machine, partition: Partition, broken: Callable[[str], None]) -> None:
        self._machine, self._partition, self._broken = machine, partition, broken
        self._writer: LogWriter = partition.log._writer

    @property
    def awaits_roll(self) -> bool:
        return self._writer.awaits_roll

    def roll(self, log_end_offset: int, config: LogConfig) -> None:
        self._writer.roll(log_end_offset, config)

    def append(self, runs: Iterable[Placed], log_end_offset: int, config: LogConfig, old_below: int = 0) -> int:
        active = self._partition.log._segments.active
        file = self._file(active)
        unsynced = len(file.pending) if file is not None else 0
        try:
            return self._writer.append(runs, log_end_offset, config, old_below)
        except ApiError as error:
            self.refused(error, active, unsynced)
            raise

    def refused(self, error: ApiError, active: Segment, unsynced: int) -> None:
        """`active` was the active segment when the append began, with so many unsynced changes of its file."""
        log, where = self._partition.log, f"I26: {self._machine.name}, {self._partition.topic_partition}"
        if log.closed or log._health.failure is not None:
            return
        for segment in (active, log._segments.active):
            file = self._file(segment)
            if file is not None and len(file.data) != segment.size_bytes:
                self._broken(
                    f"{where}: after a refused append {segment.log_path} has {len(file.data)} bytes, and"
                    f" {segment.size_bytes} belong to the log"
                )
        if log._segments.active.next_offset != log.log_end_offset:
            self._broken(
                f"{where}: after a refused append its segments end at {log._segments.active.next_offset}, and the log"
                f" at {log.log_end_offset}"
            )
        file = self._file(active)
        since = file.pending[unsynced if len(file.pending) >= unsynced else 0 :] if file is not None else ()
        found = [batch for _, content in since if content is not None for batch in parse(content, 0, None)[0]]
        if error.nothing_written and found:
            self._broken(
                f"{where}: a refused append says that nothing was written; batches from {found[0].base_offset} to"
                f" {found[-1].next_offset} were in {active.log_path}, and a power cut may leave them there"
            )

    def _file(self, segment: Segment) -> File | None:
        """None where another thread has taken the directory away."""
        disk = self._machine.disk
        return disk.file_at(segment.log_path) if disk.is_there(segment.log_path) else None


def check_rolled(machine: Machine, partition: Partition) -> None:
    """The log has rolled just now."""
    log = partition.log
    names = durable_entries(machine.disk, tuple(log.directory.strip("/").split("/"))) or {}
    for segment in log.segments[:-1]:
        if posixpath.basename(segment.log_path) not in names:
            raise Violated(
                f"I26: {machine.name}, {partition.topic_partition} has rolled at {log.segments[-1].base_offset}, and a"
                f" power cut takes the name of its segment from {segment.base_offset}"
            )
