"""The files of the metadata's snapshots, in the directory of the metadata log (KIP-630).

    00000000000000004711-0000000003.checkpoint        what the log below offset 4711 came to; its last epoch is 3
    00000000000000004711-0000000003.checkpoint.part   the same, while the leader sends it; removed at the next start

A file gets its name AFTER it is synced, so a name stands for a whole snapshot; what is in it is checked whenever it is
loaded (`metadata/snapshot.py`). A damaged one is left where it is, for a person to look at, and is not used.

Which of them count, and when one goes, is said elsewhere (metadata_log_opening.py, metadata_snapshotter.py). Every call
blocks. What has to do with parts is called by the thread of the quorum's driver only, the rest in any.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from metadata.image import MetadataImage
from metadata.snapshot import check_snapshot, decode_snapshot, encode_snapshot, snapshot_id_of
from penstock.errors import CorruptMessageError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import HEADER_BYTES, read_header
from penstock.types import EpochEndOffset
from raft.decided_log import BEGINNING
from raft.driver.protocols import LoadedSnapshot
from raft.voters import VoterSet
from storage.disk.atomic_file import write_atomically
from storage.disk.file_names import (
    METADATA_SNAPSHOT_SUFFIX,
    PART_SUFFIX,
    TMP_SUFFIX,
    metadata_snapshot_name,
    parse_metadata_snapshot,
)
from storage.disk.file_system import FileSystem

_log = logging.getLogger(__name__)

_UNFINISHED = (METADATA_SNAPSHOT_SUFFIX + PART_SUFFIX, METADATA_SNAPSHOT_SUFFIX + TMP_SUFFIX)


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A snapshot that may stand for the beginning of the log. `time_ms` is the wall time of its newest record."""

    snapshot_id: EpochEndOffset
    size_bytes: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class LogBeginning:
    """The beginning of the metadata log: snapshots, oldest first, the content of the newest one, and the voters."""

    kept: tuple[KeptSnapshot, ...] = (KeptSnapshot(BEGINNING, 0, 0),)
    loaded: LoadedSnapshot | None = None
    voter_sets: tuple[tuple[int, VoterSet], ...] = ()
    """The voters that the newest snapshot names, at offset -1, and those of each record behind it."""


def loaded_snapshot(snapshot_id: EpochEndOffset, image: MetadataImage) -> LoadedSnapshot:
    """The image of a snapshot, as raft and its listeners take it."""
    return LoadedSnapshot(snapshot_id, image, image.voters or None)


class MetadataSnapshots:
    """The snapshot files of one node."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        """OSError; what an earlier process left unfinished is removed."""
        self._fs, self.directory = fs, directory
        self._part: tuple[EpochEndOffset, int] | None = None
        self.is_rotten = False
        """A follower asked for one that has become damaged: another must be written. Set in any thread."""
        names = fs.listdir(directory)
        for name in names:
            if name.endswith(_UNFINISHED):
                fs.unlink(f"{directory}/{name}")

    def found(self) -> tuple[EpochEndOffset, ...]:
        """The ids of the snapshots in the directory, good or damaged, oldest first. OSError."""
        ids = (parse_metadata_snapshot(name) for name in self._fs.listdir(self.directory))
        return tuple(sorted((one for one in ids if one is not None), key=lambda one: (one.end_offset, one.epoch)))

    def path(self, snapshot_id: EpochEndOffset) -> str:
        return f"{self.directory}/{metadata_snapshot_name(snapshot_id)}"

    def size_bytes(self, snapshot_id: EpochEndOffset) -> int:
        return self._fs.size(self.path(snapshot_id))

    def write(self, image: MetadataImage, time_ms: int) -> KeptSnapshot:
        """A snapshot of this image, durable when it returns. OSError."""
        snapshot_id, data = snapshot_id_of(image), b"".join(encode_snapshot(image, time_ms))
        write_atomically(self._fs, self.path(snapshot_id), data)
        return KeptSnapshot(snapshot_id, len(data), time_ms)

    def load(self, snapshot_id: EpochEndOffset) -> MetadataImage:
        """CorruptMessageError if it is damaged."""
        return decode_snapshot(self._fs.read_file(self.path(snapshot_id)), snapshot_id)

    def read(self, snapshot_id: EpochEndOffset, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of a snapshot, and its bytes from `position` on; None if it is not there any more.
        CorruptMessageError at its beginning if it is damaged: nobody could use it, so it is not sent for nothing."""
        try:
            if position == 0:
                check_snapshot(self._fs.read_file(self.path(snapshot_id)))
            fd = self._fs.open(self.path(snapshot_id))
        except FileNotFoundError:
            return None
        except CorruptMessageError as damage:
            self.is_rotten = True
            raise CorruptMessageError(f"{self.path(snapshot_id)}: {damage}; another is written soon") from damage
        try:
            size_bytes = self.size_bytes(snapshot_id)
            return size_bytes, self._fs.pread(fd, max_bytes, position) if position < size_bytes else b""
        except FileNotFoundError:
            return None
        finally:
            self._fs.close(fd)

    def kept(self, snapshot_id: EpochEndOffset) -> KeptSnapshot:
        """The size and the time of a snapshot. OSError; CorruptMessageError if it does not even begin like one."""
        path = self.path(snapshot_id)
        try:
            fd = self._fs.open(path)
        except FileNotFoundError:
            raise CorruptMessageError(f"{path} is gone") from None
        try:
            header = read_header(self._fs.pread(fd, HEADER_BYTES, 0))
        finally:
            self._fs.close(fd)
        return KeptSnapshot(snapshot_id, self._fs.size(path), header.max_timestamp_ms)

    def remove(self, snapshot_ids: Iterable[EpochEndOffset]) -> None:
        """Need not be durable: a start finds those that came back, and drops them again."""
        for snapshot_id in snapshot_ids:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self.path(snapshot_id))

    # -- a snapshot that the leader sends ------------------------------------------------------------------------------

    def write_part(self, snapshot_id: EpochEndOffset, position: int, data: bytes) -> None:
        """Writes the next bytes of the snapshot's part; position 0 begins it anew."""
        path = self.path(snapshot_id) + PART_SUFFIX
        if position == 0:
            self._drop_part()
        fd = self._fs.open(path, create=position == 0)
        try:
            self._part = (snapshot_id, position)
            written = 0
            while written < len(data):
                written += self._fs.pwritev(fd, [memoryview(data)[written:]], position + written)
        finally:
            self._fs.close(fd)

    def complete_part(self, snapshot_id: EpochEndOffset) -> MetadataImage | None:
        """All its bytes are written. If they are sound, it is durable under its name when this returns; else it is
        gone. May be called again after a shortage."""
        path = self.path(snapshot_id) + PART_SUFFIX
        if self._part is None:
            self._fs.fsync_dir(self.directory)
            return self.load(snapshot_id)
        try:
            image = decode_snapshot(self._fs.read_file(path), snapshot_id)
        except CorruptMessageError as damage:
            _log.error("%s, as the leader sent it: %s", metadata_snapshot_name(snapshot_id), damage)
            self._drop_part()
            return None
        fd = self._fs.open(path)
        try:
            self._fs.fdatasync(fd)
        finally:
            self._fs.close(fd)
        self._fs.rename(path, self.path(snapshot_id))
        self._part = None
        self._fs.fsync_dir(self.directory)
        return image

    def _drop_part(self) -> None:
        if self._part is not None:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(self.path(self._part[0]) + PART_SUFFIX)
        self._part = None

    def __repr__(self) -> str:
        return f"MetadataSnapshots({self.directory}, a part of {self._part})"
