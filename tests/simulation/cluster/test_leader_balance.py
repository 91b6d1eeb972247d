"""A leader goes and comes back under load: it leads again within an interval, and clients have only retries of it."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import Aim, Fault, Kind
from tests.simulation.cluster.world import World


def test_a_leader_that_was_killed_leads_again_and_no_record_is_lost() -> None:
    (plan,) = directed(
        Fault(1.0, Kind.KILL, 1, 0, 1.0, 0.5, Aim.LEADER),
        tellings=1,
        min_isr=2,
        leader_imbalance_check_interval_seconds=2,
    )
    outcome = World(plan).run()
    assert not outcome.failures
    assert outcome.given_back == 1 and outcome.acked > 100 and outcome.failed_records == 0


@pytest.mark.long
def test_leaderships_that_move_each_second_cost_clients_nothing_but_retries() -> None:
    (plan,) = directed(
        *(Fault(1.0 + 2.5 * number, Kind.STOP, 1, 0, 1.0, 0.5, Aim.LEADER) for number in range(2)),
        tellings=1,
        min_isr=2,
        leader_imbalance_check_interval_seconds=1,
    )
    outcome = World(plan).run()
    assert not outcome.failures
    assert outcome.given_back == 2 and outcome.acked > 100 and outcome.failed_records == 0
