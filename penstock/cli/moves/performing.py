"""Performs a plan: some partitions at a time are reassigned, and in the end the preferred leaders are elected.

The next partitions begin when others are done, so a few are always under way and no more. What was begun goes on by
itself when this is stopped: the cluster has it, not this process. Not here: what is allowed (the controller).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.cli.moves.cluster_reading import read_partitions
from penstock.cli.moves.move_progress import SAY_SECONDS, CopyPace, left_bytes
from penstock.cli.moves.waiting import STANDSTILL_SECONDS, Standstill, check_can_end, what_was_begun_goes_on
from penstock.cli.output import note
from penstock.cli.patience.watch import described_trouble
from penstock.errors import ElectionNotNeededError, UnknownTopicOrPartitionError
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock.balance.plan import Plan, PreferredElection, Reassignment
    from penstock.client.admin.admin import Admin
    from penstock.errors import ApiError
    from penstock.types import TopicPartition

MOVING_MAX = 50
"""Partitions that move at a time. Each copies from its leader beside its clients; more make none of them quicker."""
BATCH_MAX = 1_000
"""Partitions of one request that copies nothing."""
POLL_SECONDS = 0.5

T = TypeVar("T")
Failures = dict["TopicPartition", "ApiError"]


@dataclass(frozen=True, slots=True)
class Performed:
    """The part of a plan that could not be done; empty where everything was."""

    refused: Failures  # partitions that keep their replicas
    not_elected: Failures  # partitions that another replica leads than the preferred one
    elsewhere: Mapping[TopicPartition, str]  # moves that began, and ended with other replicas: which

    @property
    def failed(self) -> dict[TopicPartition, str]:
        """The reason for each partition that failed."""
        return {tp: str(error) for tp, error in (self.not_elected | self.refused).items()} | dict(self.elsewhere)


def perform(admin: Admin, plan: Plan, moving_max: int = MOVING_MAX) -> Performed:
    """Performs all moves of the plan that can be done. A topic that is deleted meanwhile is no failure. A partition
    that somebody else moves, or has changed, is left alone. MoveStuckError if a move does not end."""
    with what_was_begun_goes_on():
        failed, begun = _move(admin, plan.moves, moving_max)
        elsewhere = _elsewhere(admin, [each for each in plan.moves if _named(each) in begun])
        moved = begun - elsewhere.keys()
        if plan.moves:
            note(f"{len(moved)} of {len(plan.moves)} partitions moved")
        refused, reordered = _reorder(admin, [each for each in plan.reassignments if not each.added])
        return Performed(failed | refused, _elect(admin, plan, moved | reordered), elsewhere)


def _move(admin: Admin, moves: Sequence[Reassignment], moving_max: int) -> tuple[Failures, set[TopicPartition]]:
    """The moves that were refused, and those that began; none of them goes on. MoveStuckError where those under way
    wait for a broker that is out of service; the rest is not begun."""
    waiting = deque(moves)
    moving: set[TopicPartition] = set()
    ever_begun: set[TopicPartition] = set()
    failed: Failures = {}
    pace, standstill, said_at = CopyPace(), Standstill(), time.monotonic()
    while waiting or moving:
        under_way = admin.reassignment_progress()
        moving &= under_way.keys()
        begun = [waiting.popleft() for _ in range(min(moving_max - len(moving), len(waiting)))]
        refused, accepted = _reassign(admin, begun)
        failed |= refused
        moving |= accepted
        ever_begun |= accepted
        now = time.monotonic()
        ours = {tp: move for tp, move in under_way.items() if tp in moving}
        pace.saw(left_bytes(ours), now)
        if standstill.saw(ours, now) >= STANDSTILL_SECONDS:
            check_can_end(admin, ours)
        if now - said_at >= SAY_SECONDS:
            said_at = now
            done = len(ever_begun) - len(moving)
            trouble = described_trouble(admin.describe_cluster())
            note(
                f"{done} of {len(moves)} partitions moved, {len(moving)} under way; {pace.text()}"
                + (f"; the cluster: {trouble}" if trouble else "")
            )
        if moving:
            time.sleep(POLL_SECONDS)
    return failed, ever_begun


def _elsewhere(admin: Admin, begun: Sequence[Reassignment]) -> dict[TopicPartition, str]:
    """The partitions that do not have the planned replicas at the end, in words. Deleted topics are left out."""
    present = read_partitions(admin, {each.topic for each in begun}) if begun else {}
    found: dict[TopicPartition, str] = {}
    for each in begun:
        tp = _named(each)
        now = present.get(tp)
        if now is not None and now.topic_id == each.topic_id and now.replicas != each.after:
            found[tp] = (
                f"{tp} has the replicas {list(now.replicas)} and not {list(each.after)}: its move was cancelled, or"
                " another reassignment took its place"
            )
    return found


def _reorder(admin: Admin, orders: Sequence[Reassignment]) -> tuple[Failures, set[TopicPartition]]:
    """Copies nothing: each partition has these replicas already."""
    failed: Failures = {}
    changed: set[TopicPartition] = set()
    for batch in _batches(orders):
        refused, accepted = _reassign(admin, batch)
        failed |= refused
        changed |= accepted
    return failed, changed


def _reassign(admin: Admin, batch: Sequence[Reassignment]) -> tuple[Failures, set[TopicPartition]]:
    """The moves that were refused, and those that began. The plan may be hours old, so each partition is looked at
    again."""
    wanted = _unchanged(admin, batch)
    results = admin.alter_partition_reassignments(wanted) if wanted else {}
    begun = {tp for tp, error in results.items() if error is None}
    return _failures({tp: error for tp, error in results.items() if error is not None}), begun


def _unchanged(admin: Admin, batch: Sequence[Reassignment]) -> dict[TopicPartition, tuple[int, ...]]:
    """The partitions that are as they were when the plan was made, and the replicas that they get. A partition that has
    changed is left alone: it might lose the replicas that somebody gave it since, or copy what the plan does not
    tell."""
    present = read_partitions(admin, {each.topic for each in batch}) if batch else {}
    wanted: dict[TopicPartition, tuple[int, ...]] = {}
    for each in batch:
        tp = _named(each)
        now = present.get(tp)
        if now is None:
            continue
        if now.moving:
            note(f"{tp} is moved by somebody else; it is left alone")
        elif (now.topic_id, now.replicas) != (each.topic_id, each.before):
            note(f"{tp} has changed since the plan was made; it is left alone. Run the command again")
        else:
            wanted[tp] = each.after
    return wanted


def _elect(admin: Admin, plan: Plan, changed: set[TopicPartition]) -> Failures:
    """Elects preferred leaders, in partitions with other replicas too: their leader may have changed since the plan was
    made. Partitions that were to get other replicas, and did not, are left out. Not of those that were to get other
    replicas, and did not."""
    left_alone = {_named(each) for each in plan.reassignments} - changed
    named = changed | ({_named(each) for each in plan.elections} - left_alone)
    failed: Failures = {}
    for batch in _batches(sorted(named)):
        results = admin.elect_leaders(batch)
        errors = {tp: result.error for tp, result in results.items() if result.error is not None}
        failed |= _failures({tp: e for tp, e in errors.items() if not isinstance(e, ElectionNotNeededError)})
    return failed


def _named(each: Reassignment | PreferredElection) -> TopicPartition:
    from penstock import TopicPartition

    return TopicPartition(each.topic, each.index)


def _failures(errors: Failures) -> Failures:
    return {tp: error for tp, error in errors.items() if not isinstance(error, UnknownTopicOrPartitionError)}


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + BATCH_MAX] for at in range(0, len(items), BATCH_MAX))
