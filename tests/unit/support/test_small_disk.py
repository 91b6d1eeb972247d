"""A small disk is gone after its test, however that ends."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_disk import small_disk

ROOT = Path(__file__).parents[3]
SIZE_BYTES = 1024 * 1024
UNMOUNT_MS_MAX = 30_000
USES_A_DISK = """
import sys
from pathlib import Path
from tests.support.small_disk import small_disk

with small_disk(Path(sys.argv[1]), 1024 * 1024) as disk:
    (disk / "file").write_bytes(b"x")
    print("mounted", flush=True)
    sys.stdin.read()
"""


def wait_unmounted(mount_point: Path) -> None:
    """The kernel tells of every change of /proc/mounts."""
    with open("/proc/self/mounts") as mounts:
        changes = select.poll()
        changes.register(mounts, select.POLLPRI)
        while mount_point.is_mount():
            assert changes.poll(UNMOUNT_MS_MAX), f"{mount_point} is still mounted"
            mounts.seek(0)
            mounts.read()


def test_a_disk_is_unmounted_when_its_test_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), small_disk(tmp_path / "disk", SIZE_BYTES) as disk:
        assert disk.is_mount()
        1 / 0  # noqa: B018
    assert not (tmp_path / "disk").is_mount()


def test_a_disk_is_unmounted_when_its_test_run_is_killed(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    command = [sys.executable, "-c", USES_A_DISK, str(disk)]
    run = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    is_mounted = run.stdout.readline() == b"mounted\n"
    run.kill()
    said = run.communicate()[1].decode()
    if "it takes root" in said or "there is no" in said:
        pytest.skip(said.splitlines()[-1])
    assert is_mounted, said
    wait_unmounted(disk)
