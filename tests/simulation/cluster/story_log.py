"""The log lines of the processes of a world, in the story's log: as in a node's own log, no line twice within 30
seconds.

Each process has the `LogOutput` that a real node writes through, in virtual time. Not here: what the world itself says
(world.py), and what nobody logs (transcript.py).
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.node.process.log_output import LogOutput
from tests.simulation.cluster.scheduler import Scheduler

NOBODY = "nobody"


class StoryLog(logging.Handler):
    """The one handler while a world runs. `say` writes a line."""

    def __init__(self, scheduler: Scheduler, say: Callable[[str], object]) -> None:
        super().__init__()
        self._scheduler, self._say = scheduler, say
        self._outputs: dict[str, LogOutput] = {}

    def emit(self, record: logging.LogRecord) -> None:
        running = self._scheduler.running
        who = running.name if running is not None else NOBODY
        output = self._outputs.get(who)
        if output is None:
            output = self._outputs[who] = LogOutput(_Lines(who, self._say), 0)
            output.setFormatter(_Line())
        record.created = self._scheduler.now_s
        output.emit(record)


class _Line(logging.Formatter):
    """No time, which the story adds, and no traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname} {record.name}: {record.getMessage()}"


class _Lines(io.StringIO):
    """A stream whose lines are said."""

    def __init__(self, who: str, say: Callable[[str], object]) -> None:
        super().__init__()
        self._who, self._tell = who, say

    def write(self, text: str) -> int:
        self._tell(f"{self._who}: {text.rstrip()}")
        return len(text)


@contextmanager
def listening(scheduler: Scheduler, say: Callable[[str], object], level: int) -> Iterator[None]:
    """Whatever is logged from `level` on is said."""
    root, handler = logging.getLogger(), StoryLog(scheduler, say)
    handlers, before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
