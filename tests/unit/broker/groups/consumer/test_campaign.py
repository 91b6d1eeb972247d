"""Members under seeded faults (tests/support/consumer_campaign.py): a short piece of the campaign."""

from __future__ import annotations

import pytest

from tests.support.consumer_campaign import ROUNDS_MAX, run


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_has_two_owners_and_every_group_settles(seed: int) -> None:
    assert run(seed, steps=250) <= ROUNDS_MAX
