"""Has the controller know a replica's new log dir before the replica is there (KIP-858).

When the copy of a replica has caught up, its new log dir is announced. Only when the controller has acknowledged that
may the copy take the log's place. The replica is served meanwhile. However the attempt ends, the announcement ends with
it, and the dir where the replica is by then is reported: so a replica that did not move comes back by itself if the
controller took it out of an ISR because the new dir failed. An announcement that is not used soon ends, too: a disk may
hang in the rest of the copy.

Not here: the reports (`broker/replication/hosting/directory_reports.py`), the swap (move_swap.py).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from broker.jobs.log_dir_moves.moves import Move
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.partition import Partition

_log = logging.getLogger(__name__)

ACKNOWLEDGE_MS_MAX = 30_000
"""The longest wait for the controller's answer: longer than a call and the pause before the next one. Then the move is
tried again."""
UNUSED_MS_MAX = 30_000
"""The longest time from the answer to the swap, in which what came meanwhile is copied, and the partition is held."""
WAITS_FOR = "the controller has not recorded its new log dir yet"


class MoveAnnouncements:
    """Announces new log dirs to the controller. There is one per broker, on the event loop."""

    def __init__(self, directories: DirectoryReports) -> None:
        self._directories = directories

    async def acknowledged(self, move: Move, partition: Partition) -> bool:
        """Announce the move, and wait for the controller. False if the move is tried again later, or was given up."""
        announcement = move.announcement = self._directories.announce(partition, move.side.log_dir)
        waited_before, move.waits_for = move.waits_for, WAITS_FOR
        with suppress(TimeoutError):
            async with asyncio.timeout(ACKNOWLEDGE_MS_MAX / 1000):
                await announcement.over.wait()
        if self._directories.holds(announcement):
            move.waits_for = ""
            loop = asyncio.get_running_loop()
            move.unused = loop.call_later(UNUSED_MS_MAX / 1000, self._directories.withdraw, announcement)
            return True
        if not announcement.over.is_set() and waited_before != WAITS_FOR:
            _log.warning("%s: its move to %s waits: %s", partition, move.side.log_dir, WAITS_FOR)
        return False

    def use(self, move: Move) -> bool:
        """True if the swap may begin now: the controller still has the new log dir, and from now on nothing but `end`
        takes the announcement back."""
        if move.announcement is None or not self._directories.holds(move.announcement):
            return False
        self._stop_timer(move)
        return True

    def end(self, move: Move) -> None:
        """The replica is in its new log dir by now, or it stays where it is."""
        self._stop_timer(move)
        if move.announcement is not None:
            self._directories.withdraw(move.announcement)
            move.announcement = None

    def _stop_timer(self, move: Move) -> None:
        if move.unused is not None:
            move.unused.cancel()
            move.unused = None

    def __repr__(self) -> str:
        return f"MoveAnnouncements({self._directories!r})"
