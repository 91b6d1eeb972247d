"""The age at which a segment is full: its own, within the jitter, and the same on every replica."""

from __future__ import annotations

from storage.log.segment_roll import life_ms
from storage.log_config import LogConfig

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
