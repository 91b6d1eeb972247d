"""The two index files: their bytes, their look-ups, and what is refused."""

from __future__ import annotations

import struct

from storage.segment.offset_index import IndexEntry, OffsetIndex
from storage.segment.time_index import TimeEntry, TimeIndex


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex()
    for offset, position in entries:
        index.append(offset, position)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex()
    for timestamp_ms, offset in entries:
        index.maybe_append(timestamp_ms, offset)
    return index


def test_offset_index_file_is_big_endian_pairs_of_int32() -> None:
    assert offset_index((9, 4096), (20, 8192)).to_bytes() == struct.pack(">iiii", 9, 4096, 20, 8192)


def test_time_index_file_is_big_endian_int64_and_int32() -> None:
    assert time_index((1_700_000_000_000, 9), (1_700_000_000_001, 12)).to_bytes() == struct.pack(
        ">qiqi", 1_700_000_000_000, 9, 1_700_000_000_001, 12
    )


def test_an_index_reads_back_what_it_wrote() -> None:
    offsets, times = offset_index((9, 100), (20, 200)), time_index((5, 1), (7, 3))

    assert OffsetIndex.parse(offsets.to_bytes(), 300).to_bytes() == offsets.to_bytes()  # type: ignore[union-attr]
    assert TimeIndex.parse(times.to_bytes()).to_bytes() == times.to_bytes()  # type: ignore[union-attr]


def test_offset_index_refuses_what_cannot_be_an_index() -> None:
    whole = offset_index((9, 100), (20, 200)).to_bytes()

    assert OffsetIndex.parse(whole[:-1], 300) is None
    assert OffsetIndex.parse(whole, 200) is None, "an entry behind the end of the log"
    assert OffsetIndex.parse(whole[8:] + whole[:8], 300) is None
    assert OffsetIndex.parse(whole + whole[8:], 300) is None, "not strictly ascending"
    assert OffsetIndex.parse(struct.pack(">ii", -1, 0), 300) is None


def test_time_index_refuses_what_cannot_be_an_index() -> None:
    whole = time_index((5, 1), (7, 3)).to_bytes()

    assert TimeIndex.parse(whole[:-1]) is None
    assert TimeIndex.parse(whole[12:] + whole[:12]) is None
    assert TimeIndex.parse(whole + whole[12:]) is None


def test_floor_is_the_last_entry_that_is_not_above() -> None:
    index = offset_index((9, 100), (20, 200))

    assert index.floor_offset(8) is None
    assert index.floor_offset(9) == IndexEntry(9, 100)
    assert index.floor_offset(19) == IndexEntry(9, 100)
    assert index.floor_offset(1000) == IndexEntry(20, 200)
    assert index.floor_position(99) is None
    assert index.floor_position(200) == IndexEntry(20, 200)


def test_time_before_is_strictly_older() -> None:
    index = time_index((5, 1), (7, 3))

    assert index.before(5) is None
    assert index.before(6) == TimeEntry(5, 1)
    assert index.before(7) == TimeEntry(5, 1)
    assert index.before(8) == TimeEntry(7, 3)


def test_a_timestamp_that_is_not_larger_adds_no_entry() -> None:
    index = time_index((5, 1), (5, 3), (4, 5))

    assert len(index) == 1
    assert index.last() == TimeEntry(5, 1)


def test_truncation_forgets_entries_at_and_behind_the_cut() -> None:
    offsets, times = offset_index((9, 100), (20, 200)), time_index((5, 1), (7, 3))
    offsets.truncate_to_position(200)
    times.truncate_to_relative_offset(3)

    assert offsets.last() == IndexEntry(9, 100)
    assert times.last() == TimeEntry(5, 1)
