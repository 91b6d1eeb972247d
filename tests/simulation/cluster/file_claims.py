"""I26 of the files of a log that takes appends: a roll, and an append that is refused, leave them as they say.

A log that has rolled has the names of all its segments but the newest on its disk, so no power cut leaves a hole. After
a refused append the files end where the log ends. If the refusal says that nothing was written, no whole batch of the
append was ever in the active segment, so no power cut can leave one there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from broker.replication.partition import Partition
from penstock.errors import ApiError
from storage.segment.segment import Segment
from tests.simulation.cluster.durable_log import Violated, durable_entries, parse
from tests.simulation.cluster.machine import Machine
from tests.support.losing_fs import File


class HeardLogs:
    """The logs of one process, as its probe hears of them."""

    def __init__(self, machine: Machine, broken: Callable[[str], None]) -> None:
        self._machine, self._broken = machine, broken
        self._partitions: dict[str, Partition] = {}
        """By directory; those that the invariants have met."""
        self._begun: dict[str, tuple[Segment, int]] = {}
        """By directory: the active segment when the last append began, and the unsynced changes of its file."""
        self.rolled: set[str] = set()
        """Directories, in the step that was taken last; `cut` as well."""
        self.cut: set[str] = set()

    def meet(self, partition: Partition) -> None:
        """Its log is heard from now on."""
        self._partitions[partition.log.directory] = partition

    @property
    def has_news(self) -> bool:
        return bool(self.rolled or self.cut)

    def news_is_over(self) -> None:
        if self.has_news:
            self.rolled.clear()
            self.cut.clear()

    def partition(self, directory: str) -> Partition | None:
        """The partition that has its log there, if it was met."""
        partition = self._partitions.get(directory)
        return partition if partition is not None and partition.log.directory == directory else None

    def appending(self, directory: str) -> None:
        partition = self.partition(directory)
        if partition is not None:
            active = partition.log.segments[-1]
            file = self._file(active)
            self._begun[directory] = active, len(file.pending) if file is not None else 0

    def append_refused(self, directory: str, error: ApiError) -> None:
        partition, begun = self._partitions.get(directory), self._begun.get(directory)
        if partition is not None and begun is not None and partition.log.directory == directory:
            self._check_refused(partition, error, *begun)

    def _check_refused(self, partition: Partition, error: ApiError, active: Segment, unsynced: int) -> None:
        """`active` was the active segment when the append began, with so many unsynced changes of its file."""
        log, where = partition.log, f"I26: {self._machine.name}, {partition.topic_partition}"
        if log.closed or log.statistics().failed:
            return
        for segment in (active, log.segments[-1]):
            file = self._file(segment)
            if file is not None and len(file.data) != segment.size_bytes:
                self._broken(
                    f"{where}: after a refused append {segment.log_path} has {len(file.data)} bytes, and"
                    f" {segment.size_bytes} belong to the log"
                )
        if log.segments[-1].next_offset != log.log_end_offset:
            self._broken(
                f"{where}: after a refused append its segments end at {log.segments[-1].next_offset}, and the log"
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
