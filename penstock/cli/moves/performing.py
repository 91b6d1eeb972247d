"""Performs a plan: some partitions at a time are reassigned, and in the end the preferred leaders are elected.

The next partitions begin when others are done, so a few are always under way and no more. What was begun goes on by
itself when this is stopped: the cluster has it, not this process. Not here: what is allowed (the controller).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from penstock.cli.moves.move_progress import SAY_SECONDS, CopyPace, left_bytes
from penstock.cli.moves.waiting import what_was_begun_goes_on
from penstock.cli.output import note
from penstock.cli.patience.watch import described_trouble
from penstock.errors import ElectionNotNeededError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from penstock.balance.plan import Plan, Reassignment
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


def perform(admin: Admin, plan: Plan) -> Failures:
    """Until everything is done; why it was not, of each partition that was refused. A topic that is deleted meanwhile
    is no failure, and a partition that somebody else begins to move is left alone."""
    with what_was_begun_goes_on():
        failed = _move(admin, plan.moves)
        failed |= _reorder(admin, [each for each in plan.reassignments if not each.added])
        return failed | _elect(admin, plan)


def _move(admin: Admin, moves: Sequence[Reassignment]) -> Failures:
    waiting = deque(moves)
    moving: set[TopicPartition] = set()
    failed: Failures = {}
    pace, said_at = CopyPace(), time.monotonic()
    while waiting or moving:
        under_way = admin.reassignment_progress()
        moving &= under_way.keys()
        begun = [waiting.popleft() for _ in range(min(MOVING_MAX - len(moving), len(waiting)))]
        refused, accepted = _reassign(admin, begun, under_way.keys())
        failed |= refused
        moving |= accepted
        now = time.monotonic()
        pace.saw(left_bytes({tp: move for tp, move in under_way.items() if tp in moving}), now)
        if now - said_at >= SAY_SECONDS or not (waiting or moving):
            said_at = now
            done = len(moves) - len(waiting) - len(moving)
            trouble = described_trouble(admin.describe_cluster())
            note(
                f"{done} of {len(moves)} partitions moved, {len(moving)} under way; {pace.told()}"
                + (f"; the cluster: {trouble}" if trouble else "")
            )
        if moving:
            time.sleep(POLL_SECONDS)
    return failed


def _reorder(admin: Admin, orders: Sequence[Reassignment]) -> Failures:
    failed: Failures = {}
    for batch in _batches(orders):
        failed |= _reassign(admin, batch, admin.list_partition_reassignments().keys())[0]
    return failed


def _reassign(
    admin: Admin, batch: Sequence[Reassignment], under_way: Iterable[TopicPartition]
) -> tuple[Failures, set[TopicPartition]]:
    """Which were refused, and which began."""
    from penstock import TopicPartition

    wanted = {TopicPartition(each.topic, each.index): each.after for each in batch}
    for tp in wanted.keys() & set(under_way):
        note(f"{tp} is moved by somebody else; it is left alone")
        del wanted[tp]
    results = admin.alter_partition_reassignments(wanted) if wanted else {}
    begun = {tp for tp, error in results.items() if error is None}
    return _failures({tp: error for tp, error in results.items() if error is not None}), begun


def _elect(admin: Admin, plan: Plan) -> Failures:
    """Of partitions with other replicas too: their leader may have changed since the plan was made."""
    from penstock import TopicPartition

    named = {(each.topic, each.index) for each in plan.reassignments}
    named |= {(each.topic, each.index) for each in plan.elections}
    failed: Failures = {}
    for batch in _batches([TopicPartition(*name) for name in sorted(named)]):
        results = admin.elect_leaders(batch)
        errors = {tp: result.error for tp, result in results.items() if result.error is not None}
        failed |= _failures({tp: e for tp, e in errors.items() if not isinstance(e, ElectionNotNeededError)})
    return failed


def _failures(errors: Failures) -> Failures:
    return {tp: error for tp, error in errors.items() if not isinstance(error, UnknownTopicOrPartitionError)}


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + BATCH_MAX] for at in range(0, len(items), BATCH_MAX))
