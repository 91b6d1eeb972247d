"""Waits for moves of replicas; says how far they are, what holds them up, and ends where nothing can come of it.

A copy for a broker that is out of service goes on only when the broker is back. If nothing else is copied either, the
wait is over after STANDSTILL_SECONDS. Not here: a plan, which begins some moves as others end (performing.py).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.moves.move_progress import SAY_SECONDS, CopyPace, left_bytes
from penstock.cli.output import note
from penstock.cli.patience.watch import described_trouble
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.log_dirs import ReassignmentProgress
    from penstock.types import TopicPartition

POLL_SECONDS = 0.5
STANDSTILL_SECONDS = 60.0
"""A broker that restarts is back before."""


class MoveStuckError(PenstockError):
    """A move does not end, because a broker that gets a replica is out of service."""


class Standstill:
    """For how long what is left has not become less; the time is any clock's, in seconds."""

    def __init__(self) -> None:
        self._left: tuple[int, int] | None = None
        self._since = 0.0

    def saw(self, moving: int, left: int, at_seconds: float) -> float:
        """So many partitions move, and so many bytes are left; the seconds since one of them was more."""
        known, self._left = self._left, (moving, left)
        if known is None or self._left < known:
            self._since = at_seconds
        return at_seconds - self._since


def wait_for(admin: Admin, partitions: Collection[TopicPartition]) -> None:
    """Until none of these moves any more. MoveStuckError if one waits for a broker that is out of service, and nothing
    was copied for some time."""
    pace, standstill, said_at = CopyPace(), Standstill(), time.monotonic()
    with what_was_begun_goes_on():
        while moving := {tp: move for tp, move in admin.reassignment_progress().items() if tp in partitions}:
            now, left = time.monotonic(), left_bytes(moving)
            pace.saw(left, now)
            if standstill.saw(len(moving), left, now) >= STANDSTILL_SECONDS:
                _check_in_service(admin, moving)
            if now - said_at >= SAY_SECONDS:
                said_at = now
                trouble = described_trouble(admin.describe_cluster())
                note(
                    f"{len(moving)} partitions still move, one is {min(moving)}; {pace.told()}"
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


def _check_in_service(admin: Admin, moving: dict[TopicPartition, ReassignmentProgress]) -> None:
    in_service = {broker.node_id for broker in admin.describe_cluster().brokers if not broker.fenced}
    for tp, move in sorted(moving.items()):
        awaited = set(move.partition.adding_replicas) - set(move.partition.isr) - in_service
        if awaited:
            raise MoveStuckError(
                f"{tp} is being moved to broker {min(awaited)}, which is out of service, and nothing was copied for"
                f" {STANDSTILL_SECONDS:.0f} s; start the broker, or take the move back with {_cancel(tp)}, and run the"
                " command again"
            )


def _cancel(tp: TopicPartition) -> str:
    return f"`penstock reassignments cancel {tp.topic} -p {tp.partition}`"
