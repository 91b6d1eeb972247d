"""Draws whether the nodes are of two releases: from a randomness of its own, so the rest of the plan stays as it is.

Such a plan has no fault that puts an older disk in the place of a newer one, or an empty one: an older release can read
what a node had after a lowering, and what its neighbours have, but not what stood there before. Plans with other
stories of their own are left alone.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.levels.level_plan import LevelPlan
from tests.simulation.cluster.plan import Kind, Plan

LEVELS_SHARE = 0.06
"""So many of the plans without another such story, about a twentieth of all."""
DROPPED = frozenset(
    {Kind.SWAP_DIRS, Kind.TEAR_METADATA, Kind.RESTORE_COPY, Kind.LOSE_IN_CUT, Kind.LOSE_DIR, Kind.REPLACE_DISK}
)


def with_levels(plan: Plan, share: float = LEVELS_SHARE) -> Plan:
    draw = random.Random(f"levels {plan.seed}")
    is_another_story = any((plan.security, plan.floods, plan.calendars, plan.voter_changes))
    if plan.levels is not None or draw.random() >= share or (is_another_story and share < 1.0):
        return plan
    nodes = range(len(plan.nodes))
    old = () if draw.random() < 0.2 else tuple(sorted(draw.sample(nodes, draw.randint(1, len(nodes)))))
    levels = LevelPlan(old, draw.choice((0.2, 0.6, 1.5)), draw.choice((0.3, 0.6)), draw.random() < 0.7)
    faults = tuple(fault for fault in plan.faults if fault.kind not in DROPPED)
    return replace(plan, faults=faults, levels=levels, security=None, floods=(), calendars=None, voter_changes=None)
