"""How old a segment is: by its records, by its file, from memory or from the disk, and no descriptor is left behind."""

from __future__ import annotations

import pytest

from storage.segment.segment_time import SegmentSnapshot, largest_time_ms
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log

AGES_MS = (5, 0, 9, 7, 1, 3, 8, 2, 6, 4, 11, 10)


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("lost", [(), (".index",), (".timeindex",), (".index", ".timeindex")])
def test_the_age_is_that_of_the_largest_timestamp_wherever_it_is_known(flushed: bool, lost: tuple[str, ...]) -> None:
    fs = LosingFileSystem()
    log = new_log(fs)
    for age_ms in AGES_MS:
        log.append.as_leader(batch(b"v" * 40, timestamp_ms=NOW_MS - age_ms), 0, NOW_MS)
    if flushed:
        log.flush()
    assert len(log.segments) >= 2
    files = [SegmentSnapshot.of(segment) for segment in log.segments]
    for segment in log.segments[:-1]:
        segment.release()
        for suffix in lost if flushed else ():
            fs.unlink(segment.stem + suffix)
    before = fs.open_descriptors
    expected = [NOW_MS - min(AGES_MS[file.base_offset : file.next_offset]) for file in files]
    assert [largest_time_ms(fs, file) for file in files] == expected
    assert fs.open_descriptors == before
    log.close()


def test_without_timestamps_the_age_is_that_of_the_file() -> None:
    fs = LosingFileSystem()
    log = new_log(fs)
    log.append.as_leader(batch(b"v", timestamp_ms=-1), 0, NOW_MS)
    file = SegmentSnapshot.of(log.segments[0])
    fs.file_at(file.path).modified_ms = NOW_MS - 77
    assert largest_time_ms(fs, file) == NOW_MS - 77
    log.close()


def test_a_segment_that_grew_is_not_the_one_that_was_looked_at() -> None:
    fs = LosingFileSystem()
    log = new_log(fs)
    log.append.as_leader(batch(b"v"), 0, NOW_MS)
    file = SegmentSnapshot.of(log.segments[0])
    assert file.is_unchanged()
    log.append.as_leader(batch(b"v"), 0, NOW_MS)
    assert not file.is_unchanged()
    log.close()
