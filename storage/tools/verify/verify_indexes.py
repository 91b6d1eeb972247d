"""Checks the two indexes of a segment against its batches, as these are walked: one pass over each, side by side.

Every entry must point to its batch, and entries must ascend. A bad index costs only time, because an entry is compared
with its batch before it is used (`segment_indexes.py`). So everything here is a warning, one for each file. Which
entries exist is not checked: an index may have been written with another `index.interval.bytes`, and that of the active
segment ends where the last clean stop was. Nothing is rebuilt here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from struct import Struct

from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from storage.disk.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.disk.file_system import FileSystem
from storage.segment import offset_index, time_index
from storage.tools.verify.findings import REBUILD, Finding

_OLDER_THAN_ALL = -(2**63)
_NEVER = (2**63, 2**63)


@dataclass(slots=True)
class _Entries:
    """The entries of one index file, taken one by one, and their faults."""

    path: str
    entry_bytes: int
    rows: list[tuple[int, int]]
    at: int = 0
    wrong: int = 0
    first_wrong: int = 0
    why: str = ""
    next: tuple[int, int] = field(default=_NEVER)

    def start(self) -> None:
        self.next = self.rows[0] if self.rows else _NEVER

    def take(self, why: str = "") -> None:
        """The next entry is settled; `why` says what is wrong with it."""
        self._judge(why)
        before = self.next
        self._step()
        while self.next is not _NEVER and not (self.next[0] > before[0] and self.next[1] > before[1]):
            self._judge(f"{self.next} does not ascend after {before}")
            self._step()

    def _judge(self, why: str) -> None:
        if why and not self.wrong:
            self.first_wrong, self.why = self.at, why
        self.wrong += bool(why)

    def _step(self) -> None:
        self.at += 1
        self.next = self.rows[self.at] if self.at < len(self.rows) else _NEVER

    def finding(self) -> Finding:
        more = f" (and {self.wrong - 1} more entries)" if self.wrong > 1 else ""
        position = self.first_wrong * self.entry_bytes
        return Finding("warning", "index", self.path, f"{self.why}{more}", REBUILD, position=position)


class IndexCheck:
    """Both indexes of one segment; given every batch in order."""

    def __init__(self, fs: FileSystem, stem: str, base_offset: int, *, must_exist: bool, is_final: bool) -> None:
        """`is_final`: the segment is full and its indexes were written for good."""
        self._fs = fs
        self._base = base_offset
        self._must_exist = must_exist
        self._is_final = is_final
        self._findings: list[Finding] = []
        self._offsets = self._load(stem + INDEX_SUFFIX, offset_index.ENTRY)
        self._times = self._load(stem + TIME_INDEX_SUFFIX, time_index.ENTRY)
        self._max_timestamp_ms = _OLDER_THAN_ALL

    def _load(self, path: str, entry: Struct) -> _Entries:
        """Loads the entries of an index. In both indexes the second column leads to the batch, and the first holds a
        fact about it."""
        entries = _Entries(path, entry.size, [])
        try:
            content = self._fs.read_file(path)
        except FileNotFoundError:
            if self._must_exist:
                self._findings.append(Finding("warning", "index-missing", path, "there is no such file", REBUILD))
            return entries
        whole = len(content) // entry.size * entry.size
        if whole != len(content):
            what = f"{len(content)} bytes are no multiple of {entry.size}"
            self._findings.append(Finding("warning", "index", path, what, REBUILD, position=whole))
        entries.rows = [(a, b) for a, b in entry.iter_unpack(content[:whole])]
        entries.start()
        return entries

    def note(self, position: int, header: BatchHeader) -> None:
        """A batch stands at `position`."""
        relative = header.last_offset - self._base
        offsets, times = self._offsets, self._times
        while offsets.next[1] < position:
            offsets.take(f"no batch begins at byte {offsets.next[1]}")
        if offsets.next[1] == position:
            good = offsets.next[0] == relative
            offsets.take("" if good else f"the batch at byte {position} ends at offset {header.last_offset}")
        while times.next[1] < relative:
            times.take(f"no batch ends at offset {self._base + times.next[1]}")
        if times.next[1] == relative:
            good = header.max_timestamp_ms == times.next[0] > self._max_timestamp_ms
            times.take("" if good else f"the batch that ends there has {header.max_timestamp_ms}, not {times.next[0]}")
        if header.max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = header.max_timestamp_ms

    def finish(self, *, walked_to_end: bool) -> Iterator[Finding]:
        """The faults. An entry behind the end of the file is one if the whole file was walked."""
        if walked_to_end:
            for entries in (self._offsets, self._times):
                while entries.next is not _NEVER:
                    entries.take(f"{entries.next} points behind the last batch")
            if self._is_final and not (self._times.wrong or self._findings) and not self._times_are_closed():
                self._times.at = max(len(self._times.rows) - 1, 0)
                self._times.take(f"the last entry is not the largest timestamp, {self._max_timestamp_ms}")
        yield from self._findings
        yield from (entries.finding() for entries in (self._offsets, self._times) if entries.wrong)

    def _times_are_closed(self) -> bool:
        """True if the last entry of a full segment is its largest timestamp. A segment without batches has no entry."""
        rows = self._times.rows
        return (rows[-1][0] if rows else _OLDER_THAN_ALL) == self._max_timestamp_ms
