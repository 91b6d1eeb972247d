"""One move of a replica to another log dir of its broker, and what a view shows of it. Values; see log_dir_moves.py."""

from __future__ import annotations

import asyncio
from dataclasses import field

from broker.replication.hosting.directory_reports import Announcement
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import counter, gauge, in_seconds, measured
from storage.log.log import Log
from storage.log_dirs.future_directories import MoveDirectory


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True, eq=False)
class Move:
    """Changed on the event loop only."""

    side: MoveDirectory
    topic_id: str
    copy: Log | None = None
    """Open while it is filled; used by one thread at a time."""
    flushed: int | None = None
    """The end of a copy that was closed, durably; None: not known."""
    copied_to: int = 0
    copied_bytes: int = 0
    unflushed_bytes: int = 0
    not_before_ms: int = 0
    """An attempt failed, and the next one waits."""
    waits_for: str = ""
    is_given_up: bool = False
    announcement: Announcement | None = None
    """The announcement of the new log dir to the controller in this attempt."""
    unused: asyncio.TimerHandle | None = None
    """Takes the announcement back, unless the swap begins before."""
    idle: asyncio.Event = field(default_factory=_set_event)
    """An event that is set but during an attempt, which uses the copy's files."""

    def wait_no_longer(self) -> None:
        """The attempt is to end soon; it need not wait for the controller."""
        if self.announcement is not None:
            self.announcement.over.set()

    def view(self, log: Log) -> MoveView:
        """How far the copy of `log` is."""
        left, lag = max(log.size_bytes - self.copied_bytes, 0), max(log.log_end_offset - self.copied_to, 0)
        return MoveView(self.side.log_dir, self.copied_bytes, left, lag, self.waits_for)


@dataclass(frozen=True, slots=True)
class MoveView:
    """A move for people and metrics."""

    log_dir: str
    """Where it goes."""
    size_bytes: int
    bytes_left: int
    offset_lag: int
    waits_for: str
    """The reason why the move does not go on now; "" if it does."""


@measured
class LogDirMovesStatistics:
    """The moves of one broker; the counts are since its start."""

    under_way: int = gauge("penstock_log_dir_moves", "Replicas that move to another log dir of this broker.")
    bytes_left: int = gauge("penstock_log_dir_move_bytes_left", "Bytes that such moves have to copy yet.")
    copied_bytes: int = counter("penstock_log_dir_move_bytes", "Bytes that such moves have copied.")
    completed: int = counter("penstock_log_dir_moves_completed", "Such moves that are done.")
    failed_attempts: int = counter(
        "penstock_log_dir_move_failures", "Attempts of such moves that a full or a broken disk ended."
    )
    put_off: int = counter(
        "penstock_log_dir_moves_put_off", "Times that a move put its last step off, because the disk was slow."
    )
    throttled: int = counter(
        "penstock_log_dir_moves_throttled",
        "Times that a copy was held by replica.alter.log.dirs.io.max.bytes.per.second.",
    )
    held_ms_max: int = gauge(
        "penstock_log_dir_move_held_seconds_max",
        "The longest time for which a replica refused requests at the end of its move, since the start.",
        in_seconds,
    )
