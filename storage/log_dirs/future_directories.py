"""The directories of a move between two log dirs of a node, and what a start does with those that it finds (KIP-113).

    A/orders-3                     the log
    B/orders-3.<uuid>-future       its copy, which is being filled; it counts for nothing

When the copy has everything, durably, and nothing is appended, it takes the log's place. Each rename is durable BEFORE
the next, and BEFORE anything is appended again:

    1   A/orders-3               -> A/orders-3.<uuid>-moved
    2   B/orders-3.<uuid>-future -> B/orders-3
    3   A/orders-3.<uuid>-moved  -> A/orders-3.<uuid>-delete

So at most one directory has the log's own name at any time, and whatever a crash leaves is complete:

    -future, and the log elsewhere             the move goes on
    -future and -moved of one uuid             the copy takes its place: steps 2 and 3
    -moved, and the log elsewhere              step 3
    -moved, nothing else, all log dirs here    the log has its own name back: the copy's log dir was given up
    -future beside the log or of another topic deleted
    -future, nothing else, all log dirs here   set aside as stray; a person decides
    a log dir of the node is offline           what may depend on it stays as it is

The log "elsewhere" is one of the same topic id: a log dir that was offline may have come back with the log of a topic
that was deleted and made anew, and that says nothing of this one.

Not here: filling the copy, and the swap of a running node (`future_logs.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import MutableMapping, Sequence
from dataclasses import field
from typing import NamedTuple

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.disk.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    MOVED_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    move_directory,
    parse_move_directory,
    partition_directory,
)
from storage.disk.file_system import FileSystem
from storage.disk.partition_metadata import read_topic_id
from storage.log_dirs.log_table import LogId

_log = logging.getLogger(__name__)


class MoveDirectory(NamedTuple):
    """One side of a move: the log dir that it is in, its partition, and what both sides have in common."""

    log_dir: str
    topic_partition: TopicPartition
    unique: str

    def path(self, suffix: str) -> str:
        return f"{self.log_dir}/{move_directory(self.topic_partition, self.unique, suffix)}"

    @property
    def future(self) -> str:
        return self.path(FUTURE_DIRECTORY_SUFFIX)

    @property
    def home(self) -> str:
        """The name of the log itself in this log dir."""
        return f"{self.log_dir}/{partition_directory(self.topic_partition)}"


class MoveGoingOn(NamedTuple):
    """A copy that a start found, and the topic of which it is."""

    side: MoveDirectory
    topic_id: str


@dataclass(slots=True)
class FoundMoves:
    """The directories of moves that a start finds."""

    futures: list[MoveDirectory] = field(default_factory=list)
    moved: list[MoveDirectory] = field(default_factory=list)

    def add(self, log_dir: str, name: str) -> bool:
        """Adds a directory if its name is one side of a move; else False."""
        parsed = parse_move_directory(name)
        if parsed is None:
            return False
        topic_partition, unique, suffix = parsed
        sides = self.futures if suffix == FUTURE_DIRECTORY_SUFFIX else self.moved
        sides.append(MoveDirectory(log_dir, topic_partition, unique))
        return True


@dataclass(slots=True)
class MovesAtStart:
    """One start. `homes` are the log dirs that have each log under its own name; it is changed. `set_aside`, path to
    suffix, gets what this sets aside."""

    fs: FileSystem
    homes: MutableMapping[TopicPartition, list[str]]
    set_aside: MutableMapping[str, str]
    all_dirs_answer: bool
    failed: dict[str, OSError] = field(default_factory=dict)
    """Log dirs whose disk refused a rename."""

    def settle(self, found: FoundMoves) -> dict[TopicPartition, MoveGoingOn]:
        """Finish or undo what a crash interrupted; returns the moves that go on."""
        futures = {(future.topic_partition, future.unique): future for future in found.futures}
        for moved in found.moved:
            self._settle_moved(moved, futures.pop((moved.topic_partition, moved.unique), None))
        going_on: dict[TopicPartition, MoveGoingOn] = {}
        for future in sorted(futures.values()):
            self._settle_future(future, going_on)
        return going_on

    def logs_in(self, moved: Sequence[MoveDirectory]) -> frozenset[LogId]:
        """The logs in directories that a crash left without the log's own name."""
        ids = ((side.topic_partition, self._topic_id(side.path(MOVED_DIRECTORY_SUFFIX))) for side in moved)
        return frozenset(LogId(topic_partition, topic_id) for topic_partition, topic_id in ids if topic_id)

    def _settle_moved(self, moved: MoveDirectory, future: MoveDirectory | None) -> None:
        old, homes = moved.path(MOVED_DIRECTORY_SUFFIX), self.homes.setdefault(moved.topic_partition, [])
        is_elsewhere = self._is_in_one_of(homes, moved.topic_partition, old)
        if future is not None:
            is_free = not is_elsewhere and future.log_dir not in homes
            if not is_free or not self._rename(future.future, future.home):
                return
            _log.warning("%s: a crash interrupted its move to this log dir, which is finished", future.home)
            homes.append(future.log_dir)
            is_elsewhere = True
        if is_elsewhere:
            self._put_aside(moved, old, DELETE_DIRECTORY_SUFFIX)
        elif self.all_dirs_answer and moved.log_dir not in homes and self._rename(old, moved.home):
            _log.warning("%s: a crash interrupted its move, and its copy is gone: it stays here", moved.home)
            homes.append(moved.log_dir)

    def _settle_future(self, future: MoveDirectory, going_on: dict[TopicPartition, MoveGoingOn]) -> None:
        homes = self.homes.get(future.topic_partition, [])
        has_log = self._is_in_one_of(homes, future.topic_partition, future.future)
        if not has_log and not self.all_dirs_answer:
            return
        if not homes:
            self._put_aside(future, future.future, STRAY_DIRECTORY_SUFFIX)
        elif has_log and future.topic_partition not in going_on and future.log_dir not in homes:
            going_on[future.topic_partition] = MoveGoingOn(future, self._topic_id(future.future))
        else:
            self._put_aside(future, future.future, DELETE_DIRECTORY_SUFFIX)

    def _is_in_one_of(self, homes: Sequence[str], topic_partition: TopicPartition, path: str) -> bool:
        """True if the log of which this is one side is in use there. Another topic of that name may be."""
        topic_id = self._topic_id(path)
        return bool(topic_id) and topic_id in [
            self._topic_id(f"{home}/{partition_directory(topic_partition)}") for home in homes
        ]

    def _put_aside(self, side: MoveDirectory, path: str, suffix: str) -> None:
        target = side.path(suffix)
        if self._rename(path, target):
            self.set_aside[target] = suffix

    def _rename(self, source: str, target: str) -> bool:
        log_dir = os.path.dirname(source)
        try:
            self.fs.rename(source, target)
            self.fs.fsync_dir(log_dir)
        except OSError as error:
            self.failed[log_dir] = error
            return False
        return True

    def _topic_id(self, path: str) -> str:
        with contextlib.suppress(OSError, CorruptFileError):
            return read_topic_id(self.fs, path) or ""
        return ""
