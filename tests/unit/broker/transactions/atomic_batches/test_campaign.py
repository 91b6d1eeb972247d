"""Short pieces of the campaign of tests/support/batch_campaign.py."""

from __future__ import annotations

from tests.support import batch_campaign


def test_versions_are_whole_and_decided_once_whatever_fails() -> None:
    assert sum(batch_campaign.run(seed, steps=500) for seed in range(15)) > 250
