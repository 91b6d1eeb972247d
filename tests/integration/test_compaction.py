"""A compacted topic, killed in mid-clean, at small size; `python -m tests.compaction` is the same at length."""

from __future__ import annotations

import pytest

from tests.support.compaction_campaign import CAMPAIGN, Options

SMALL = Options(
    updates=40_000,
    keys=800,
    kills=1,
    seed=5,
    partitions=2,
    rate=10_000,
    segment_bytes=128 * 1024,
    cleaner_bytes_per_s=4 * 1024 * 1024,
)


@pytest.mark.long  # the storage battery cuts at every operation of the cleaner
def test_each_key_has_its_last_value_after_a_kill_in_the_middle_of_cleaning() -> None:
    report = CAMPAIGN.run(SMALL)
    assert report.ok, report.as_json()
    found = report.figures
    assert found["updates"] == SMALL.updates
    assert found["cleanings"] > 1
    assert found["bytes_after"] < found["bytes_before"] / 3
    assert found["superseded_left"] == 0
