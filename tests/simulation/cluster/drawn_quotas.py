"""Draws whether clients have quotas: the same for each client id, at every broker.

From a randomness of their own, so the rest of the plan stays as it is. Low enough that a burst of a writer is
throttled, and high enough that nobody waits for long. What a plan can hold is in plan.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import Plan

QUOTA_SHARE = 0.1
"""In so many of the plans, clients have quotas."""
RATES = (30_000, 100_000)


def with_quotas(plan: Plan) -> Plan:
    draw = random.Random(f"quotas {plan.seed}")
    has_quotas, byte_rate = draw.random() < QUOTA_SHARE, draw.choice(RATES)
    return replace(plan, byte_rate=byte_rate) if has_quotas else plan
