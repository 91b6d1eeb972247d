"""How large the disk of each log dir is, and how much of it is free, for the metrics; and whether it is there.

    disk-room    every 10 s

The disk is asked in a thread of its log dir, because one that hangs does not answer; its figures stay as they were. A
log dir that is gone fails at once: nobody may write to it for a minute. A failed log dir is asked no more and has no
figures. Not here: what happens when a disk is full
(`broker/replication/refused_appends.py`, `storage/log/group_commit.py`), what fails with a log dir
(`broker/replication/disk_failures.py`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from broker.jobs.scheduler import Scheduler
from storage.disk.file_system import DiskRoom, FileSystem

INTERVAL_MS = 10_000
GONE = (errno.ENOENT, errno.ENOTDIR, errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.ENOTCONN)
"""The errors of a disk whose log dir is gone for good; after another error it is asked again."""


class DiskRooms:
    """The disks of a broker's log dirs. There is one per broker, on the event loop."""

    def __init__(
        self,
        in_use: Callable[[], Sequence[str]],
        on_log_dir_failed: Callable[[str, Exception], None],
        fs: FileSystem,
        scheduler: Scheduler,
    ) -> None:
        """Made after the log dirs were opened: their disks have just answered. `in_use()` are those that work now."""
        log_dirs = in_use()
        self._in_use = in_use
        self._on_log_dir_failed = on_log_dir_failed
        self._fs = fs
        self._scheduler = scheduler
        self._rooms: dict[str, DiskRoom] = {}
        for log_dir in log_dirs:
            with suppress(OSError):  # which the next look will report
                self._rooms[log_dir] = fs.room(log_dir)
        scheduler.add_for_each(log_dirs, "disk-room", INTERVAL_MS, self.look)

    async def look(self, log_dir: str) -> None:
        if log_dir in self._in_use():
            try:
                self._rooms[log_dir] = await self._scheduler.in_thread(log_dir, self._fs.room, log_dir)
                return
            except OSError as error:
                if error.errno not in GONE:
                    raise
                self._on_log_dir_failed(log_dir, error)
        self._rooms.pop(log_dir, None)

    def statistics(self) -> Mapping[str, DiskRoom]:
        """The room by log dir, as last seen; may be called in any thread."""
        return dict(self._rooms)

    def __repr__(self) -> str:
        return f"DiskRooms({len(self._rooms)} log dirs)"
