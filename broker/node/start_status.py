"""The line in `systemctl status` while a node opens its logs: how many are left, in which log dir.

After a crash each log is checked from its recovery point on. That may take minutes, and nothing else of the node runs
before it is done. Kafka shows the same as remainingLogsToRecover. Not here: the node's log (log_progress).
"""

from __future__ import annotations

from collections.abc import Callable

from storage.log_dirs.log_manager_config import LoadProgress


class StartStatus:
    """Is told of each log dir's progress; `say` takes the line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._dirs: dict[str, LoadProgress] = {}

    def told(self, progress: LoadProgress) -> None:
        """One log dir is so far."""
        self._dirs[progress.log_dir] = progress
        under_way = [found for found in self._dirs.values() if found.remaining]
        if under_way:
            self._say("opening logs: " + ", ".join(found.remaining_text() for found in under_way))

    def __repr__(self) -> str:
        return f"StartStatus({len(self._dirs)} log dirs)"
