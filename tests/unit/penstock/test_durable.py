"""Promises of the sync of a file: the strongest that the system has, and no error of a disk is taken for another."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from penstock.durable import sync_all, sync_data


class Calls:
    """Records the calls in order; F_FULLFSYNC fails with `code` if there is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, full: bool, code: int = 0) -> None:
        self.names: list[str] = []
        self.code = code
        if full:
            monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
            monkeypatch.setattr(fcntl, "fcntl", self.fcntl)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, lambda fd, name=name: self.names.append(name), raising=False)

    def fcntl(self, fd: int, command: int) -> int:
        self.names.append(f"fcntl {command}")
        if self.code:
            raise OSError(self.code, os.strerror(self.code))
        return 0


def test_linux_syncs_data_by_fdatasync_and_names_by_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, full=False)
    sync_data(3)
    sync_all(3)
    assert calls.names == ["fdatasync", "fsync"]


def test_without_fdatasync_all_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, full=False)
    monkeypatch.delattr(os, "fdatasync")
    sync_data(3)
    assert calls.names == ["fsync"]


@pytest.mark.parametrize("sync", [sync_data, sync_all])
def test_macos_has_its_drive_flush_its_cache(monkeypatch: pytest.MonkeyPatch, sync: object) -> None:
    calls = Calls(monkeypatch, full=True)
    assert callable(sync)
    sync(3)
    assert calls.names == ["fcntl 51"]


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOTTY, errno.EINVAL])
def test_a_file_system_that_does_not_know_that_gets_fsync(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    calls = Calls(monkeypatch, full=True, code=code)
    sync_data(3)
    assert calls.names == ["fcntl 51", "fsync"]


def test_an_error_of_the_disk_is_no_reason_to_try_another_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(monkeypatch, full=True, code=errno.EIO)
    with pytest.raises(OSError):
        sync_data(3)
    assert calls.names == ["fcntl 51"]
