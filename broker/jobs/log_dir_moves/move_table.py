"""Keeps the moves of one broker that are under way, and the copies that are to be dropped. No disk is touched here.

Made before the replicas, which report to it: a replica that is dismissed gives its move up. Not here: what is asked for
and when a move is tried (log_dir_moves.py), who drops a copy (log_dir_moves.py).
"""

from __future__ import annotations

from broker.jobs.log_dir_moves.moves import Move
from penstock.types import TopicPartition
from storage.log_dirs.future_directories import MoveDirectory
from storage.log_dirs.log_manager import LogManager


class MoveTable:
    """The moves of one broker. There is one per broker, on the event loop; it begins with the copies that the start
    found."""

    def __init__(self, log_manager: LogManager) -> None:
        self._logs = log_manager.table
        self.moves = {key: Move(*found) for key, found in log_manager.futures.going_on.items()}
        self.to_drop: list[MoveDirectory] = []
        """The copies of moves that were given up, and are still there."""

    def begin(self, move: Move) -> None:
        """The only move of its replica from now on."""
        self.give_up(move.side.topic_partition)
        self.moves[move.side.topic_partition] = move

    def give_up(self, key: TopicPartition) -> None:
        """The replica stays where it is, or is not hosted here any more; its copy is dropped."""
        move = self.moves.pop(key, None)
        if move is not None:
            move.is_given_up = True
            move.wait_no_longer()
            self.to_drop.append(move.side)

    def give_up_deleted(self) -> None:
        """Gives up moves of replicas that were deleted before they were served: a start found their copies. Another
        topic may have the name by now."""
        for key, move in tuple(self.moves.items()):
            if not any(logs.get_as(key, move.topic_id) for logs in (self._logs.logs, self._logs.offline)):
                self.give_up(key)

    def done(self, move: Move) -> None:
        """The copy has become the log, so it is not dropped, even if the move was given up in its last moment."""
        if self.moves.get(move.side.topic_partition) is move:
            del self.moves[move.side.topic_partition]
        elif move.side in self.to_drop:
            self.to_drop.remove(move.side)

    def __repr__(self) -> str:
        return f"MoveTable({len(self.moves)} moves, {len(self.to_drop)} copies to drop)"
