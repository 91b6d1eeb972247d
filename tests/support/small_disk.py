"""A small disk of one's own: a tmpfs of some megabytes, mounted for a test, that can be full and can be read-only.

Needs the right to mount, which root and CI have; elsewhere the test is skipped, with the reason. fsync does nothing on
a tmpfs. With PENSTOCK_SMALL_DISK=ext4 the same tests run on a loop image of a journalling file system, which delays its
allocations. Power cuts are power_disk.py's.

A process of its own mounts the disk, and unmounts it when its standard input ends. So the disk is removed with the test
run, even if that is killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

KEEPER = """
trap '' HUP INT TERM PIPE
point=$1
shift
mount "$@" "$point" || exit
echo mounted
read -r _
umount --lazy "$point"
"""
EXT4_OWN_BYTES = 6 * 1024 * 1024
"""The room that the file system takes for itself, the journal most of it."""


@contextmanager
def small_disk(mount_point: Path, size_bytes: int) -> Iterator[Path]:
    """An empty disk at `mount_point`, gone afterwards, also when somebody still uses it."""
    if os.environ.get("PENSTOCK_SMALL_DISK") == "ext4":
        source = ["-o", "loop", str(ext4_image(mount_point.with_suffix(".img"), size_bytes + EXT4_OWN_BYTES))]
    else:
        source = ["-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs"]
    with mounted(mount_point, source):
        yield mount_point


@contextmanager
def mounted(mount_point: Path, source: Sequence[str]) -> Iterator[None]:
    """Something is mounted at `mount_point`, a new directory, by these arguments of mount; not any more afterwards."""
    mount_point.mkdir(parents=True)
    keeper = subprocess.Popen(
        ["sh", "-c", KEEPER, "sh", str(mount_point), *source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # what is sent to the test run's group does not end it
    )
    assert keeper.stdout is not None
    if not keeper.stdout.readline():
        _skip("mount", keeper.communicate()[1])
    try:
        yield
    finally:
        said = keeper.communicate()[1]
        assert keeper.returncode == 0, f"{mount_point} is still mounted: {said}"


def ext4_image(path: Path, size_bytes: int) -> Path:
    """A new file that holds an empty ext4, and takes room as it is used."""
    with path.open("wb") as image:
        image.truncate(size_bytes)
    _run_or_skip("mkfs.ext4", "-q", "-m", "0", str(path))
    return path


def _run_or_skip(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"there is no {command[0]} here")
    if done.returncode != 0:
        _skip(command[0], done.stderr)


def _skip(command: str, said: str) -> NoReturn:
    pytest.skip(f"{command} is not possible here, it takes root: {said.strip()}")


def make_read_only(mount_point: Path) -> None:
    """Fails while somebody has a file open for writing, as every mount does."""
    subprocess.run(["mount", "-o", "remount,ro", str(mount_point)], check=True)


def fill(path: Path, leave_bytes: int = 0) -> None:
    """A ballast file that takes the room but for so much; without a number, all of it."""
    found = os.statvfs(path.parent)
    with path.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        for _ in range(found.f_bavail - leave_bytes // found.f_frsize):
            ballast.write(bytes(found.f_frsize))
