"""Loads the state of one partition from its log, from the log's start to its end, while the loop goes on.

A portion of the log is read and decoded in a thread of the log dir, and replayed on the loop in short steps. A log that
is cleaned lacks older records of a key, one that is not has all of them: replay gives the same state. What the log says
and this release does not know is passed over, and counted.

A record that has a known type and not its form is damage, or of a newer release. It is not passed over: a committed
offset that is lost without a word makes a group read again, or read nothing. `LoadError` names its place, and what the
partition holds has no coordinator here. Not here: requests that come meanwhile (led_shard.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.coordination.record_codec import MalformedRecordError
from broker.coordination.record_log import Entry, LogPart, ReadLog, replay_entry
from broker.coordination.turn import Replays
from broker.replication.leader.leader_reads import LeaderReads
from broker.replication.partition import Partition
from penstock.base_error import PenstockError
from penstock.errors import ApiError, CorruptMessageError, KafkaStorageError, OffsetOutOfRangeError
from penstock.lazy_dataclass import dataclass
from penstock.record.markers import Marker
from penstock.threads import Threads
from storage.disk.log_dir_threads import LogDirThreads
from storage.log.log_reader import Records

READ_BYTES: Final = 256 * 1024
"""One read of the log. The loop copies what the page cache has."""
PORTION_BYTES: Final = 4 * 1024 * 1024
"""The part of the log that a thread decodes at a time. Of the records of one committed offset only the last in it is
decoded, and groups that commit often repeat their keys soon."""
STEP_RECORDS: Final = 250
"""Records that are replayed without a pause; a step takes 2 to 3 ms."""
KEPT_RECORDS: Final = 1_000
"""A portion with at least this many records has made many objects."""
LOADING_MAX: Final = 2
"""Partitions that load at the same time. The others wait: two processors decode no faster for three."""


class LoadError(PenstockError):
    """The log has something that is neither known nor passed over."""


@dataclass(slots=True)
class LoadFigures:
    """Sums of all loads since the start; the last one's time."""

    loads: int = 0
    records: int = 0
    bytes: int = 0
    unknown_records: int = 0
    transactional_records: int = 0
    last_ms: int = 0
    longest_ms: int = 0


class ShardLoader:
    """Loads the state of led partitions. There is one per broker, on the event loop."""

    def __init__(
        self,
        name: str,
        read_log: ReadLog,
        threads: Threads,
        now_ms: Callable[[], int],
        keep_objects: Callable[[], object],
    ) -> None:
        """`keep_objects` is called when much has been loaded that stays (`Environment`). Threads have the name."""
        self._read_log = read_log
        self._keep_objects = keep_objects
        self._threads = LogDirThreads(threads, name)
        self._reads = LeaderReads(self._in_thread)
        self._now_ms = now_ms
        self.slots = asyncio.Semaphore(LOADING_MAX)
        """Held by each load."""
        self.figures = LoadFigures()

    async def load(self, partition: Partition, state: Replays) -> int:
        """Replays the whole log; returns its end. Nothing may be appended meanwhile. LoadError for what it does not
        take, KafkaStorageError when the disk fails."""
        async with self.slots:
            began_ms, figures = self._now_ms(), self.figures
            offset, end = partition.log.log_start_offset, partition.log.log_end_offset
            while offset < end:
                found = await self._portion(partition, offset, end)
                await self._replay(partition, found.records, state)
                figures.records += found.read
                figures.unknown_records += found.unknown
                figures.transactional_records += found.transactional
                offset = found.next_offset
                if len(found.records) >= KEPT_RECORDS:
                    self._keep_objects()
            figures.loads += 1
            figures.last_ms = self._now_ms() - began_ms
            figures.longest_ms = max(figures.longest_ms, figures.last_ms)
            return end

    async def _replay(self, partition: Partition, records: list[Entry], state: Replays) -> None:
        left = STEP_RECORDS
        for entry in records:
            try:
                left -= replay_entry(state, entry)
            except Exception as error:
                what = entry if isinstance(entry, Marker) else f"{type(entry[0]).__name__} {entry[0]}"
                raise LoadError(f"{partition.topic_partition}: {what}: {error!r}") from error
            if left <= 0:
                await asyncio.sleep(0)
                left = STEP_RECORDS
        await asyncio.sleep(0)

    async def _portion(self, partition: Partition, offset: int, end: int) -> LogPart:
        parts, size, at = [], 0, offset
        while size < PORTION_BYTES and at < end:
            found = await self._read(partition, at)
            if found.next_offset <= at:
                raise LoadError(f"{partition.topic_partition}: no whole batch at offset {at}")
            parts.append(bytes(found.records))
            size, at = size + len(found.records), found.next_offset
            await asyncio.sleep(0)
        taken: list[LogPart] = []
        try:
            await self._in_thread(partition.log.log_dir, lambda: taken.append(self._read_log(b"".join(parts), offset)))
        except (CorruptMessageError, MalformedRecordError) as damage:
            raise LoadError(f"{partition.topic_partition}, in {partition.log.directory}: {damage}") from damage
        self.figures.bytes += size
        return taken[0]

    async def _read(self, partition: Partition, offset: int) -> Records:
        while True:
            try:
                return await self._reads.wait_read(partition, offset, READ_BYTES)
            except OffsetOutOfRangeError:  # its log start rose
                offset = partition.log.log_start_offset

    async def _in_thread(self, log_dir: str, work: Callable[[], object]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(error: BaseException | None) -> None:
            if not done.done():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)

        try:
            self._threads.run(log_dir, work, finish)
        except OSError as no_thread:
            raise KafkaStorageError(str(no_thread)) from no_thread
        await done

    def close(self) -> None:
        """The threads end after their present work; the stop does not wait for them."""
        self._threads.close(self._threads.busy)

    def __repr__(self) -> str:
        return f"ShardLoader({self.figures})"


LOAD_AGAIN: Final = (ApiError, OSError)
"""Errors after which a load may succeed if it is tried again."""
