"""Draws whether nodes and consumers have racks, and which nodes let consumers read at followers.

From a randomness of its own, so the rest of the plan stays as it is. Not where replicas are balanced by schedule, whose
judge knows no racks (I44).
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.racks.rack_plan import RackPlan

RACK_SHARE = 0.3
"""So many of the plans have racks."""
SAME_SHARE, UNSET_SHARE, NOWHERE_SHARE = 0.25, 0.15, 0.2
"""So many nodes are in the rack of another one; so many do not select; so many consumers name no rack of a node."""


def with_racks(plan: Plan) -> Plan:
    draw = random.Random(f"racks {plan.seed}")
    has_racks, nodes = draw.random() < RACK_SHARE, list[str]()
    for index in range(len(plan.nodes)):
        nodes.append(draw.choice(nodes) if nodes and draw.random() < SAME_SHARE else f"rack-{index}")
    selects = tuple(draw.random() >= UNSET_SHARE for _ in nodes)
    nowhere = ("", "rack-nowhere") if draw.random() < NOWHERE_SHARE else ()
    if not has_racks or len(plan.brokers) < 2 or plan.config.get("auto.replica.balance.enable"):
        return plan
    brokers = tuple(nodes[index] for index in plan.brokers)
    return replace(plan, racks=RackPlan(tuple(nodes), selects, (*brokers, *nowhere)))
