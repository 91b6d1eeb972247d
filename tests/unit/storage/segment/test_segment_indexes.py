"""The indexes of a segment have entries near enough to each other, whatever a topic's index.interval.bytes is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.types import TimestampAndOffset
from storage.log.log import Log
from storage.log_config import LogConfig
from storage.segment.offset_index import ENTRY, INTERVAL_BATCHES_MAX, INTERVAL_BYTES_MAX
from tests.support.look_ups import offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log, read_all, reopened

FAR = LogConfig(segment_bytes=1 << 26, index_interval_bytes=(1 << 31) - 1)
LARGE = batch(bytes(INTERVAL_BYTES_MAX // 4), timestamp_ms=NOW_MS)


class CountingFileSystem(LosingFileSystem):
    """Counts the bytes that are read."""

    read_bytes = 0

    def pread(self, fd: int, size: int, at: int) -> bytes:
        data = super().pread(fd, size, at)
        self.read_bytes += len(data)
        return data


def entries(log: Log) -> list[int]:
    """The positions in the offset index of the active segment."""
    _, content = log.segments[-1].indexes.contents()[0]
    return [position for _, position in ENTRY.iter_unpack(content)]


def test_large_batches_have_an_entry_for_every_mebibyte_however_large_the_interval_is() -> None:
    log = new_log(LosingFileSystem(), FAR)
    for _ in range(20):
        log.append.as_leader(LARGE, 0, NOW_MS)

    positions = [0, *entries(log)]
    assert len(positions) == 5
    assert all(after - before <= INTERVAL_BYTES_MAX + len(LARGE) for before, after in pairwise(positions))


def test_the_first_append_after_a_start_reads_little_of_a_log_with_a_large_interval() -> None:
    """It is made on the event loop, and checks the batches behind the last entry."""
    fs = CountingFileSystem()
    log = new_log(fs, FAR)
    for _ in range(30):
        log.append.as_leader(LARGE, 0, NOW_MS)
    log.close()
    log = reopened(fs, 30, clean=True, config=FAR)
    fs.read_bytes = 0

    assert log.append.as_leader(batch(b"v"), 0, NOW_MS).first_offset == 30
    assert fs.read_bytes < 2 * (INTERVAL_BYTES_MAX + 2 * len(LARGE)) < 30 * len(LARGE)


@pytest.mark.parametrize("index_bytes", [24, 60])
def test_a_segment_of_many_small_batches_rolls_when_the_entries_of_its_batches_fill_its_index(index_bytes: int) -> None:
    """As with any interval (segment.index.bytes); the largest time of the segment needs an entry of its own."""
    config = replace(FAR, segment_index_bytes=index_bytes)
    log = new_log(LosingFileSystem(), config)
    for number in range(1000):
        log.append.as_leader(batch(b"v", timestamp_ms=NOW_MS + number), 0, NOW_MS)

    entries_max = max(index_bytes // 12 - 1, 0)
    each = entries_max * INTERVAL_BATCHES_MAX + 1 if entries_max else 1
    assert [segment.base_offset for segment in log.segments] == list(range(0, 1000, each))
    for segment in log.segments:
        assert all(len(content) <= index_bytes for _, content in segment.indexes.contents())
    assert [offset for offset, _ in read_all(log, 1 << 16)] == list(range(1000))


def test_a_log_keeps_its_records_and_their_times_while_its_interval_is_changed_back_and_forth() -> None:
    fs = LosingFileSystem()
    log = new_log(fs, FAR)
    number = 0
    for interval_bytes in (FAR.index_interval_bytes, 100, 0, FAR.index_interval_bytes, 4096) * 3:
        log.update_config(replace(FAR, index_interval_bytes=interval_bytes))
        for _ in range(150):
            log.append.as_leader(batch(b"v", timestamp_ms=NOW_MS + number), 0, NOW_MS)
            number += 1
        log.close()
        log = reopened(fs, number, clean=True, config=log.config)
        for offset in range(0, number, 37):
            assert offset_for_timestamp(log, NOW_MS + offset) == TimestampAndOffset(NOW_MS + offset, offset, 0)
    assert [offset for offset, _ in read_all(log, 1 << 16)] == list(range(number))
    assert log.statistics().index_rebuilds == 0
