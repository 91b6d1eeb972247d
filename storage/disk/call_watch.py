"""Knows how long the oldest call to each log dir has been under way, and refuses every call to one that was given up.

A disk that fails says so; one that hangs says nothing. The only sign is the age of one call. Much work that queues at a
slow disk is no such sign: each of its calls is young. `WatchedFileSystem` notes every call of every thread, whatever
the work is: a flush, a checkpoint, a deletion, a read, a rename of a move.

Age is counted in looks, not by the clock: a look adds the time since the one before, but never more than twice the
pause between two. A process that was stopped, a machine that was suspended, or an event loop that stood still looks
late, and that one look says nothing about the disk.

A log dir that was given up stays so until the process ends. A call that begins there is refused, and one that comes
back late fails, though the disk may have done it: its caller was told long ago that the dir has failed, and nothing may
follow from it (an ack, a rename, a checkpoint). Descriptors there stay open, because to close one may hang, too.

Not here: when a log dir is given up, and what follows (`broker/jobs/log_dir_watch.py`).
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

LOOK_MS = 500
"""Pause between two looks."""
STEP_MS_MAX = 2 * LOOK_MS
"""Limit for what one look adds to an age."""


class Call:
    """One call under way."""

    __slots__ = ("age_ms", "is_old", "log_dir", "operation")

    def __init__(self, log_dir: str, operation: str) -> None:
        self.log_dir, self.operation = log_dir, operation
        self.age_ms = 0
        self.is_old = False
        """A look has seen it."""

    def __repr__(self) -> str:
        return f"Call({self.operation} in {self.log_dir}, {self.age_ms} ms)"


class CallWatch:
    """The calls of one process. `look` and `give_up` belong to the event loop, the rest to any thread."""

    def __init__(self, log_dirs: Sequence[str]) -> None:
        self._places = tuple((log_dir, f"{log_dir}/") for log_dir in log_dirs)
        self._calls: dict[Call, None] = {}
        self._looked_ms: int | None = None
        self._oldest: dict[str, Call] = {}
        self.given_up: frozenset[str] = frozenset()
        """The log dirs that did not answer for too long."""

    def log_dir_of(self, path: str) -> str | None:
        """The log dir in which a path is, or which it names."""
        for log_dir, inside in self._places:
            if path.startswith(inside) or path == log_dir:
                return log_dir
        return None

    def begin(self, log_dir: str, operation: str) -> Call:
        """Call `end` when it has come back. OSError if the log dir was given up."""
        if log_dir in self.given_up:
            raise _given_up(log_dir)
        call = Call(log_dir, operation)
        self._calls[call] = None
        return call

    def end(self, call: Call) -> None:
        """Ends a call; OSError if the log dir was given up meanwhile."""
        del self._calls[call]
        if call.log_dir in self.given_up:
            raise _given_up(call.log_dir)

    def look(self, now_ms: int) -> Mapping[str, Call]:
        """The oldest call to each log dir that has any older than one look; monotonic time."""
        before_ms, self._looked_ms = self._looked_ms, now_ms
        step_ms = 0 if before_ms is None else min(now_ms - before_ms, STEP_MS_MAX)
        oldest: dict[str, Call] = {}
        for call in tuple(self._calls):
            if not call.is_old:
                call.is_old = True
                continue
            call.age_ms += step_ms
            other = oldest.get(call.log_dir)
            if other is None or other.age_ms < call.age_ms:
                oldest[call.log_dir] = call
        self._oldest = oldest
        return oldest

    def ages_ms(self) -> dict[str, int]:
        """The age of the oldest call to each log dir, by the last look; 0 without a call. Log dirs that were given up
        are left out."""
        oldest = self._oldest
        dirs = (log_dir for log_dir, _ in self._places if log_dir not in self.given_up)
        return {log_dir: oldest[log_dir].age_ms if log_dir in oldest else 0 for log_dir in dirs}

    def give_up(self, log_dir: str) -> None:
        """Makes every call there fail from now on."""
        self.given_up |= {log_dir}

    def __repr__(self) -> str:
        return f"CallWatch({len(self._calls)} calls under way, given up {sorted(self.given_up)})"


def _given_up(log_dir: str) -> OSError:
    return OSError(errno.ETIMEDOUT, "the log dir did not answer for too long, and was given up", log_dir)
