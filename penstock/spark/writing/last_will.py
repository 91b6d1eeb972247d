"""The last wills of a process that writes for Spark: a writer is aborted though its process was killed (-9).

A task that fails in front of the sink, as in a user's function, has the sink's Python process killed by Spark. That
process can abort nothing any more, and Spark's driver has not been told what was open. So each process that writes has
a second one beside it, which waits at the end of a pipe and has imported nothing. A task leaves its will there BEFORE
its first record, and revokes it when its end is told to the driver, or when it has aborted itself. The pipe ends with
the process that writes, however that ended; then the wills that are left are carried out.

A will names one writer by its producer id and epoch. So it meets no other attempt, no other run of the query and no
writer of later, and what is decided stays decided: the coordinator passes over a writer that is not open. It may be
carried out twice.

Not here: a machine that is lost with both processes, and a task that has ended; the first is for the time-out, the
second is the driver's to decide.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field
from typing import Any, Final

from penstock.errors import PenstockError, ProducerFencedError
from penstock.lazy_dataclass import dataclass

_log = logging.getLogger(__name__)

WILL_S: Final = 60.0
"""The time to reach the coordinator: longer than a failover. Nobody waits for it."""
_PROGRAM: Final = """
import sys
lines = open(0, encoding="utf-8", errors="surrogateescape", newline="\\n")
path, left = lines.readline(), {}
for line in lines:
    name, _, will = line.partition(" ")
    if will.endswith("\\n"):
        left[name] = will
    elif line.endswith("\\n"):
        left.pop(name[:-1], None)
if left:
    sys.path[:] = path[:-1].split("\\0")
    from penstock.spark.writing.last_will import carry_out
    carry_out(left.values())
"""
"""The second process. A line is a name and a will, or a name alone, which revokes it; one without an end was never
whole. The first line is where modules are found."""
_COMMAND: Final = (sys.executable, "-c", _PROGRAM)


@dataclass(frozen=True, slots=True)
class Will:
    """One writer that is to be aborted, and how its coordinator is reached."""

    bootstrap: str
    application: str
    run: str
    producer_id: int
    epoch: int
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of the client. They may have a password, so they go through the pipe alone."""

    @property
    def name(self) -> str:
        return f"{self.producer_id}/{self.epoch}"


class LastWills:
    """The wills of this process; for any number of threads. Its other process begins with the first will."""

    def __init__(self, begin: Callable[[], subprocess.Popen[bytes]] | None = None) -> None:
        self._begin = begin or _begun
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._left: dict[str, Will] = {}
        self._turn = threading.Lock()

    def leave(self, will: Will) -> None:
        """Leaves a will, carried out when this process ends. Without another process the time-out alone is left."""
        with self._turn:
            if self._owner != os.getpid():  # forked: the wills are those of the process that left them
                self._owner, self._process, self._left = os.getpid(), None, {}
            self._left[will.name] = will
            if self._process is None or not self._write([_line(will)]):
                self._begin_anew()

    def revoke(self, will: Will) -> None:
        """The writer needs no will any more. Idempotent."""
        with self._turn:
            if self._owner == os.getpid() and self._left.pop(will.name, None) is not None:
                self._write([f"{will.name}\n"])

    def close(self) -> None:
        """Ends the other process, which carries out what is left."""
        with self._turn:
            process, self._process, self._left = self._process, None, {}
        if process is not None and self._owner == os.getpid():
            _end(process)

    def _begin_anew(self) -> None:
        """A process that is gone, as by a lack of memory, is replaced by one that knows all that is left."""
        if self._process is not None:
            _end(self._process)
        try:
            self._process = self._begin()
        except OSError as error:
            self._process = None
            _log.warning("no process for last wills, so readers wait for the time-out of a killed task: %s", error)
            return
        self._write(["\0".join(sys.path) + "\n", *map(_line, self._left.values())])

    def _write(self, lines: Iterable[str]) -> bool:
        """Whole lines; False if nobody takes them."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            self._process.stdin.write("".join(lines).encode("utf-8", "surrogateescape"))
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def __repr__(self) -> str:
        return f"LastWills({len(self._left)} left)"


def _begun() -> subprocess.Popen[bytes]:
    """Begins the process in a session of its own: what ends a group of processes does not end it."""
    return subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
    except OSError:
        _log.debug("the process for last wills is gone")
    process.wait()


def _line(will: Will) -> str:
    return f"{will.name} {json.dumps(asdict(will))}\n"


def carry_out(lines: Iterable[str], timeout_s: float = WILL_S) -> None:
    """Aborts the writers of these wills, those of one application by one call. A failure is reported in one line, and
    the abort is left to the time-out."""
    together: dict[tuple[str, ...], list[Will]] = defaultdict(list)
    for line in lines:
        will = Will(**json.loads(line))
        together[will.bootstrap, json.dumps(will.client, sort_keys=True), will.application, will.run].append(will)
    for wills in together.values():
        _abort(wills, timeout_s)


def _abort(wills: list[Will], timeout_s: float) -> None:
    from penstock.spark.log_client import atomic_batches

    first = wills[0]
    try:
        batches = atomic_batches(first.bootstrap, first.client)
        writers = [(will.producer_id, will.epoch) for will in wills]
        batches.abort_writers(first.application, writers, run=first.run, timeout=timeout_s)
    except ProducerFencedError:
        _log.debug("a newer run has aborted what %s had open", first)
    except PenstockError as error:
        _log.warning("what a killed task of %r had open waits for its time-out: %s", first.application, error)


LAST_WILLS: Final = LastWills()
"""The wills of this process."""
