"""A fault is counted under what the cluster was doing when it came, and the table names the pairs that never came."""

from __future__ import annotations

from collections import Counter

from tests.simulation.cluster.conditions import Condition
from tests.simulation.cluster.fault_table import fault_table
from tests.simulation.cluster.plan import Fault, Kind
from tests.simulation.cluster.small_plan import small_plan
from tests.simulation.cluster.world import World


def test_faults_are_counted_under_the_conditions_in_which_they_came() -> None:
    """The first comes to a healthy cluster; at the second the first's node is down, at once noticed by nobody."""
    killed = Fault(1.0, Kind.POWER, 0, 1, 4.0, 0.5)
    met = World(small_plan(killed, Fault(1.1, Kind.COLD, 0, 1, 0.1, 0.5))).run().met
    assert met["POWER", "HEALTHY"] == 1 and met["POWER", "ON_LEADER"] == 1
    assert {met["COLD", name] for name in ("DOWN", "ON_DOWN", "LEADER_GONE")} == {1}
    assert not met["COLD", "HEALTHY"]


def test_the_table_has_a_row_for_each_kind_and_names_what_never_came() -> None:
    faults = Counter({"KILL": 3, "COLD": 1})
    met = Counter({("KILL", "ELECTING"): 2, ("KILL", "HEALTHY"): 1, ("COLD", "HEALTHY"): 1})
    lines = list(fault_table(faults, met))
    (row,) = (line for line in lines if line.startswith("KILL "))
    assert row.split()[1:4] == ["3", "1", "2"]
    (absent,) = (line for line in lines if line.startswith("never: "))
    assert "STOP" in absent and "KILL" not in absent
    assert f"never while {Condition.ELECTING}: COLD" in lines
    assert f"never while {Condition.PAUSED}: any fault" in lines
    assert not any(line.startswith(f"never while {Condition.HEALTHY}") for line in lines)
    assert lines[-1] == f"3 of {len(Kind) * len(Condition)} pairs came"
