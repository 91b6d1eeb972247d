"""Tells the service manager, while a node opens its logs, how many are left, in which log dir, and that it gets on.

After a crash each log is checked from its recovery point on. That may take minutes, and nothing else of the node runs
before it is done. Kafka shows the same as remainingLogsToRecover. A recovery may also take longer than a start may; it
asks for more time with each log and each segment, so one whose disk hangs is not waited for. Not here: the node's log
(log_progress).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import Clock
from storage.log_dirs.log_manager_config import LoadProgress

SEGMENT_SECONDS = 600
"""A time that is longer than the check of one segment: of 1 GiB from a disk that gives 2 MB/s."""
ASK_MS = 5_000
"""A node with small segments checks hundreds of them in a second."""


class StartStatus:
    """Shows the progress of each log dir. `say` takes the line, `extend` the seconds that the start may take longer."""

    def __init__(self, say: Callable[[str], None], extend: Callable[[int], None], clock: Clock) -> None:
        self._say, self._extend, self._clock = say, extend, clock
        self._asked_ms: int | None = None
        self._dirs: dict[str, LoadProgress] = {}

    def note(self, progress: LoadProgress) -> None:
        """One log dir is so far."""
        self.gets_on()
        self._dirs[progress.log_dir] = progress
        under_way = [found for found in self._dirs.values() if found.remaining]
        if under_way:
            self._say("opening logs: " + ", ".join(found.remaining_text() for found in under_way))

    def gets_on(self) -> None:
        """Something was done. In any thread: at worst one asks twice."""
        now_ms = self._clock.now_ms()
        if self._asked_ms is None or now_ms - self._asked_ms >= ASK_MS:
            self._asked_ms = now_ms
            self._extend(SEGMENT_SECONDS)

    def __repr__(self) -> str:
        return f"StartStatus({len(self._dirs)} log dirs)"
