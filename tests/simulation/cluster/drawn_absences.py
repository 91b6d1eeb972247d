"""Draws whether somebody makes topics while brokers are out of service (clients/making.py).

From a randomness of its own, so the rest of the plan stays as it is. Not in a secured or flooded cluster, whose own
stories are others.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import OperatorPlan, Plan, Task

MAKE_SHARE, CALM_SHARE = 0.08, 0.4
"""So many of the plans have such an operator; of these so many no fault, and nothing explains a refusal (I90)."""
PAUSES_SECONDS = (0.5, 2.0)


def with_absences(plan: Plan) -> Plan:
    draw = random.Random(f"absences {plan.seed}")
    makes, is_calm, pause_s = draw.random() < MAKE_SHARE, draw.random() < CALM_SHARE, draw.choice(PAUSES_SECONDS)
    if not makes or len(plan.brokers) < 2 or plan.floods or plan.security is not None:
        return plan
    maker = OperatorPlan(Task.MAKE, plan.topics[0].name, pause_s)
    return replace(plan, operators=(*plan.operators, maker), faults=() if is_calm else plan.faults)
