"""Performs a plan for log dirs: every broker moves some of its replicas at a time, until nothing is left.

What was begun goes on by itself when this is stopped: the brokers have it, also after a restart. A broker that does not
answer holds up no other. Not here: which moves begin when (dir_queue.py), and what is allowed (the broker).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.cli.moves.dirs.dir_queue import DIR_MOVES_MAX, DirQueue
from penstock.cli.moves.move_progress import SAY_SECONDS, CopyPace
from penstock.cli.output import note
from penstock.errors import ApiError, BrokerIdNotRegisteredError
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock.balance.dirs.broker_dirs import DirPlan
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.types import TopicPartition

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class DirsPerformed:
    """The part of a plan that could not be done."""

    failed: Mapping[tuple[int, TopicPartition], str]  # by broker: why
    under_way: int  # of these, moves that go on by themselves


def perform_dirs(admin: Admin, plan: DirPlan, moving_max: int = DIR_MOVES_MAX) -> DirsPerformed:
    """Performs all moves of the plan that can be done. A topic that is deleted meanwhile is no failure. A replica that
    somebody else moves is left alone."""
    began = time.monotonic()
    ids = sorted({move.broker_id for move in plan.moves})
    queues = [DirQueue(id_, [move for move in plan.moves if move.broker_id == id_], began, moving_max) for id_ in ids]
    topics = sorted({move.topic for move in plan.moves})
    progress = _Progress(len(plan.moves), began)
    with dir_moves_go_on():
        while unfinished := [queue for queue in queues if queue.is_open]:
            found = _look(admin, [queue.broker_id for queue in unfinished], topics)
            for queue in unfinished:
                queue.saw(found[queue.broker_id], time.monotonic())
                _begin_next(admin, queue)
                while queue.left_alone:
                    note(queue.left_alone.pop(0))
            progress.saw(queues, time.monotonic())
            if any(queue.is_open for queue in queues):
                time.sleep(POLL_SECONDS)
    note(f"{sum(queue.moved for queue in queues)} of {len(plan.moves)} replicas moved between log dirs")
    failed = {(queue.broker_id, tp): why for queue in queues for tp, why in sorted(queue.failed.items())}
    return DirsPerformed(failed, sum(queue.left_under_way for queue in queues))


@contextmanager
def dir_moves_go_on() -> Iterator[None]:
    """Tells an operator who stops the command how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        note(
            "stopped. What was begun goes on: `penstock log-dirs describe --replicas` shows it. The same command, run"
            " again, does the rest"
        )
        raise


def _look(admin: Admin, broker_ids: Collection[int], topics: Sequence[str]) -> Mapping[int, BrokerLogDirs]:
    from penstock.client.admin.log_dirs import BrokerLogDirs

    try:
        return admin.describe_log_dirs(broker_ids, topics)
    except BrokerIdNotRegisteredError as error:
        found = admin.describe_log_dirs(None, topics)
        return {id_: found.get(id_, BrokerLogDirs(id_, error=error)) for id_ in broker_ids}


def _begin_next(admin: Admin, queue: DirQueue) -> None:
    wanted = queue.next_moves()
    if not wanted:
        return
    try:
        queue.answered(admin.alter_replica_log_dirs(queue.broker_id, wanted), time.monotonic())
    except ApiError as error:
        queue.not_begun(wanted, error, time.monotonic())


class _Progress:
    """Says now and then how far the moves are."""

    def __init__(self, planned: int, at_seconds: float) -> None:
        self._planned, self._said_at, self._pace = planned, at_seconds, CopyPace()

    def saw(self, queues: Sequence[DirQueue], at_seconds: float) -> None:
        self._pace.saw(sum(queue.left_bytes for queue in queues if queue.is_open), at_seconds)
        if at_seconds - self._said_at < SAY_SECONDS:
            return
        self._said_at = at_seconds
        moved, moving = sum(queue.moved for queue in queues), sum(len(queue.moving) for queue in queues)
        unfinished = [queue for queue in queues if queue.is_open]
        troubles = [queue.trouble for queue in unfinished if queue.trouble]
        waits = [queue.waits_for for queue in unfinished if not queue.trouble and queue.waits_for]
        note(
            f"{moved} of {self._planned} replicas moved between log dirs, {moving} under way; {self._pace.text()}"
            + (f"; one waits: {waits[0]}" if waits else "")
            + "".join(f"; {trouble}" for trouble in troubles[:1])
        )
