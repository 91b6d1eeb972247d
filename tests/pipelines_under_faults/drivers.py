"""Runs jobs as processes of their own, kills them at a moment, and leaves none behind.

A job is `penstock pipeline run` in a session of its own. Its driver and its Java are one process group, and are killed
together (-9). Spark's Python workers must end by themselves when Java is gone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.campaign.sessions import begin_session, end_session, kill_when, last_lines, session_of

WORKERS_END_S = 15.0
"""How long Python workers may live on without their Java."""
COMMAND = [sys.executable, "-c", "from penstock.cli.main import main; main()", "pipeline", "run"]


class Drivers:
    """The jobs of one campaign; their confs and logs are in `lake`. A context manager."""

    def __init__(self, lake: Path, seconds: float) -> None:
        self._lake, self._seconds = lake, seconds
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Drivers:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._started:
            end_session(process)

    def start(self, job: str) -> subprocess.Popen[str]:
        """The job of this conf: `gold-at-least-once` is the job gold with a conf of that name."""
        return self._spawn(job, [*COMMAND, job.partition("-")[0], "--conf", str(self._lake / f"{job}.toml"), "--json"])

    def start_clicks(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """The generator of the click-stream."""
        return self._spawn("clicks", [sys.executable, "-m", "examples.pipelines.clicks", *arguments])

    def _spawn(self, job: str, command: list[str]) -> subprocess.Popen[str]:
        process = begin_session(command, self._lake / f"{job}.log", prints=True)
        self._started.append(process)
        return process

    def finish(self, job: str, process: subprocess.Popen[str]) -> dict[str, Any]:
        """The job's result; SystemExit with the end of its log if it failed."""
        stdout, _ = process.communicate()
        if process.returncode:
            lines = last_lines(self._lake / f"{job}.log")
            raise SystemExit("\n".join([f"{job} ended with {process.returncode}:", *lines]))
        found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return found

    def run(self, job: str) -> dict[str, Any]:
        return self.finish(job, self.start(job))

    def kill_at(self, job: str, reached: Callable[[], bool]) -> bool:
        """Starts a job and kills it once the moment is reached; False if it ended before that."""
        return kill_when(self.start(job), reached, lambda: None, self._seconds)

    def left_behind(self) -> int:
        """How many processes of all jobs are still there, after the time that Python workers have to end."""
        until = time.monotonic() + WORKERS_END_S
        while (left := sum(len(session_of(process.pid)) for process in self._started)) and time.monotonic() < until:
            time.sleep(0.1)
        return left
