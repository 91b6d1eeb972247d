"""A disk whose power can be cut: an ext4 in an image file, mounted by a loop device.

    with power_disk(tmp_path / "disk", 64 * MIB) as disk:
        …                  # somebody writes below disk.mount_point
        disk.cut()         # from now on nothing reaches the disk, and every call that needs it fails with EIO
        …                  # whoever has files open there has to end
        disk.restore()     # mounted again: the journal is replayed, and what was not synced is gone

`cut` shuts the file system down without writing anything more, not even its journal (EXT4_IOC_SHUTDOWN; the tests of
Linux' own file systems cut power so). What the image file has then is what a disk without a cache of its own has after
a power cut: all that was synced, and of the rest what the kernel happened to have written. A writer that must not
notice is stopped first. Not here: a disk that loses what it has taken but not flushed (losing_fs.py has that).

It takes root, loop devices and mkfs.ext4; elsewhere the test is skipped, with the reason.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.small_disk import EXT4_OWN_BYTES, ext4_image, mounted
from tests.support.waiting import wait_until

EXT4_IOC_SHUTDOWN = 0x8004587D
"""_IOR('X', 125, __u32), in Linux' include/uapi/linux/ext4.h."""
NOLOGFLUSH = (2).to_bytes(4, "little")
UNMOUNT_TIMEOUT_S = 60.0
PROBE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PowerDisk:
    """One disk, mounted."""

    mount_point: Path
    image: Path

    def sync(self) -> None:
        """All that was written until now outlives a cut."""
        subprocess.run(["sync", "--file-system", str(self.mount_point)], check=True)

    def cut(self) -> None:
        """Nothing is written any more; OSError where the file system cannot be shut down."""
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, NOLOGFLUSH)
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """The disk as it is found when the power comes back; TimeoutError while somebody has a file open there."""
        wait_until(lambda: not _run("umount", str(self.mount_point)).returncode, UNMOUNT_TIMEOUT_S)
        done = _run("mount", *_source(self.image), str(self.mount_point))
        if done.returncode:
            raise OSError(f"{self.image} cannot be mounted again: {done.stderr.strip()}")


@contextmanager
def power_disk(mount_point: Path, size_bytes: int) -> Iterator[PowerDisk]:
    """An empty disk at `mount_point`, unmounted afterwards; the image stays beside it, as `.img`."""
    mount_point.parent.mkdir(parents=True, exist_ok=True)
    image = ext4_image(mount_point.with_name(mount_point.name + ".img"), size_bytes + EXT4_OWN_BYTES)
    with mounted(mount_point, _source(image)):
        yield PowerDisk(mount_point, image)


def why_no_power_cut() -> str | None:
    """Why no power can be cut here; None if it can."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            with power_disk(Path(directory) / "probe", PROBE_BYTES) as disk:
                disk.cut()
                disk.restore()
        except pytest.skip.Exception as skipped:
            return str(skipped)
        except OSError as error:
            return str(error)
    return None


def _source(image: Path) -> list[str]:
    return ["-o", "loop", str(image)]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
