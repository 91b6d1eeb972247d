"""Performs a part of the plan that evens the cluster, and cancels moves.

A person confirms the very moves that the page showed: the plan goes with the form, and each partition must still have
the replicas that it had. A console may end at any time, so nothing of it waits for a move: one confirmation begins
as many moves as the person wants at a time, which the cluster finishes by itself, and the next plan has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.balance.plan import Plan
from penstock.console.balancing import GOALS, USUAL_GOALS, goals_of, planned
from penstock.console.change import (
    KEPT,
    PLAN_LINES_MAX,
    ChangeField,
    ChangePlan,
    ConsoleChange,
    raise_refusals,
    shell_command,
    text_lines,
)
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.errors import ApiError, ElectionNotNeededError, NoReassignmentInProgressError
from penstock.messages.metadata import PartitionInfo
from penstock.types import TopicPartition
from penstock.written.numbers import INT32_MAX, parse_number

MOVED_AT_ONCE: Final = 50
"""Partitions that begin to move by one confirmation, as many as `penstock cluster balance` moves at a time."""
MOVED_AT_ONCE_MAX: Final = PLAN_LINES_MAX
ELECTED_AT_ONCE_MAX: Final = PLAN_LINES_MAX
REPLICAS_MAX: Final = 100
MOVING: Final = "moves"
ELECTED: Final = "elect"
AT_ONCE: Final = "count"
Moves = dict[TopicPartition, tuple[int, ...]]


def _place(name: str, line: str) -> TopicPartition:
    topic, colon, number = line.partition(":")
    partition = parse_number(number, INT32_MAX)
    if not topic or not colon or partition is None:
        raise FieldError(name, f"{line[:64]!r} must be a partition, like orders:0")
    return TopicPartition(topic, partition)


def _places(fields: Fields, name: str, lines_max: int) -> list[TopicPartition]:
    return [_place(name, line) for line in text_lines(fields, name, lines_max)]


def _moves(fields: Fields) -> Moves:
    """The lines like orders:0=4,5,1 of a plan that was shown."""
    found: Moves = {}
    for line in text_lines(fields, MOVING, MOVED_AT_ONCE_MAX):
        name, _, written = line.partition("=")
        ids = [parse_number(one, INT32_MAX) for one in written.split(",", REPLICAS_MAX)]
        known = tuple(one for one in ids if one is not None)
        if len(known) < len(ids):
            raise FieldError(MOVING, f"{line[:64]!r} must be a partition and its brokers, like orders:0=4,5,1")
        found[_place(MOVING, name)] = known
    return found


def _of_plan(plan: Plan, at_once: int) -> tuple[Moves, list[TopicPartition]]:
    """The moves with which a plan begins, and the leaders that can be elected already."""
    copied = {(each.topic, each.index) for each in plan.moves}
    moves = {TopicPartition(each.topic, each.index): each.after for each in plan.reassignments[:at_once]}
    later = {TopicPartition(each.topic, each.index) for each in plan.reassignments} - moves.keys()
    elected = [
        at
        for each in plan.elections
        if (at := TopicPartition(each.topic, each.index)) not in later and tuple(at) not in copied
    ]
    return moves, elected[:ELECTED_AT_ONCE_MAX]


def _moved_text(moves: Moves) -> str:
    return "\n".join(f"{at.topic}:{at.partition}={','.join(map(str, ids))}" for at, ids in moves.items())


def _places_text(places: Iterable[TopicPartition]) -> str:
    return "\n".join(f"{at.topic}:{at.partition}" for at in places)


async def _partitions(asked: PageAsked, places: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionInfo]:
    """The partitions of these topics as they are now."""
    topics = sorted({at.topic for at in places})
    return {
        TopicPartition(topic.name, p.partition): p
        for topic in await asked.admin.describe_topics(topics, ask_leaders=False)
        for p in topic.partitions
    }


async def _plan_balance(asked: PageAsked) -> ChangePlan:
    fields = asked.fields
    by, goals = goals_of(fields)
    notes: tuple[str, ...] = ()
    if fields.has(MOVING) or fields.has(ELECTED):
        moves, elected = _moves(fields), _places(fields, ELECTED, ELECTED_AT_ONCE_MAX)
    else:
        plan, why_not = await planned(asked, goals)
        if why_not or plan.is_empty:
            raise FieldError("by", why_not or "nothing to do: the cluster is even")
        moves, elected = _of_plan(plan, fields.number(AT_ONCE, MOVED_AT_ONCE, 1, MOVED_AT_ONCE_MAX))
        left = len(plan.reassignments) - len(moves)
        notes = (f"{left} more partitions are to move: plan again when these are done.",) if left else ()
    present = await _partitions(asked, moves)
    lines = [_move_line(at, after, present.get(at)) for at, after in moves.items()]
    lines += [f"{at.topic}:{at.partition}: its first replica becomes the leader" for at in elected]
    return ChangePlan(
        f"{len(moves)} partitions get other replicas, and {len(elected)} another leader. Clients go on. The command"
        " does the whole plan, some partitions at a time.",
        shell_command(asked, ["cluster", "balance", "--by", by]),
        (*notes, *lines),
        must_hold=tuple(lines),
        fixed={"by": by, MOVING: _moved_text(moves), ELECTED: _places_text(elected)},
    )


def _move_line(at: TopicPartition, after: tuple[int, ...], now: PartitionInfo | None) -> str:
    if now is None:
        raise FieldError("by", f"{at.topic}:{at.partition} is gone; make the plan again")
    if now.is_reassigning:
        raise FieldError("by", f"{at.topic}:{at.partition} is moved by somebody else; make the plan again")
    return f"{at.topic}:{at.partition}: replicas {list(now.replicas)} → {list(after)}"


async def _balance(asked: PageAsked) -> str:
    moves, elected = _moves(asked.fields), _places(asked.fields, ELECTED, ELECTED_AT_ONCE_MAX)
    if not moves and not elected:
        raise FieldError("by", "the form has no plan; make it again")
    if moves:
        raise_refusals(await asked.admin.alter_partition_reassignments(moves), "began to move")
    if elected:
        results = await asked.admin.elect_leaders(elected)
        errors = {at: _unless(one.error, ElectionNotNeededError) for at, one in results.items()}
        raise_refusals(errors, "have their preferred leader")
    return "/moves"


def _unless(error: ApiError | None, kind: type[ApiError]) -> ApiError | None:
    """The error; None for one that says that there is nothing to do."""
    return None if isinstance(error, kind) else error


async def _plan_cancel(asked: PageAsked) -> ChangePlan:
    moving = await asked.admin.list_partition_reassignments()
    given = _places(asked.fields, MOVING, PLAN_LINES_MAX)
    places = given or sorted(moving)[:PLAN_LINES_MAX]
    if not places:
        raise FieldError(MOVING, "nothing is being moved")
    lines = [_cancel_line(at, now) for at in places if (now := moving.get(at)) is not None]
    return ChangePlan(
        f"{len(places)} moves are cancelled; what was copied is deleted. Those that are done by then stay done.",
        shell_command(asked, ["reassignments", "delete", "--all"]),
        tuple(lines),
        fixed={MOVING: _places_text(places)},
    )


def _cancel_line(at: TopicPartition, now: PartitionInfo) -> str:
    before = [replica for replica in now.replicas if replica not in now.adding_replicas]
    return f"{at.topic}:{at.partition}: replicas {list(now.replicas)} → {before}"


async def _cancel(asked: PageAsked) -> str:
    places = _places(asked.fields, MOVING, PLAN_LINES_MAX)
    if not places:
        raise FieldError(MOVING, "the form has no plan; make it again")
    results = await asked.admin.alter_partition_reassignments(dict.fromkeys(places))
    errors = {at: _unless(error, NoReassignmentInProgressError) for at, error in results.items()}
    raise_refusals(errors, "were cancelled")
    return "/moves"


MOVE_CHANGES: Final = (
    ConsoleChange(
        "/balance",
        "Even the cluster",
        (
            ChangeField("by", "Even", f"{', '.join(GOALS)}; empty: {USUAL_GOALS}"),
            ChangeField(
                AT_ONCE,
                "Partitions at a time",
                f"empty: {MOVED_AT_ONCE}; up to {MOVED_AT_ONCE_MAX}. Their copies share the disks with all else",
                "number",
            ),
            ChangeField(MOVING, "Moves", kind=KEPT),
            ChangeField(ELECTED, "Elections", kind=KEPT),
        ),
        _plan_balance,
        _balance,
    ),
    ConsoleChange(
        "/cancel-moves", "Cancel all moves", (ChangeField(MOVING, "Moves", kind=KEPT),), _plan_cancel, _cancel
    ),
)
