"""A writer that wants more than its quota has its quota, and loses nothing; the invariant notices one that has more."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.drawn_plan import draw_plan
from tests.simulation.cluster.mutants.edit import switched_on
from tests.simulation.cluster.mutants.quotas import QUOTA, QUOTAS, throttled
from tests.simulation.cluster.world import World


def test_a_busy_writer_has_its_quota_and_all_of_it_is_read() -> None:
    (plan,) = throttled()
    world = World(plan)
    assert world.run().failures == []
    assert world.clients.quotas.per_second == pytest.approx(QUOTA, rel=0.05)


def test_a_rate_that_gives_ten_seconds_at_once_is_noticed() -> None:
    (plan,) = throttled()
    with switched_on(QUOTAS[0]):
        failures = World(plan).run().failures
    assert any("I81" in failure for failure in failures)


def test_quotas_are_drawn() -> None:
    assert {draw_plan(seed).byte_rate for seed in range(60)} == {None, 30_000, 100_000}
