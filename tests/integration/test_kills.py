"""The kill campaign at small size; `python -m tests.chaos --kills 20` is the same at length."""

from __future__ import annotations

from tests.support.kill_campaign import CampaignConfig, run_campaign


def test_nothing_is_lost_or_changed_and_replicas_are_equal_after_kills_under_load() -> None:
    result = run_campaign(CampaignConfig(kills=3, seed=7))
    assert result.ok, f"{result.as_json()}; kept: {result.directory}"
    assert result.failed == 0
    assert result.acked > 0
