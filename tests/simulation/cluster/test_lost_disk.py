"""A power cut of the whole cluster, then the disk of any one machine gone: the others lead all, with all acked records.

Thirty seeds of the same: `python -m tests.simulation.cluster --lost-disk --seeds 0-29`.
"""

from __future__ import annotations

import pytest

from tests.simulation.cluster.lost_disk_plan import draw_lost_disk_plan
from tests.simulation.cluster.plan import Kind
from tests.simulation.cluster.world import World
from tests.support.amount import usually

SEEDS = range(usually(1, long=3))


@pytest.mark.parametrize("seed", SEEDS)
def test_any_one_disk_may_be_lost_in_a_power_cut_of_all(seed: int) -> None:
    outcome = World(draw_lost_disk_plan(seed)).run()
    assert not outcome.failures, "\n".join(
        [*outcome.failures, f"python -m tests.simulation.cluster --lost-disk --seed {seed} --transcript"]
    )
    assert outcome.faults[Kind.LOSE_IN_CUT.name] == 1 and outcome.acked > 0
