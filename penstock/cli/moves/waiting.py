"""Waits for moves of replicas; says how far they are, what holds them up, and ends where nothing can come of it.

A copy for a broker that is out of service goes on only when the broker is back. If nothing else is copied either, the
wait is over after STANDSTILL_SECONDS. Not here: a plan, which begins some moves as others end, and waits by the same
rule (performing.py).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.moves.move_progress import SAY_SECONDS, CopyPace, left_bytes
from penstock.cli.output import note
from penstock.cli.patience.watch import described_trouble
from penstock.errors import PenstockError
from penstock.types import NO_LEADER

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.log_dirs import ReassignmentProgress
    from penstock.types import TopicPartition

POLL_SECONDS = 0.5
STANDSTILL_SECONDS = 60.0
"""A broker that restarts is back before."""


class MoveStuckError(PenstockError):
    """A move does not end, because a broker that it needs is out of service."""


class Standstill:
    """The time for which no copy has become smaller than ever before, in seconds of any clock. Copies of records that
    come in meanwhile are no progress, or a busy partition would hide that another one waits for ever."""

    def __init__(self) -> None:
        self._least: dict[tuple[TopicPartition, int], int] = {}
        self._moving: Set[TopicPartition] = frozenset()
        self._since = 0.0

    def saw(self, moves: Mapping[TopicPartition, ReassignmentProgress], at_seconds: float) -> float:
        """Notes the bytes left of each copy. Returns the seconds since a copy became smaller, or a move began or
        ended."""
        if moves.keys() != self._moving:
            self._moving, self._since = frozenset(moves), at_seconds
        for tp, move in moves.items():
            for replica, left in move.left.items():
                least = self._least.get((tp, replica))
                if left is not None and (least is None or left < least):
                    self._least[tp, replica], self._since = left, at_seconds
        return at_seconds - self._since


def wait_for(admin: Admin, partitions: Collection[TopicPartition]) -> None:
    """Waits until all of these moves have ended. MoveStuckError if a move waits for a broker that is out of service,
    and nothing was copied for some time."""
    pace, standstill, said_at = CopyPace(), Standstill(), time.monotonic()
    with what_was_begun_goes_on():
        while moving := {tp: move for tp, move in admin.reassignment_progress().items() if tp in partitions}:
            now = time.monotonic()
            pace.saw(left_bytes(moving), now)
            if standstill.saw(moving, now) >= STANDSTILL_SECONDS:
                check_can_end(admin, moving)
            if now - said_at >= SAY_SECONDS:
                said_at = now
                trouble = described_trouble(admin.describe_cluster())
                note(
                    f"{len(moving)} partitions still move, one is {min(moving)}; {pace.text()}"
                    + (f"; the cluster: {trouble}" if trouble else "")
                    + f". `penstock reassignments list` shows them; {_cancel(min(moving))} takes this one back"
                )
            time.sleep(POLL_SECONDS)


@contextmanager
def what_was_begun_goes_on() -> Iterator[None]:
    """Tells an operator who stops the command how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        note(
            "stopped. What was begun goes on: `penstock reassignments list` shows it, and `penstock reassignments"
            " cancel --all` takes it back. The same command, run again, does the rest"
        )
        raise


def check_can_end(admin: Admin, moving: Mapping[TopicPartition, ReassignmentProgress]) -> None:
    """Checks moves of which nothing was copied for some time. MoveStuckError if a move waits for a broker that is out
    of service: a broker that gets a replica, one that keeps it and is needed in sync, or the last one to copy from."""
    in_service = {broker.node_id for broker in admin.describe_cluster().brokers if not broker.fenced}
    for tp, move in sorted(moving.items()):
        awaited = set(move.partition.adding_replicas) - set(move.partition.isr) - in_service
        if awaited:
            raise MoveStuckError(
                f"{tp} is being moved to broker {min(awaited)}, which is out of service, and nothing was copied for"
                f" {STANDSTILL_SECONDS:.0f} s; start the broker, or take the move back with {_cancel(tp)}, and run the"
                " command again"
            )
        away = sorted(set(move.partition.replicas) - in_service)
        if move.partition.leader_id == NO_LEADER and away:
            raise MoveStuckError(
                f"{tp} is being moved and has no leader to copy from, and nothing was copied for"
                f" {STANDSTILL_SECONDS:.0f} s; start one of the brokers {away}, which have replicas and are out of"
                " service, and run the command again"
            )
        leaving = set(move.partition.removing_replicas)
        needed = sorted(set(away) - leaving)
        if needed and set(move.partition.adding_replicas) <= set(move.partition.isr):
            raise MoveStuckError(
                f"{tp} has the copies that it gets, but without brokers {sorted(leaving)} too few would be in sync, and"
                f" nothing was copied for {STANDSTILL_SECONDS:.0f} s; start one of the brokers {needed}, which keep"
                f" replicas and are out of service, or take the move back with {_cancel(tp)}, and run the command again"
            )


def _cancel(tp: TopicPartition) -> str:
    return f"`penstock reassignments delete {tp.topic} -p {tp.partition}`"
