"""The age at which a segment is full: its own, within the jitter, and the same on every replica."""

from __future__ import annotations

import pytest

from storage.log.segment_roll import SEGMENTS_MAX, SMALL_BYTES, life_ms
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log

STEMS = [f"/data/orders-{partition}/{base:020d}" for partition in range(20) for base in (0, 100, 2000)]


def test_without_jitter_every_segment_lives_for_segment_ms() -> None:
    assert {life_ms(stem, LogConfig(segment_ms=1000)) for stem in STEMS} == {1000}


def test_jitter_spreads_segments_over_its_whole_range_and_no_further() -> None:
    lives = [life_ms(stem, LogConfig(segment_ms=1000, segment_jitter_ms=600)) for stem in STEMS]
    assert all(400 <= life <= 1000 for life in lives)
    assert min(lives) < 500 and max(lives) > 900 and len(set(lives)) > 50


def test_a_segment_has_the_same_jitter_in_another_log_dir() -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=600)
    assert life_ms("/a/orders-3/00000000000000000000", config) == life_ms("/b/c/orders-3/00000000000000000000", config)


def test_jitter_above_segment_ms_is_taken_as_segment_ms() -> None:
    lives = [life_ms(stem, LogConfig(segment_ms=10, segment_jitter_ms=2**63 - 1)) for stem in STEMS]
    assert min(lives) >= 0 and max(lives) <= 10


def test_a_compacted_log_rolls_before_a_record_has_been_there_for_max_compaction_lag() -> None:
    times = {"segment_ms": 1000, "max_compaction_lag_ms": 300}
    assert life_ms(STEMS[0], LogConfig(cleanup_policy="compact", **times)) == 300  # type: ignore[arg-type]
    assert life_ms(STEMS[0], LogConfig(cleanup_policy="delete", **times)) == 1000  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_ms=1),
        LogConfig(segment_bytes=100),
        LogConfig(segment_index_bytes=24, index_interval_bytes=0),
    ],
)
def test_a_log_of_many_segments_rolls_no_small_one(config: LogConfig) -> None:
    """Each batch would have a segment of its own: who owns a topic chooses that, and the node has it in memory."""
    fs = LosingFileSystem()
    log = new_log(fs, config)
    for number in range(SEGMENTS_MAX * 2 + 100):
        log.append.as_leader(batch(b"v", timestamp_ms=NOW_MS + 10 * number), 1, NOW_MS)
    assert len(log.segments) == SEGMENTS_MAX + 1


def test_a_log_of_many_segments_rolls_one_that_is_not_small() -> None:
    log = new_log(LosingFileSystem(), LogConfig(segment_ms=1))
    for number in range(SEGMENTS_MAX + 100):
        log.append.as_leader(batch(b"v", timestamp_ms=NOW_MS + 10 * number), 1, NOW_MS)
    for number in range(1, 4):
        large = batch(bytes(SMALL_BYTES * 2 // 3), timestamp_ms=NOW_MS + number * 100_000)
        log.append.as_leader(large, 1, NOW_MS)
    assert len(log.segments) == SEGMENTS_MAX + 2
    assert log.segments[-1].base_offset == log.log_end_offset - 1
