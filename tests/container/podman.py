"""Podman with a store of its own, so that no image or container of this machine is touched.

`containers` runs containers in the network of the machine, each with a read-only root, as the image's user, without a
capability, and with the open files that this process may have. All of them are gone when the context ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NEEDS = ("podman", "runc", "buildah", "mmdebstrap", "dpkg-deb")
COMMAND_S = 300.0
OPEN_FILES, PROCESSES = 1_024, 1_024
"""Limits that a container within a container may set, too."""


def missing() -> list[str]:
    """The reasons why no container can be run here."""
    found = [program for program in NEEDS if shutil.which(program) is None]
    return found + (["root"] if os.geteuid() else [])


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return (self.err or self.out).strip().rpartition("\n")[2]


@dataclass(frozen=True, slots=True)
class Podman:
    """The command, and its store."""

    store: Path
    state: Path
    driver: str

    @property
    def storage(self) -> tuple[str, ...]:
        return ("--root", str(self.store), "--runroot", str(self.state), "--storage-driver", self.driver)

    def do(self, *arguments: str) -> Done:
        """Runs it; whatever it ends with."""
        command = ["podman", *self.storage, "--runtime", "runc", "--cgroup-manager", "cgroupfs", *arguments]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def must(self, *arguments: str) -> str:
        """The output of a command that has to succeed."""
        done = self.do(*arguments)
        if done.code:
            raise RuntimeError(f"podman {' '.join(arguments)}: exit code {done.code}: {done.err.strip()[-500:]}")
        return done.out.strip()

    def run(
        self,
        image: str,
        variables: Mapping[str, str] = {},
        *command: str,
        name: str = "",
        volume: str = "",
        options: Sequence[str] = (),
    ) -> Done:
        """A new container; in the background if it has a name."""
        way = ["--detach", "--name", name] if name else ["--rm"]
        mounts = ["--volume", f"{volume}:/var/lib/penstock"] if volume else []
        return self.do("run", *way, *_confined(), *mounts, *_set(variables), *options, image, *command)

    def pid(self, name: str) -> int:
        """The process 1 of a container, as this machine numbers it."""
        return int(self.must("inspect", "--format", "{{.State.Pid}}", name))

    def exit_code(self, name: str) -> int:
        return int(self.must("wait", name))

    def config(self, image: str) -> dict[str, object]:
        """The image's own configuration."""
        found: dict[str, object] = json.loads(self.must("image", "inspect", image))[0]["Config"]
        return found


@contextmanager
def containers(podman: Podman) -> Iterator[Podman]:
    try:
        yield podman
    finally:
        podman.do("rm", "--all", "--force", "--time", "0", "--volumes")
        podman.do("volume", "rm", "--all", "--force")


def _confined() -> list[str]:
    limits = [f"nofile={OPEN_FILES}:{OPEN_FILES}", f"nproc={PROCESSES}:{PROCESSES}"]
    closed = ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
    return ["--network", "host", *closed, *(part for limit in limits for part in ("--ulimit", limit))]


def _set(variables: Mapping[str, str]) -> list[str]:
    return [part for name, text in variables.items() for part in ("--env", f"{name}={text}")]
