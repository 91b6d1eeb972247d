"""A small disk of one's own: a tmpfs of some megabytes, mounted for a test, that can be full and can be read-only.

Needs the right to mount, which root has and CI too; elsewhere the test is skipped, and says so. As tmpfs has no fsync
to speak of, what survives a power cut is not to be learnt here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(mount_point: Path, size_bytes: int) -> Iterator[Path]:
    """An empty disk at `mount_point`, gone afterwards, also when somebody still uses it."""
    mount_point.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(mount_point)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here, which takes root: {done.stderr.strip()}")
    try:
        yield mount_point
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


def make_read_only(mount_point: Path) -> None:
    """Fails while somebody has a file open for writing, as every mount does."""
    subprocess.run(["mount", "-o", "remount,ro", str(mount_point)], check=True)


def fill(path: Path, leave_bytes: int = 0) -> None:
    """A ballast file that takes the room but for so much; without a number, all of it."""
    found = os.statvfs(path.parent)
    with path.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        for _ in range(found.f_bavail - leave_bytes // found.f_frsize):
            ballast.write(bytes(found.f_frsize))
