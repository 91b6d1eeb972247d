"""Runs jobs as processes of their own, kills them at a moment, and leaves none behind.

A job is `penstock pipeline run` in a session of its own. Its driver and its Java are one process group, and are killed
together (-9). Spark's Python workers make a group of their own: they must end by themselves when Java is gone. What
is left of a session is known from /proc, counted, and killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

LOOK_S = 0.005
WORKERS_END_S = 15.0
"""How long Python workers may live on without their Java."""
COMMAND = [sys.executable, "-c", "from penstock.cli.main import main; main()", "pipeline", "run"]


class Drivers:
    """The jobs of one campaign; their confs and logs are in `lake`. A context manager."""

    def __init__(self, lake: Path, seconds: float) -> None:
        self._lake = lake
        self._deadline = time.monotonic() + seconds
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Drivers:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._started:
            end_session(process)

    def left_s(self) -> float:
        """SystemExit when the time of the campaign is over."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise SystemExit("the run took longer than --minutes")
        return left

    def start(self, job: str) -> subprocess.Popen[str]:
        """The job of this conf: `gold-at-least-once` is the job gold with a conf of that name."""
        return self._spawn(job, [*COMMAND, job.partition("-")[0], "--conf", str(self._lake / f"{job}.toml"), "--json"])

    def start_clicks(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """The generator of the click-stream."""
        return self._spawn("clicks", [sys.executable, "-m", "examples.pipelines.clicks", *arguments])

    def _spawn(self, job: str, command: list[str]) -> subprocess.Popen[str]:
        with (self._lake / f"{job}.log").open("a") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        self._started.append(process)
        return process

    def finish(self, job: str, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The job's result; SystemExit with the end of its log if it failed."""
        try:
            stdout, _ = process.communicate(timeout=self.left_s())
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{job} did not end within --minutes") from None
        if process.returncode:
            tail = (self._lake / f"{job}.log").read_text().splitlines()[-20:]
            raise SystemExit("\n".join([f"{job} ended with {process.returncode}:", *tail]))
        found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return found

    def run(self, job: str) -> dict[str, Any]:
        return self.finish(job, self.start(job))

    def kill_at(self, job: str, reached: Callable[[], bool]) -> bool:
        """Starts a job and kills it once the moment is reached; False if it ended before that."""
        process = self.start(job)
        while not reached():
            if process.poll() is not None:
                return False
            self.left_s()
            time.sleep(LOOK_S)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL

    def left_behind(self) -> int:
        """How many processes of all jobs are still there, after the time that Python workers have to end."""
        until = time.monotonic() + WORKERS_END_S
        while (left := sum(len(session_of(process.pid)) for process in self._started)) and time.monotonic() < until:
            time.sleep(0.1)
        return left


def end_session(process: subprocess.Popen[str]) -> None:
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
