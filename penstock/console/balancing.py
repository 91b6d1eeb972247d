"""The plan that would even the cluster, as `penstock cluster balance --dry-run` makes it, for a page and for a change.

Not here: how a plan is made (penstock/balance/), and how it is performed (changes/move_changes.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.balance.cluster import Goal
from penstock.balance.plan import Plan
from penstock.balance.planner import make_plan
from penstock.client.admin.cluster_state import cluster_state
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked

GOALS: Final = {goal.value: goal for goal in Goal if goal is not Goal.DIRS}
USUAL_GOALS: Final = "replicas,leaders"
PLANNED_MAX: Final = 20_000
"""Partitions of a cluster up to which the console plans: more of them take seconds of its only processor."""
NO_PLAN: Final = Plan((), (), (), ())


def goals_of(fields: Fields) -> tuple[str, frozenset[Goal]]:
    """The goals of the field `by`, as text and as they are; FieldError for a word that is none, or comes again."""
    by = fields.text("by", USUAL_GOALS)
    words = by.split(",", len(GOALS))
    if len(words) > len(GOALS) or len(set(words)) < len(words):
        raise FieldError("by", "a goal is given twice")
    unknown = [word for word in words if word not in GOALS]
    if unknown:
        raise FieldError("by", f"{unknown[0][:64]!r} must be one of {', '.join(GOALS)}")
    return by, frozenset(GOALS[word] for word in words)


async def planned(asked: PageAsked, goals: frozenset[Goal]) -> tuple[Plan, str]:
    """Reads the cluster and makes a plan; or NO_PLAN, and the reason."""
    cluster, topics, log_dirs = await asyncio.gather(
        asked.admin.describe_cluster(), asked.admin.describe_topics(), asked.admin.describe_log_dirs()
    )
    state = cluster_state(cluster.brokers, topics, log_dirs)
    if len(state.partitions) > PLANNED_MAX:
        return NO_PLAN, f"a plan for {len(state.partitions):,} partitions takes long: ask the command"
    if Goal.BYTES in goals and any(one.size_bytes is None for one in state.partitions):
        return NO_PLAN, "the sizes of some partitions are not known; leave bytes out"
    return await asyncio.to_thread(make_plan, state, goals), ""
