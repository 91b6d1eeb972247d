"""The releases of Penstock, the tree of each, and the processes that run its code.

COMMITS is the one table of them: tags may be missing in a clone, commits are in its history. A tree is unpacked from
there (`unpacked`). A process gets it as PYTHONPATH, and nothing of this process's directory. Nodes are started by
`penstock.testing.Cluster` of this tree, which hands them this process's environment: `code_of` changes it for a start.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from unittest.mock import patch

HERE = Path(__file__).resolve().parents[2]
CLIENTS = Path(__file__).with_name("clients")
COMMITS: Final = {
    "0.1.0": "6baf50e0a5ae71ae095a04e4b95318b2ef1fb063",
    "0.2.0": "f9dfd2d11e6526b3ae4ed7116736e367d57beb36",
}
NOW: Final = "now"
"""The name of this tree among releases."""
PACKAGES = ("penstock", "raft", "metadata", "storage", "broker")
"""The folders of a tree that a process imports."""
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

    def call(self, script: str, *arguments: str) -> dict[str, Any]:
        """The answer of a client process that does one thing."""
        done = subprocess.run(
            client_command(script, *arguments),
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{script} of {self.name} ended with code {done.returncode}:\n{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def release(name: str, directory: Path) -> Release:
    """This tree by NOW, one of COMMITS unpacked below the directory, or the tree at a path."""
    tree = HERE if name == NOW else unpacked(name, directory / name) if name in COMMITS else Path(name).resolve()
    found = Release(name, tree)
    found.require()
    return found


def unpacked(version: str, tree: Path, repository: Path = HERE) -> Path:
    """The tree of a release, written there if it is not; ValueError where the history does not have it."""
    if tree.exists():
        return tree
    command = ["git", "-C", str(repository), "archive", "--format=tar", COMMITS[version], *PACKAGES]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (subprocess.CalledProcessError, OSError):
        raise ValueError(
            f"the history at {repository} does not have commit {COMMITS[version][:12]}, which is release {version}:"
            " play this in a clone of the repository, and a whole one (`git fetch --unshallow`)"
        ) from None
    tree.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    # Else each of its first processes would compile every module, all at once.
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree)], check=False, stdout=subprocess.DEVNULL)
    return tree


class RunningClient:
    """A client process that works until it is told to end, and what it wrote: a JSON line for each record.

    `script` is one of `clients/`, the first argument its role."""

    def __init__(
        self,
        release: Release,
        script: str,
        directory: Path,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.release, self.name = release, f"{script}-{arguments[0]}-{release.name}".replace("/", "_")
        self._out = directory / f"{self.name}.jsonl"
        self._errors = self._out.with_suffix(".err")
        environ = {**release.environ(), **(variables or {})}
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                client_command(script, *arguments), env=environ, stdin=subprocess.PIPE, stdout=out, stderr=errors
            )

    def lines(self) -> list[Any]:
        """The lines so far; the last one may be half written."""
        whole = self._out.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def end(self) -> list[Any]:
        """Tells it to end, waits, and returns its lines; RuntimeError where it failed or complained."""
        self.begin_end()
        code = self._process.wait(END_TIMEOUT_S)
        complaints = self._errors.read_text(errors="replace")
        if code or "Traceback" in complaints:
            raise RuntimeError(f"{self.name} ended with code {code}:\n{complaints[-4000:]}")
        return self.lines()

    def require_alive(self) -> None:
        """RuntimeError where it has ended by itself."""
        if (code := self._process.poll()) is not None:
            complaints = self._errors.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{self.name} ended by itself with code {code}:\n{complaints}")

    def begin_end(self) -> None:
        """Tells it to end; `end` waits for it."""
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        stdin.close()

    def kill(self) -> None:
        """Ends it at once; no error if it has ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def client_command(script: str, *arguments: str) -> list[str]:
    """The command of a client: the tree that it imports from is in its environment."""
    return [sys.executable, str(CLIENTS / f"{script}.py"), *arguments]
