"""Drivers of Spark as processes of a session each, killed at a moment, and never left behind.

A driver and its Java are one process group, and are killed together (-9). Spark's Python workers make a group of their
own: they must end by themselves when Java is gone. What is left of a session is known from /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LOOK_S = 0.005
"""Between two looks at whether the moment has come."""


def begin_session(command: Sequence[str], log: Path, *, prints: bool = False) -> subprocess.Popen[str]:
    """A driver; its errors are in the log, and what it prints too, unless the caller reads that (`prints`)."""
    with log.open("a") as file:
        stdout = subprocess.PIPE if prints else file
        return subprocess.Popen(command, stdout=stdout, stderr=file, text=True, start_new_session=True)


def kill_when(
    process: subprocess.Popen[str], reached: Callable[[], bool], meanwhile: Callable[[], object], timeout_s: float
) -> bool:
    """Kills the driver and its Java once the moment is reached; False if it ended before that, or it never came."""
    deadline = time.monotonic() + timeout_s
    while not reached():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        meanwhile()
        time.sleep(LOOK_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def last_lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-20:]


def end_session(process: subprocess.Popen[str]) -> None:
    """Kills what is left of it."""
    for pid in session_of(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def session_of(session: int) -> list[int]:
    """The processes of a session that are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, sid, *_ = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(sid) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found
