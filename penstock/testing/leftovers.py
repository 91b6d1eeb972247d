"""Temporary directories of clusters, and the sweep of those whose process is gone.

A process that is killed, or ended by SIGTERM, removes nothing. So each directory has a file that its process holds
locked as long as it lives, and the process that makes the next directory removes those that nobody holds. A forked
child holds it with its parent. A directory without the file is not ours, or is being made: it stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "penstock-"
OWNER = ".in-use"

_held: dict[Path, int] = {}


def new_directory() -> Path:
    """A new temporary directory, held until `remove` or the end of this process."""
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    unlocked = directory / f"{OWNER}.new"
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unlocked.rename(directory / OWNER)  # AFTER it is locked: a sweep takes what is not
    _held[directory] = descriptor
    return directory


def remove(directory: Path) -> None:
    """Removes the directory; one that was not made here, too."""
    shutil.rmtree(directory, ignore_errors=True)
    descriptor = _held.pop(directory, None)
    if descriptor is not None:
        os.close(descriptor)


def sweep() -> None:
    """Removes what processes left behind that ended without a word. Never fails."""
    for directory in _ours():
        with contextlib.suppress(OSError):
            descriptor = os.open(directory / OWNER, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(descriptor)


def _ours() -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if directory.stat().st_uid == os.getuid() and not directory.is_symlink():
                    yield directory
