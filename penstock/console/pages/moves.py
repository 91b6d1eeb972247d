"""The moves of replicas that go on, and the plan that would even the cluster."""

from __future__ import annotations

from typing import Final

from penstock.balance.plan import BrokerLoad, PreferredElection, Reassignment
from penstock.client.admin.log_dirs import ReassignmentProgress
from penstock.console.balancing import GOALS, goals_of, planned
from penstock.console.page import PageAsked
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

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
    by, goals = goals_of(asked.fields)
    plan, reason = await planned(asked, goals)
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
