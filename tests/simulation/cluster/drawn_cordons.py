"""Draws whether somebody cordons brokers and log dirs (clients/cordoning.py).

From a randomness of its own, so the rest of the plan stays as it is. Not beside an operator who makes topics that need
every broker, nor in a secured or flooded cluster, whose own stories are others.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import OperatorPlan, Plan, Task

CORDON_SHARE = 0.1
PAUSES_SECONDS = (0.5, 2.0)


def with_cordons(plan: Plan) -> Plan:
    draw = random.Random(f"cordons {plan.seed}")
    has_cordons, pause_s = draw.random() < CORDON_SHARE, draw.choice(PAUSES_SECONDS)
    makes = any(operator.task is Task.MAKE for operator in plan.operators)
    if not has_cordons or makes or len(plan.brokers) < 2 or plan.floods or plan.security is not None:
        return plan
    return replace(plan, operators=(*plan.operators, OperatorPlan(Task.CORDON, plan.topics[0].name, pause_s)))
