"""A power cut takes what was not synced, and nothing else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.support.power_disk import power_disk

SIZE_BYTES = 1024 * 1024


def test_a_disk_has_after_a_power_cut_what_was_synced_and_takes_nothing_between(tmp_path: Path) -> None:
    with power_disk(tmp_path / "disk", SIZE_BYTES) as disk:
        path = disk.mount_point / "file"
        with path.open("wb", buffering=0) as file:
            file.write(b"synced")
            os.fsync(file.fileno())
            _sync(disk.mount_point)
            file.write(b", not synced")
            (disk.mount_point / "other").write_bytes(b"not synced")
            assert path.read_bytes() == b"synced, not synced"
            disk.cut()
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                os.fsync(file.fileno())
        disk.restore()
        assert path.read_bytes() == b"synced" and not (disk.mount_point / "other").exists()
        path.write_bytes(b"again")
        disk.sync()
        disk.cut()
        disk.restore()
        assert path.read_bytes() == b"again"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
