"""The moves of replicas that go on, and the plan that would even the cluster."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from penstock.balance.cluster import Goal
from penstock.balance.plan import BrokerLoad, Plan, PreferredElection, Reassignment
from penstock.balance.planner import make_plan
from penstock.client.admin.cluster_state import cluster_state
from penstock.client.admin.log_dirs import ReassignmentProgress
from penstock.console.fields import FieldError
from penstock.console.page import PageAsked
from penstock.types import TopicPartition

GOALS: Final = {goal.value: goal for goal in Goal if goal is not Goal.DIRS}
PLANNED_MAX: Final = 20_000
"""Partitions of a cluster up to which the console plans: more of them take seconds of its only processor."""
MOVES_SHOWN_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One partition whose replicas move, in the words of `penstock reassignments list`."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int
    size_bytes: int | None
    left_bytes: int | None
    done_percent: int | None
    """The part of what is copied; None where sizes are not known."""


@dataclass(frozen=True, slots=True)
class MovesView:
    """The moves that go on."""

    moves: tuple[MoveRow, ...]
    total: int
    left_bytes: int | None


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan, as `penstock cluster balance --dry-run` makes it."""

    by: str
    goals: tuple[str, ...]
    is_empty: bool
    replicas_moved: int
    bytes_to_copy: int | None
    before: tuple[BrokerLoad, ...]
    after: tuple[BrokerLoad, ...]
    reassignments: tuple[Reassignment, ...]
    elections: tuple[PreferredElection, ...]
    reassignments_total: int
    elections_total: int
    too_large: str
    """Why there is no plan."""


async def show_moves(asked: PageAsked) -> MovesView:
    """Asks the brokers that copy."""
    found = sorted((await asked.admin.reassignment_progress()).items())
    sizes = [one.left_bytes for _, one in found]
    return MovesView(
        moves=tuple(_row(at, one) for at, one in found[:MOVES_SHOWN_MAX]),
        total=len(found),
        left_bytes=None if None in sizes else sum(size for size in sizes if size is not None),
    )


def _row(at: TopicPartition, one: ReassignmentProgress) -> MoveRow:
    p, left = one.partition, one.left_bytes
    whole = None if one.size_bytes is None else one.size_bytes * len(one.left)
    return MoveRow(
        topic=at.topic,
        partition=at.partition,
        replicas=p.replicas,
        adding_replicas=p.adding_replicas,
        removing_replicas=p.removing_replicas,
        isr=p.isr,
        leader_id=p.leader_id,
        size_bytes=one.size_bytes,
        left_bytes=left,
        done_percent=None if not whole or left is None else max(0, min(100, 100 - left * 100 // whole)),
    )


async def show_plan(asked: PageAsked) -> PlanView:
    """Reads the cluster and makes a plan. Nothing is done."""
    by = asked.fields.text("by", "replicas,leaders")
    unknown = [word for word in by.split(",") if word not in GOALS]
    if unknown:
        raise FieldError("by", f"{unknown[0]!r} must be one of {', '.join(GOALS)}")
    if len(by.split(",")) > len(GOALS):
        raise FieldError("by", "a goal is given twice")
    goals = frozenset(GOALS[word] for word in by.split(","))
    cluster, topics, log_dirs = await asyncio.gather(
        asked.admin.describe_cluster(), asked.admin.describe_topics(), asked.admin.describe_log_dirs()
    )
    state = cluster_state(cluster.brokers, topics, log_dirs)
    if len(state.partitions) > PLANNED_MAX:
        plan, reason = (
            Plan((), (), (), ()),
            f"a plan for {len(state.partitions):,} partitions takes long: ask the command",
        )
    elif Goal.BYTES in goals and any(one.size_bytes is None for one in state.partitions):
        plan, reason = Plan((), (), (), ()), "the sizes of some partitions are not known; leave bytes out"
    else:
        plan, reason = await asyncio.to_thread(make_plan, state, goals), ""
    return PlanView(
        by=by,
        goals=tuple(GOALS),
        is_empty=plan.is_empty,
        replicas_moved=plan.replicas_moved,
        bytes_to_copy=plan.bytes_to_copy,
        before=plan.before,
        after=plan.after,
        reassignments=plan.reassignments[:MOVES_SHOWN_MAX],
        elections=plan.elections[:MOVES_SHOWN_MAX],
        reassignments_total=len(plan.reassignments),
        elections_total=len(plan.elections),
        too_large=reason,
    )
