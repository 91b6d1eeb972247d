"""Draws whether a cluster is secured, from a randomness of its own: the rest of the plan stays as it is."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import Plan, SecurityPlan

SECURITY_SHARE = 0.1
"""In so many of the plans, clients log in, and ACLs say what they may do."""


def with_security(plan: Plan, share: float = SECURITY_SHARE) -> Plan:
    draw = random.Random(f"security {plan.seed}")
    if draw.random() >= share:
        return plan
    guests, pause_s = draw.choice((1, 2, 3)), draw.choice((0.2, 0.5, 1.0))
    security = SecurityPlan(guests, pause_s, draw.choice((0, 0, 1_500, 8_000)), draw.random() < 0.5)
    return replace(plan, security=security)
