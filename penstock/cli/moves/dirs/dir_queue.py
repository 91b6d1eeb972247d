"""The planned moves of one broker between its log dirs: which wait, which are under way, and what became of the others.

Decides by what the broker says of its log dirs; asks nobody. A plan may be hours old, so each replica is looked at
again before its turn. A broker that does not answer, and moves that all wait for room, have STANDSTILL_SECONDS. Not
here: asking, and telling (dir_performing.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.cli.moves.dirs.dir_reading import room_in
from penstock.cli.moves.waiting import STANDSTILL_SECONDS
from penstock.errors import ReplicaNotAvailableError, UnknownTopicOrPartitionError
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock.balance.dirs.broker_dirs import DirMove
    from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.errors import ApiError, PenstockError
    from penstock.types import TopicPartition

DIR_MOVES_MAX = 50
"""Limit for the moves of each broker at a time. It copies one replica to each log dir; the others wait there, so that
it never waits."""


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    topic_id: str


class DirQueue:
    """The moves of one broker. The time is any clock's, in seconds."""

    def __init__(self, broker_id: int, moves: Iterable[DirMove], at_seconds: float, moving_max: int) -> None:
        from penstock import TopicPartition

        self.broker_id, self._moving_max = broker_id, moving_max
        self.waiting = deque((TopicPartition(move.topic, move.index), move) for move in moves)
        self.moving: dict[TopicPartition, DirMove] = {}
        self.failed: dict[TopicPartition, str] = {}
        """The reason why each of these replicas is not where it was to be."""
        self.left_alone: list[str] = []
        """Lines about replicas that have changed since the plan was made; the caller that prints them removes them."""
        self.moved = 0
        self.left_under_way = 0
        """Moves that go on after this gave them up."""
        self.trouble = ""
        """Why the broker cannot be asked; "" where it can."""
        self.left_bytes = 0
        self._since = at_seconds  # a move became smaller, began or ended
        self._silent_since: float | None = None  # no look was answered
        self._unanswered_since: float | None = None  # no request to move was
        self._not_available: set[TopicPartition] = set()  # the broker has said so once
        self._least: dict[TopicPartition, int] = {}
        self._log_dirs: tuple[LogDirInfo, ...] = ()
        self._here: dict[TopicPartition, _Place] = {}
        self._coming: dict[TopicPartition, tuple[str, FutureReplicaInfo]] = {}

    @property
    def is_open(self) -> bool:
        return bool(self.waiting or self.moving)

    @property
    def waits_for(self) -> str:
        """Why one of the moves does not go on now; "" if all do."""
        found = (self._coming[tp][1].waits_for for tp in sorted(self.moving) if tp in self._coming)
        return next((why for why in found if why), "")

    def saw(self, found: BrokerLogDirs, at_seconds: float) -> None:
        """Takes a new description by the broker. Settles the moves that have ended, and all of them after a
        standstill."""
        if found.error is not None:
            self._silent_since = at_seconds if self._silent_since is None else self._silent_since
            self._could_not_ask(found.error, at_seconds - self._silent_since)
            return
        self.trouble, self._silent_since = "", None
        self._log_dirs = found.log_dirs
        self._here = {
            tp: _Place(one.path, replica.topic_id) for one in found.log_dirs for tp, replica in one.replicas.items()
        }
        self._coming = {tp: (one.path, copy) for one in found.log_dirs for tp, copy in one.coming.items()}
        for tp in list(self.moving):
            if tp not in self._coming or self._coming[tp][0] != self.moving[tp].target:
                self._since = at_seconds
                self._settle(tp, self.moving.pop(tp))
        self.left_bytes = 0
        for tp in self.moving:
            left = self._coming[tp][1].bytes_left
            self.left_bytes += left
            if left < self._least.get(tp, left + 1):
                self._least[tp], self._since = left, at_seconds
        all_wait = self.moving and all(self._coming[tp][1].waits_for for tp in self.moving)
        if all_wait and at_seconds - self._since >= STANDSTILL_SECONDS:
            self._give_up(f"its broker waits: {self.waits_for}")

    def next_moves(self) -> dict[TopicPartition, str]:
        """The moves that are to begin now, by the last description: the log dir of each. `answered` must follow."""
        room = {one.path: room_in(one) for one in self._log_dirs}
        wanted: dict[TopicPartition, str] = {}
        while self.waiting and len(self.moving) < self._moving_max and not self.trouble:
            tp, move = self.waiting.popleft()
            if tp in self._coming and self._coming[tp][0] == move.target:
                self.moving[tp] = move  # the answer to an earlier request was lost
            elif self._may_begin(tp, move, room):
                known = room[move.target]
                room[move.target] = None if known is None else known - move.size_bytes
                wanted[tp] = move.target
                self.moving[tp] = move
        return wanted

    def answered(self, results: Mapping[TopicPartition, ApiError | None], at_seconds: float) -> None:
        """Takes the broker's answer about the moves that were to begin."""
        self._since, self._unanswered_since = at_seconds, None
        for tp, error in results.items():
            if error is None:
                continue
            move = self.moving.pop(tp)
            if isinstance(error, ReplicaNotAvailableError | UnknownTopicOrPartitionError):
                if tp in self._not_available:
                    self._leave_alone(tp, f"cannot move: {error}")
                else:  # deleted, or somebody else began to move it at the same moment: the next look tells
                    self._not_available.add(tp)
                    self.waiting.append((tp, move))
            else:
                self.failed[tp] = f"{tp} stays in {move.source} of broker {self.broker_id}: {error}"

    def not_begun(self, wanted: Iterable[TopicPartition], error: PenstockError, at_seconds: float) -> None:
        """The request failed, so the moves may have begun or not; the next look tells."""
        for tp in sorted(wanted, reverse=True):
            self.waiting.appendleft((tp, self.moving.pop(tp)))
        self._unanswered_since = at_seconds if self._unanswered_since is None else self._unanswered_since
        self._could_not_ask(error, at_seconds - self._unanswered_since)

    def _could_not_ask(self, error: PenstockError, for_seconds: float) -> None:
        self.trouble = f"broker {self.broker_id} does not answer: {error}"
        if for_seconds >= STANDSTILL_SECONDS:
            self._give_up(f"{self.trouble}, for {STANDSTILL_SECONDS:.0f} s")

    def _may_begin(self, tp: TopicPartition, move: DirMove, room: Mapping[str, int | None]) -> bool:
        here, why = self._here.get(tp), self._offline(move.source) or self._offline(move.target)
        if why:
            self.failed[tp] = (
                f"{tp} does not move from {move.source} to {move.target} of broker {self.broker_id}: {why}"
            )
        elif tp in self._coming:
            self._leave_alone(tp, "is moved by somebody else")
        elif here is None or (here.path, here.topic_id) != (move.source, move.topic_id):
            self._leave_alone(tp, "has changed since the plan was made")
        elif move.target not in room:
            self.failed[tp] = (
                f"{tp} stays in {move.source}: broker {self.broker_id} has no log dir {move.target} any more"
            )
        elif (known := room[move.target]) is not None and known < move.size_bytes:
            self.failed[tp] = (
                f"{tp} stays in {move.source}: {move.target} of broker {self.broker_id} has no room for its"
                f" {move.size_bytes} bytes any more"
            )
        else:
            return True
        return False

    def _settle(self, tp: TopicPartition, move: DirMove) -> None:
        """Ends a move of a replica that moves no more."""
        here, why = self._here.get(tp), self._offline(move.target) or self._offline(move.source)
        if here is not None and here.topic_id != move.topic_id:
            self._leave_alone(tp, "was created again")
        elif here is not None and here.path == move.target:
            self.moved += 1
        elif here is None and not why:
            self._leave_alone(tp, "is not there any more")
        elif here is not None and (tp in self._coming or here.path != move.source):
            self._leave_alone(tp, "is moved by somebody else")
        else:
            place = "in no log dir that works" if here is None else f"in {here.path}"
            because = why or f"its move was cancelled, or the log of broker {self.broker_id} says why"
            self.failed[tp] = f"{tp} of broker {self.broker_id} is {place} and not in {move.target}: {because}"

    def _offline(self, path: str) -> str:
        """The reason why a log dir is offline; "" where it is not."""
        error = next((one.error for one in self._log_dirs if one.path == path), None)
        return "" if error is None else f"{path} is offline: {error}"

    def _leave_alone(self, tp: TopicPartition, why: str) -> None:
        self.left_alone.append(f"{tp} of broker {self.broker_id} {why}; it is left alone")

    def _give_up(self, why: str) -> None:
        for tp, move in self.moving.items():
            self.failed[tp] = (
                f"{tp} of broker {self.broker_id} has not moved to {move.target}, and its move goes on by itself: {why}"
            )
        for tp, move in self.waiting:
            self.failed[tp] = f"{tp} of broker {self.broker_id} stays in {move.source}: {why}"
        self.left_under_way += len(self.moving)
        self.moving.clear()
        self.waiting.clear()

    def __repr__(self) -> str:
        return f"DirQueue(broker {self.broker_id}: {len(self.waiting)} wait, {len(self.moving)} move)"
