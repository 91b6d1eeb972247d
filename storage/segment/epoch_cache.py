"""The leader epochs of one log: in memory, and in its leader-epoch-checkpoint.

The rules are in `penstock.epochs`; this class keeps the entries and writes them. Safety order: `flush.py` writes the
checkpoint BEFORE the flush of any record of a new epoch counts, so the file has every epoch below the flushed offset. A
change is therefore only noted here, and the event loop does not wait for the disk.

`persist` may run in a flush thread while the loop changes the entries. It gets a snapshot with a version, and an older
snapshot never replaces a newer one. `recovery.py` compares the entries with the log.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock import epochs
from penstock.types import NO_EPOCH, EpochEntry
from storage.disk.checkpoint_file import write_epochs
from storage.disk.file_names import LEADER_EPOCH_CHECKPOINT
from storage.disk.file_system import FileSystem
from storage.disk.small_file_writes import SmallFileWrites


class EpochSnapshot(NamedTuple):
    """The entries as they were at one moment."""

    version: int
    entries: tuple[EpochEntry, ...]


class EpochCache:
    """Epoch entries, ascending; changed on one thread, persisted on any."""

    __slots__ = ("_directory", "_entries", "_fs", "_persisted_version", "_version", "names")

    def __init__(self, fs: FileSystem, directory: str, entries: tuple[EpochEntry, ...], names: SmallFileWrites) -> None:
        """`entries`: the content of the file."""
        self._fs, self._directory = fs, directory
        self._entries = entries
        self._version = self._persisted_version = 0
        self.names = names
        """The writes of every small file that a flush of the log writes."""

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    @property
    def latest_epoch(self) -> int:
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        self._replace(epochs.assign(self._entries, epoch, start_offset))

    def truncate_from_end(self, end_offset: int) -> None:
        self._replace(epochs.truncate_from_end(self._entries, end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        self._replace(epochs.truncate_from_start(self._entries, start_offset))

    def restore(self, entries: tuple[EpochEntry, ...]) -> None:
        """Back to the entries from before a failed append."""
        self._replace(entries)

    def clear(self) -> None:
        self._replace(())

    def _replace(self, entries: tuple[EpochEntry, ...]) -> None:
        if entries != self._entries:
            self._entries = entries
            self._version += 1

    def unpersisted(self) -> EpochSnapshot | None:
        """The entries that the next flush must write; None when the file is up to date."""
        if self._persisted_version >= self._version:
            return None
        return EpochSnapshot(self._version, self._entries)

    def persist(self, snapshot: EpochSnapshot) -> None:
        """Write the snapshot durably, unless a newer one is written or the log is closed. Blocks."""
        with self.names.one:
            if snapshot.version > self._persisted_version:
                path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
                write_epochs(self._fs, path, snapshot.entries, step=self.names.step)
                self._persisted_version = snapshot.version

    def __repr__(self) -> str:
        return f"EpochCache({self._directory}, {len(self._entries)} entries, latest {self.latest_epoch})"
