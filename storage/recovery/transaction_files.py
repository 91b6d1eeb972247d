"""The `.txnindex` files of one log: which are on the disk as they should be, and which a snapshot needs.

A snapshot of the producers names the index of each segment that has one, with its checksum. So an index is written by
the same thread, just BEFORE the first snapshot that names it: at the roll behind its segment, at a clean stop, before
retention. A crash in between costs time: a start reads what the newest snapshot does not tell from the log.

The checksums of full segments are kept: entries come to the newest segment only. A cut, the cleaner and retention
change others, and then all are computed anew. Used on the loop, but for `written`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from storage.disk.file_names import TXN_INDEX_SUFFIX, file_stem
from storage.disk.file_system import FileSystem
from storage.segment.segment import Segment
from storage.segment.transaction_index import AbortedTransactions, IndexedSegment


class IndexFile(NamedTuple):
    """A file to write."""

    of: IndexedSegment
    path: str
    content: bytes


class TransactionFiles:
    """The `.txnindex` files of one log."""

    __slots__ = ("_directory", "_sums", "_written", "aborted")

    def __init__(self, directory: str, aborted: AbortedTransactions, written: Iterable[IndexedSegment]) -> None:
        """`written`: the files that were read."""
        self._directory, self.aborted = directory, aborted
        self._written = {one.base_offset: one for one in written}
        self._sums = dict(self._written)

    def changed(self) -> None:
        """Entries were taken out."""
        self._sums, self._written = {}, {}

    @property
    def is_known(self) -> bool:
        """False after entries were taken out: no snapshot on the disk has the sums of now."""
        return bool(self._sums)

    def forget_below(self, offset: int) -> None:
        """The segments below it have left the log."""
        if self.aborted.forget_below(offset):
            self._sums = {base_offset: one for base_offset, one in self._sums.items() if base_offset >= offset}

    def needed(
        self, segments: Iterable[Segment], offset: int
    ) -> tuple[tuple[IndexedSegment, ...], tuple[IndexFile, ...]]:
        """The segments below the offset, which is the log end, that have aborted transactions; and the files of them
        that are not on the disk."""
        if not len(self.aborted):
            return (), ()
        found: list[IndexedSegment] = []
        files: list[IndexFile] = []
        for base_offset, next_offset in pairwise([*(segment.base_offset for segment in segments), offset]):
            entries = self.aborted.count(base_offset, next_offset)
            one = self._sums.get(base_offset)
            if entries and (one is None or one.entries != entries or self._written.get(base_offset) != one):
                content = self.aborted.file_content(base_offset, next_offset)
                one = self._sums[base_offset] = IndexedSegment.of(base_offset, content)
                files.append(IndexFile(one, self._path(base_offset), content))
            if entries and one is not None:
                found.append(one)
        return tuple(found), tuple(files)

    def _path(self, base_offset: int) -> str:
        return f"{self._directory}/{file_stem(base_offset)}{TXN_INDEX_SUFFIX}"

    def cut(self, fs: FileSystem, log_end_offset: int, base_offset: int) -> None:
        """The log was cut to this end, in the segment with this base offset. Its file may go, or have too many entries:
        it is written anew with the next snapshot."""
        if self.aborted.cut(log_end_offset):
            self.changed()
            with contextlib.suppress(OSError):
                fs.unlink(self._path(base_offset))

    def written(self, one: IndexedSegment) -> None:
        """Notes that a file was written, in any thread. If entries were taken out meanwhile, the file is written once
        more."""
        self._written[one.base_offset] = one

    def __repr__(self) -> str:
        return f"TransactionFiles({self._directory}, {self.aborted!r}, {len(self._written)} written)"
