"""Reads the `.txnindex` files of one log at a start, as far as the newest snapshot of its producers says that they are
right.

A file that is missing, too short or other than that ends it: what there is from its segment on must be read from the
log. So a file that was damaged, forged, or left behind by a cut or a cleaning costs time, and never gives a wrong
answer. Entries behind those that the snapshot knows are not looked at, because the batches behind it are read anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage.disk.file_names import TXN_INDEX_SUFFIX
from storage.disk.file_system import FileSystem
from storage.segment.segment import Segment
from storage.segment.transaction_index import AbortedTransactions, IndexedSegment, iter_entries


class TransactionIndexes(NamedTuple):
    """The files that were read."""

    good: tuple[IndexedSegment, ...]
    aborted: AbortedTransactions
    """The entries of the good indexes."""
    bad_from: int | None
    """The base offset of the first segment whose file is not as it should be; None if all are."""


def read_indexes(fs: FileSystem, segments: Sequence[Segment], wanted: Sequence[IndexedSegment]) -> TransactionIndexes:
    """Reads the files of the wanted segments; those that were removed from the beginning of the log are not missed."""
    by_base = {segment.base_offset: segment for segment in segments}
    aborted = AbortedTransactions()
    good: list[IndexedSegment] = []
    for one in wanted:
        if one.base_offset < segments[0].base_offset:
            continue
        segment = by_base.get(one.base_offset)
        content = None if segment is None else _content(fs, segment.stem + TXN_INDEX_SUFFIX)
        entries = None if content is None else one.of_file(content)
        if entries is None:
            return TransactionIndexes(tuple(good), aborted, one.base_offset)
        aborted.take_all(iter_entries(entries))
        good.append(one)
    return TransactionIndexes(tuple(good), aborted, None)


def _content(fs: FileSystem, path: str) -> bytes | None:
    try:
        return fs.read_file(path)
    except FileNotFoundError:
        return None
