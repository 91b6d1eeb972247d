"""A compacted topic, killed in mid-clean, at small size; `python -m tests.compaction` is the same at length."""

from __future__ import annotations

from tests.support.compaction_campaign import CompactionConfig, run_campaign

SMALL = CompactionConfig(
    updates=40_000,
    keys=800,
    kills=1,
    seed=5,
    partitions=2,
    records_per_s=10_000,
    segment_bytes=128 * 1024,
    cleaner_bytes_per_s=4 * 1024 * 1024,
)


def test_each_key_has_its_last_value_after_a_kill_in_the_middle_of_cleaning() -> None:
    result = run_campaign(SMALL)
    assert result.ok, f"{result.as_json()}; kept: {result.directory}"
    assert result.updates == SMALL.updates
    assert result.cleanings > 1
    assert result.checked["nodes"][0]["bytes"] < result.bytes_sent / 3
    assert result.checked["nodes"][0]["superseded"] == 0
