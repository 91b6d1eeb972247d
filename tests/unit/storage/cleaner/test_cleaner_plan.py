"""The plan of a cleaning: the next log, its range, and the segments that become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from storage.cleaner.cleaner_plan import (
    CleanableSegment,
    KnownHorizon,
    LogFacts,
    assess,
    first_dirty_offset,
    group_segments,
)
from storage.cleaner.cleaner_types import NEVER_MS, Reason, SegmentFile
from storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000
HALF = LogConfig(cleanup_policy="compact")


def must_not_be_asked() -> int:
    raise AssertionError("a time was asked for in vain")


def segments(*sizes: int, ages_ms: Sequence[int] | None = None) -> list[CleanableSegment]:
    """Ten offsets each."""
    found = []
    for at, size_bytes in enumerate(sizes):
        time = must_not_be_asked if ages_ms is None else lambda age_ms=ages_ms[at]: NOW_MS - age_ms
        found.append(CleanableSegment(10 * at, 10 * at + 10, size_bytes, time, time))
    return found


def facts(
    found: list[CleanableSegment], checkpoint: int | None = None, config: LogConfig = HALF, **more: object
) -> LogFacts:
    known = {"begin_offset": 0, "log_end_offset": 1000, "horizon": None, **more}
    return LogFacts(found, checkpoint=checkpoint, config=config, **known)  # type: ignore[arg-type]


def test_a_log_that_was_never_cleaned_is_all_dirty() -> None:
    found = assess(facts(segments(100, 100)), NOW_MS)

    assert (found.reason, found.dirty_ratio) == (Reason.DIRTY, 1.0)
    assert (found.first_dirty_offset, found.end_offset) == (0, 20)


def test_dirty_is_what_came_since_the_checkpoint() -> None:
    found = assess(facts(segments(100, 100, 150, 250), checkpoint=20), NOW_MS)

    assert (found.clean_bytes, found.dirty_bytes) == (200, 400)
    assert (found.first_dirty_offset, found.end_offset, found.reason) == (20, 40, Reason.DIRTY)


def test_the_ratio_must_be_above_the_configured_one() -> None:
    even = facts(segments(100, 100), checkpoint=10, horizon=KnownHorizon(NEVER_MS, 10))

    assert assess(even, NOW_MS).reason is None
    config = replace(HALF, min_cleanable_dirty_ratio=0.49)
    assert assess(even._replace(config=config), NOW_MS).reason is Reason.DIRTY


def test_a_segment_that_was_cleaned_in_part_is_dirty() -> None:
    found = assess(facts(segments(100, 100), checkpoint=15), NOW_MS)

    assert (found.first_dirty_offset, found.clean_bytes, found.dirty_bytes) == (15, 100, 100)


def test_nothing_above_the_high_watermark_or_unflushed_is_touched() -> None:
    found = assess(facts([], checkpoint=None), NOW_MS)

    assert (found.reason, found.end_offset) == (None, 0)


def test_young_records_wait_and_so_does_what_comes_after_them() -> None:
    config = replace(HALF, min_compaction_lag_ms=1000)
    found = segments(100, 100, 100, 100, ages_ms=[9999, 1000, 999, 5000])

    assert assess(facts(found, config=config), NOW_MS).end_offset == 20
    assert assess(facts(found, checkpoint=20, config=config), NOW_MS).dirty_bytes == 0


def test_an_old_dirty_record_makes_it_the_logs_turn_whatever_the_ratio() -> None:
    config = replace(HALF, max_compaction_lag_ms=1000)
    for age_ms, reason in ((1001, Reason.MAX_LAG), (1000, None), (NOW_MS + 1, None)):
        found = segments(900, 100, ages_ms=[9999, age_ms])
        clean = facts(found, checkpoint=10, config=config, horizon=KnownHorizon(NEVER_MS, 10))
        assert assess(clean, NOW_MS).reason is reason


def test_a_checkpoint_outside_the_log_is_not_believed() -> None:
    for checkpoint, why in ((1001, "the log ends at 1000"), (29, "the log begins at 30")):
        found, warning = first_dirty_offset(facts([], checkpoint, begin_offset=30))
        assert found == 30
        assert warning is not None
        assert why in warning


def test_a_checkpoint_above_the_high_watermark_is_believed_and_nothing_is_dirty() -> None:
    found = assess(facts(segments(100, 100), checkpoint=500, horizon=KnownHorizon(NEVER_MS, 500)), NOW_MS)

    assert (found.reason, found.first_dirty_offset, found.end_offset, found.dirty_bytes) == (None, 500, 20, 0)


def test_tombstones_make_it_the_turn_of_a_log_that_is_not_dirty() -> None:
    clean = facts(segments(100, 100), checkpoint=20)
    for horizon, reason in (
        (KnownHorizon(NOW_MS - 1, 20), Reason.TOMBSTONES),
        (KnownHorizon(NOW_MS, 20), None),
        (KnownHorizon(NEVER_MS, 20), None),
        (KnownHorizon(NEVER_MS, 19), Reason.UNKNOWN_HORIZON),
        (None, Reason.UNKNOWN_HORIZON),
    ):
        found = assess(clean._replace(horizon=horizon), NOW_MS)
        assert (found.reason, found.end_offset) == (reason, 20)


def test_a_pass_for_tombstones_takes_the_dirty_part_along() -> None:
    found = assess(facts(segments(900, 100), checkpoint=10, horizon=KnownHorizon(5, 10)), NOW_MS)

    assert (found.reason, found.first_dirty_offset, found.end_offset) == (Reason.TOMBSTONES, 10, 20)


def test_a_pass_for_tombstones_reaches_into_a_segment_that_is_too_young_for_more() -> None:
    config = replace(HALF, min_compaction_lag_ms=1000)
    found = segments(100, 100, ages_ms=[5000, 10])

    assert assess(facts(found, checkpoint=15, config=config, horizon=KnownHorizon(5, 15)), NOW_MS).end_offset == 15


def test_a_log_that_was_never_cleaned_has_no_horizon_to_ask_for() -> None:
    config = replace(HALF, min_cleanable_dirty_ratio=1.0)

    assert assess(facts(segments(100), config=config), NOW_MS).reason is None
    assert assess(facts([], checkpoint=0), NOW_MS).reason is None


def test_the_dirtiest_goes_first_and_horizons_last() -> None:
    dirty = assess(facts(segments(100, 150), checkpoint=10), NOW_MS)
    dirtier = assess(facts(segments(100, 250), checkpoint=10), NOW_MS)
    tombstones = assess(facts(segments(900, 100), checkpoint=10, horizon=KnownHorizon(5, 10)), NOW_MS)
    unknown = assess(facts(segments(900, 500), checkpoint=10), NOW_MS)
    idle = assess(facts([]), NOW_MS)

    order = sorted([idle, dirty, unknown, dirtier, tombstones], key=lambda found: found.urgency, reverse=True)
    assert order == [dirtier, dirty, tombstones, unknown, idle]


def files(*sizes: int, width: int = 10) -> list[SegmentFile]:
    return [SegmentFile(f"{at}", width * at, width * at + width, size) for at, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "grouped"),
    [
        ([], []),
        ([100], [1]),
        ([101, 1], [1, 1]),
        ([50, 50, 1], [2, 1]),
        ([1, 2, 3, 95, 4, 96, 1], [3, 2, 2]),
        ([500, 1, 1], [1, 2]),
    ],
)
def test_neighbours_that_fit_become_one_segment(sizes: list[int], grouped: list[int]) -> None:
    found = group_segments(files(*sizes), LogConfig(segment_bytes=100))

    assert [len(group) for group in found] == grouped
    assert [file for group in found for file in group] == files(*sizes)


def test_a_group_has_no_more_offsets_than_an_index_can_tell() -> None:
    config = LogConfig()

    assert len(group_segments(files(1, 1, width=2**30), config)) == 2
    assert len(group_segments(files(1, 1, width=2**30 - 1), config)) == 1


def test_a_group_has_no_more_entries_than_an_index_may_have() -> None:
    config = LogConfig(segment_index_bytes=120, index_interval_bytes=10)

    assert [len(group) for group in group_segments(files(30, 30, 30, 30, 30), config)] == [3, 2]
