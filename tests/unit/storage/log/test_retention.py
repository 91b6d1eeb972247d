"""Promises of retention: what goes, what stays whatever its age, and that nothing is asked of the disk in vain."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storage.log.retention import DeletionReason, LogBounds, SegmentFacts, expired
from storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
ALL_COMMITTED = LogBounds(0, 10**9)
TIME, SIZE, LOG_START = DeletionReason.TIME, DeletionReason.SIZE, DeletionReason.LOG_START


def segments(*ages_ms: int, size_bytes: int = 100) -> list[SegmentFacts]:
    """Ten records each, oldest first; the last is active."""
    return [SegmentFacts(10 * (at + 1), size_bytes, lambda age=age: NOW_MS - age) for at, age in enumerate(ages_ms)]


def by_time(retention_ms: int = DAY_MS, policy: str = "delete") -> LogConfig:
    return LogConfig(retention_ms=retention_ms, cleanup_policy=policy)


def by_size(retention_bytes: int) -> LogConfig:
    return LogConfig(retention_ms=-1, retention_bytes=retention_bytes)


@pytest.mark.parametrize(
    ("ages_ms", "goes"),
    [
        ([DAY_MS + 2, DAY_MS + 1, DAY_MS, 0], [TIME, TIME]),
        ([DAY_MS, 0], []),  # not older than retention.ms
        ([DAY_MS + 1, 0, DAY_MS + 1, 0], [TIME]),  # a young one keeps all behind it
        ([-DAY_MS, DAY_MS + 1], []),  # from the future
        ([DAY_MS + 2, DAY_MS + 1], [TIME, TIME]),  # the active one too
        ([0], []),
    ],
)
def test_segments_go_by_time_from_the_oldest_on(ages_ms: list[int], goes: list[DeletionReason]) -> None:
    assert list(expired(segments(*ages_ms), by_time(), ALL_COMMITTED, NOW_MS)) == goes


@pytest.mark.parametrize(
    ("retention_bytes", "goes"), [(0, 4), (99, 3), (100, 3), (101, 2), (250, 1), (300, 1), (301, 0), (-1, 0)]
)
def test_at_least_retention_bytes_stay(retention_bytes: int, goes: int) -> None:
    assert expired(segments(0, 0, 0, 0), by_size(retention_bytes), ALL_COMMITTED, NOW_MS) == (SIZE,) * goes


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    old = segments(*[DAY_MS + 1] * 4)
    assert [len(expired(old, by_time(), LogBounds(0, offset), NOW_MS)) for offset in (0, 9, 10, 29, 39, 40)] == [
        0,
        0,
        1,
        2,
        3,
        4,
    ]


def test_time_and_size_are_judged_together() -> None:
    config = LogConfig(retention_ms=DAY_MS, retention_bytes=150)
    assert expired(segments(DAY_MS + 1, 0, 0, 0), config, ALL_COMMITTED, NOW_MS) == (SIZE, SIZE)
    assert expired(segments(DAY_MS + 1, DAY_MS + 1, DAY_MS + 1), config, ALL_COMMITTED, NOW_MS) == (SIZE, TIME, TIME)


def test_segments_below_the_log_start_go_but_the_active_one_stays() -> None:
    config = by_time(-1)
    for start, goes in ((0, 0), (9, 0), (10, 1), (25, 2), (40, 3)):
        assert expired(segments(0, 0, 0, 0), config, LogBounds(start, 40), NOW_MS) == (LOG_START,) * goes


@pytest.mark.parametrize(("policy", "goes"), [("compact", 1), ("compact,delete", 4), ("delete", 4)])
def test_a_compacted_log_loses_only_what_is_below_its_start(policy: str, goes: int) -> None:
    old = segments(*[DAY_MS + 1] * 4)
    assert len(expired(old, by_time(policy=policy), LogBounds(10, 40), NOW_MS)) == goes


def test_an_empty_active_segment_stays() -> None:
    old = [*segments(DAY_MS + 1), SegmentFacts(10, 0, lambda: NOW_MS - 2 * DAY_MS)]
    assert expired(old, by_time(), ALL_COMMITTED, NOW_MS) == (TIME,)


def test_without_a_time_to_believe_nothing_goes_by_time() -> None:
    config = LogConfig(retention_ms=DAY_MS, retention_bytes=200)
    assert expired(segments(DAY_MS + 1, DAY_MS + 1, 0), config, ALL_COMMITTED, None) == (SIZE,)


@pytest.mark.parametrize(
    ("config", "asked"), [(by_time(), [0, 1]), (by_time(-1), []), (by_size(200), []), (by_time(policy="compact"), [])]
)
def test_the_time_of_a_segment_is_asked_only_where_it_decides(config: LogConfig, asked: Sequence[int]) -> None:
    found: list[int] = []

    def time_of(at: int) -> int:
        found.append(at)
        return NOW_MS - (DAY_MS + 1 if at == 0 else 0)

    facts = [SegmentFacts(10 * (at + 1), 100, lambda at=at: time_of(at)) for at in range(4)]  # type: ignore[misc]
    expired(facts, config, ALL_COMMITTED, NOW_MS)
    assert found == asked
