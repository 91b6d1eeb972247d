"""The two releases of a campaign, each a tree whose code its own processes import, and the client processes of each.

A process gets the tree as PYTHONPATH and, by -P, nothing of this process's directory. Nodes are started by
`penstock.testing.Cluster` of this tree, which hands them this process's environment: `code_of` changes it for a start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

CLIENT = Path(__file__).with_name("client.py")
CALL_TIMEOUT_S = 180.0
END_TIMEOUT_S = 120.0
PATH_VARIABLE = "PYTHONPATH"


@dataclass(frozen=True, slots=True)
class Release:
    """A name and a tree."""

    name: str
    tree: Path

    def require(self) -> None:
        """ValueError where processes of it would run the code of another tree."""
        found = subprocess.run(
            [sys.executable, "-P", "-c", "import penstock.node as node; print(node.server_root())"],
            env=self.environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        if found.stdout.strip() != str(self.tree):
            raise ValueError(f"{self.tree} is no tree of Penstock: {found.stdout}{found.stderr}")

    def require_of(self, pid: int) -> None:
        """ValueError where a process that runs is not one of it."""
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"{PATH_VARIABLE}={self.tree}".encode() not in environ:
            raise ValueError(f"process {pid} does not run the code of {self.tree}")

    def environ(self) -> dict[str, str]:
        """The environment of its processes."""
        return {**os.environ, PATH_VARIABLE: str(self.tree)}

    def code_of(self) -> AbstractContextManager[object]:
        """Nodes that are started within run its code."""
        return patch.dict(os.environ, {PATH_VARIABLE: str(self.tree)})

    def call(self, role: str, *arguments: str) -> dict[str, Any]:
        """The answer of a client process that does one thing."""
        done = subprocess.run(
            _command(role, arguments),
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{role} of {self.name} ended with code {done.returncode}:\n{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


class RunningClient:
    """A client process that works until it is told to end, and what it wrote: a JSON line for each record."""

    def __init__(self, release: Release, role: str, directory: Path, *arguments: str) -> None:
        self.release, self.role = release, role
        self._out = directory / f"{role}-{release.name}.jsonl"
        self._errors = self._out.with_suffix(".err")
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                _command(role, arguments), env=release.environ(), stdin=subprocess.PIPE, stdout=out, stderr=errors
            )

    def end(self) -> list[Any]:
        """Tells it to end, waits, and returns its lines; RuntimeError where it failed or complained."""
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        stdin.close()
        code = self._process.wait(END_TIMEOUT_S)
        complaints = self._errors.read_text(errors="replace")
        if code or "Traceback" in complaints:
            raise RuntimeError(f"{self.role} of {self.release.name} ended with code {code}:\n{complaints[-4000:]}")
        return [json.loads(line) for line in self._out.read_text().splitlines()]

    def kill(self) -> None:
        """Ends it at once; no error if it has ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _command(role: str, arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-P", str(CLIENT), role, *arguments]
