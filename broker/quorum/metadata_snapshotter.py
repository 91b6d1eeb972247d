"""Writes a snapshot of the metadata now and then, and says what it makes superfluous (KIP-630, KIP-876).

Every node writes its own. One is due after a number of committed bytes since the last one, or after a time in which
something was committed. It is written by a thread from an image, which never changes, while the loop goes on. Snapshots
and the log between them are kept for followers that are behind, as long as they are neither too large nor too old.

When `metadata.version` is lowered one is due at once, and all before it goes: an older release can read that snapshot
and what is behind it, here and as a follower, and nothing before.

The rules are plain functions at the end. Not here: the files (`metadata_snapshots.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import MetadataLog
from broker.quorum.metadata_snapshots import KeptSnapshot, MetadataSnapshots
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.clock import Clock
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, measured
from penstock.tasks import watch
from penstock.types import EpochEndOffset
from raft.decided_log import BEGINNING
from storage.disk.disk_errors import is_shortage
from storage.disk.file_names import metadata_snapshot_name

_log = logging.getLogger(__name__)

LOOK_MS = 10_000
"""How often the time is looked at, and how long a snapshot is put off that found no room."""


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """The node's configuration of the same names."""

    between_bytes: int
    interval_ms: int
    retention_bytes: int
    retention_ms: int


@measured
class SnapshotStatistics:
    """Counts since the start, and the files that there are now."""

    newest: KeptSnapshot
    """`BEGINNING` without a file."""
    kept: int = gauge("penstock_metadata_snapshots", "Snapshots of the metadata that this node keeps.")
    written: int = counter("penstock_metadata_snapshots_written", "Snapshots of the metadata that this node wrote.")
    failed: int = counter("penstock_metadata_snapshot_failures", "Snapshots of the metadata that could not be written.")


class Quorum(Protocol):
    """The part of the quorum that is needed here."""

    def keep_snapshots(self, snapshot_ids: Sequence[EpochEndOffset]) -> None: ...


class MetadataSnapshotter:
    """Writes and drops the snapshots of one node, on the event loop."""

    def __init__(
        self,
        limits: SnapshotLimits,
        log: MetadataLog,
        snapshots: MetadataSnapshots,
        loader: MetadataLoader,
        quorum: Quorum,
        clock: Clock,
        executor: Executor,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._limits, self._log, self._snapshots = limits, log, snapshots
        self._loader, self._quorum, self._clock, self._executor = loader, quorum, clock, executor
        self._on_fatal = on_fatal
        self._kept = log.beginning.kept
        self._bytes = 0  # committed since the newest one
        self._since_ms = clock.now_ms()
        self._put_off_until_ms = 0
        self._lowered_end = 0
        """`metadata.version` was lowered below this offset: a snapshot must reach it. 0: nothing is known of that."""
        self._writing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._written = self._failed = 0
        loader.subscribe(self._published)

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_now_and_then(), name="metadata-snapshots")

    @property
    def kept_from(self) -> int:
        """The end offset of the oldest one that is kept: nothing before it can be read any more. 0: everything can."""
        return self._kept[0].snapshot_id.end_offset

    @property
    def is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    async def stop(self) -> None:
        """Waits for a snapshot that is being written."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        if self._is_owed:
            await self._write(self._loader.image, self._loader.time_ms, self._bytes, self._since_ms)

    def on_committed(self, size_bytes: int) -> None:
        """Counts records that were committed, and takes a snapshot if one is due. Called AFTER the image has them."""
        self._bytes += size_bytes
        self.look()

    def on_snapshot(self, snapshot_id: EpochEndOffset) -> None:
        """A snapshot of the leader's has replaced the log; those before it are not needed."""
        if snapshot_id != self._kept[-1].snapshot_id:
            self._drop([one.snapshot_id for one in self._kept])
            self._kept = self._log.beginning.kept
        self._bytes, self._since_ms = 0, self._clock.now_ms()

    def look(self) -> None:
        """Begins to write one if it is due."""
        now_ms, image = self._clock.now_ms(), self._loader.image
        if self.is_writing or self._looking is None or now_ms < self._put_off_until_ms:
            return
        has_news = image.offset + 1 > self._kept[-1].snapshot_id.end_offset
        is_due = (has_news and is_snapshot_due(self._limits, self._bytes, now_ms - self._since_ms)) or self._is_owed
        if is_due or (self._snapshots.is_rotten and image.offset >= 0):
            self._snapshots.is_rotten = False
            writing = self._write(image, self._loader.time_ms, self._bytes, self._since_ms)
            self._since_ms = now_ms
            self._writing = asyncio.create_task(writing, name="write-snapshot")
            watch(self._writing, self._on_fatal)
            self._writing.add_done_callback(self._look_again)

    @property
    def _is_owed(self) -> bool:
        """`metadata.version` was lowered behind the newest one."""
        return self._lowered_end > self._kept[-1].snapshot_id.end_offset

    def _published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.lowers_metadata_version:
            self._lowered_end = image.offset + 1

    def _look_again(self, writing: asyncio.Task[None]) -> None:
        """Looks once more: one that was being written when `metadata.version` was lowered does not reach that."""
        if self._is_owed and not writing.cancelled() and self._looking is not None and not self._looking.done():
            self.look()

    async def _look_now_and_then(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_MS / 1000)

    async def _write(self, image: MetadataImage, time_ms: int, taken_bytes: int, since_ms: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            new = await loop.run_in_executor(self._executor, self._snapshots.write, image, time_ms)
        except OSError as error:
            self._failed += 1
            if not is_shortage(error):
                self._on_fatal(error)
                return
            self._since_ms, self._put_off_until_ms = since_ms, self._clock.now_ms() + LOOK_MS
            owed = "; until there is one, no older release can be installed here" if self._is_owed else ""
            _log.warning("no room for a snapshot of the metadata at offset %d: %s%s", image.offset, error, owed)
            return
        self._written += 1
        if new.snapshot_id == self._kept[-1].snapshot_id:  # the file that had rotted
            return
        if new.snapshot_id.end_offset < self._kept[-1].snapshot_id.end_offset:  # the leader's came meanwhile
            self._drop([new.snapshot_id])
            return
        self._bytes -= taken_bytes
        _log.info("%s: %d bytes", metadata_snapshot_name(new.snapshot_id), new.size_bytes)
        before = (*self._kept, new)
        reaches_lowering = 0 < self._lowered_end <= new.snapshot_id.end_offset
        self._kept = still_kept(before, self._log.bytes_from, self._limits, self._clock.wall_ms())
        if reaches_lowering:
            self._kept, self._lowered_end = (new,), 0
        self._quorum.keep_snapshots([one.snapshot_id for one in self._kept])
        self._drop([one.snapshot_id for one in before[: len(before) - len(self._kept)]])

    def _drop(self, snapshot_ids: Sequence[EpochEndOffset]) -> None:
        """Removes the files of these snapshots; a start removes those that are left."""
        if snapshot_ids:
            self._executor.submit(self._remove, snapshot_ids)

    def _remove(self, snapshot_ids: Sequence[EpochEndOffset]) -> None:
        try:
            self._snapshots.remove(snapshot_ids)
        except OSError as error:
            _log.warning("superfluous snapshots of the metadata are left: %s", error)

    def statistics(self) -> SnapshotStatistics:
        """The statistics; may be called in any thread."""
        kept = self._kept
        files = sum(one.snapshot_id != BEGINNING for one in kept)
        return SnapshotStatistics(kept[-1], files, self._written, self._failed)

    def __repr__(self) -> str:
        return f"MetadataSnapshotter({self._kept[-1].snapshot_id}, {self._bytes} bytes behind it)"


def is_snapshot_due(limits: SnapshotLimits, bytes_since: int, ms_since: int) -> bool:
    """True if a snapshot is to be written, if anything was committed since the last one."""
    return bytes_since >= limits.between_bytes or 0 < limits.interval_ms <= ms_since


def still_kept(
    kept: Sequence[KeptSnapshot], log_bytes_from: Callable[[int], int], limits: SnapshotLimits, now_ms: int
) -> tuple[KeptSnapshot, ...]:
    """The snapshots without the oldest ones that are superfluous: because all that the log has between one and the next
    is too old, or because snapshots and log are too large. The newest stays."""
    first = 0
    while first < len(kept) - 1:
        size_bytes = log_bytes_from(kept[first].snapshot_id.end_offset) + sum(one.size_bytes for one in kept[first:])
        is_old = now_ms - kept[first + 1].time_ms > limits.retention_ms
        if size_bytes <= limits.retention_bytes and not is_old:
            break
        first += 1
    return tuple(kept[first:])
