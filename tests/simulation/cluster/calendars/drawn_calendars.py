"""Draws whether calendars are wrong: from a randomness of its own, so the rest of the plan stays as it is.

Such a plan has no writers of transactions of other groups, whose oracles know of no id that expires while it rests, and
no certificates, which end by the calendar.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.calendars.calendar_plan import CalendarPlan, CalendarSetting, calendar_config
from tests.simulation.cluster.loop import WALL_MS
from tests.simulation.cluster.plan import Kind, Plan

CALENDARS_SHARE, CALM_SHARE, STAMPS_SHARE = 0.08, 0.4, 0.5
"""So many of the plans; of these so many without faults, and so many with a topic that leaders stamp."""
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
OFFS_MS = (
    2 * HOUR_MS,
    -2 * HOUR_MS,
    DAY_MS,
    -DAY_MS,
    8 * DAY_MS,
    -8 * DAY_MS,
    30 * DAY_MS,
    -30 * DAY_MS,
    56 * 365 * DAY_MS,
    -WALL_MS,
)
"""The last one is 1970, where a machine without a battery begins."""
_DROPPED = frozenset({Kind.WALL_JUMP})


def with_calendars(plan: Plan, share: float = CALENDARS_SHARE) -> Plan:
    draw = random.Random(f"calendars {plan.seed}")
    if draw.random() >= share or ((plan.security is not None or plan.floods) and share < 1.0):
        return plan
    brokers = plan.brokers
    count = max((len(brokers) - 1) // 2, 1)
    wrong = draw.sample(brokers, draw.randint(1, count))
    settings = [each for node in wrong for each in _draw_settings(draw, node, plan.seconds)]
    stamps = random.Random(f"stamps {plan.seed}").random() < STAMPS_SHARE
    faults = () if draw.random() < CALM_SHARE else tuple(one for one in plan.faults if one.kind not in _DROPPED)
    return replace(
        plan,
        calendars=CalendarPlan(tuple(sorted(settings, key=lambda one: one.at_s)), len(brokers) >= 3, stamps),
        config={**plan.config, **calendar_config(len(brokers))},
        faults=faults,
        security=None,
        floods=(),
        transactors=(),
        stable_readers=(),
        processings=(),
        sinks=(),
    )


def _draw_settings(draw: random.Random, node: int, seconds: float) -> list[CalendarSetting]:
    """Wrong from the start or later; it jumps on, or is set right, now and then."""
    at_s, settings = draw.choice((-1.0, draw.uniform(0.0, seconds / 2))), list[CalendarSetting]()
    while at_s < seconds:
        is_right = bool(settings) and draw.random() < 0.5
        settings.append(CalendarSetting(at_s, node, 0 if is_right else draw.choice(OFFS_MS)))
        at_s = max(at_s, 0.0) + draw.choice((draw.uniform(0.5, 3.0), draw.uniform(3.0, seconds)))
    return settings
