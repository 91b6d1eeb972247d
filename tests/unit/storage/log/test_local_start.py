"""Promises of the two starts of a log: what can be read and what is on this disk are two questions.

Both have one answer today, so these tests play a log that has its records below LOCAL_START in another storage, too.
"""

from __future__ import annotations

import pytest

from storage.log.log import Log
from storage.log.log_span import LogSpan
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log

LOCAL_START = 20


@pytest.fixture
def log() -> Log:
    """Each of its 30 records has a segment."""
    log = new_log(LosingFileSystem(), LogConfig(segment_bytes=1000))
    for _ in range(30):
        log.append.as_leader(batch(bytes(900)), 0, NOW_MS)
    log.flush()
    assert log.local_log_start_offset == log.log_start_offset == 0 and len(log.segments) == 30
    return log


@pytest.fixture
def tiered(log: Log, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(LogSpan, "local_start", property(lambda span: max(span.start, LOCAL_START)))
    return log


def test_segments_below_the_local_start_may_go_although_their_records_can_be_read(tiered: Log) -> None:
    assert tiered.full.below_local_start(30) == LOCAL_START and tiered.log_start_offset == 0


def test_a_segment_below_the_local_start_leaves_the_disk_and_not_the_log(tiered: Log) -> None:
    tiered.full.remove_oldest(LOCAL_START)
    assert tiered.segments[0].base_offset == LOCAL_START
    assert tiered.log_start_offset == 0 and tiered.epoch_entries[0].start_offset == 0


def test_a_segment_above_the_local_start_takes_its_records_out_of_the_log(tiered: Log) -> None:
    tiered.full.remove_oldest(LOCAL_START + 5)
    assert tiered.log_start_offset == tiered.local_log_start_offset == LOCAL_START + 5


def test_a_cut_below_the_local_start_leaves_no_segment_with_records(tiered: Log) -> None:
    tiered.truncate_to(LOCAL_START - 5)
    assert [segment.size_bytes for segment in tiered.segments] == [0]
    assert tiered.log_end_offset == LOCAL_START - 5
