"""Promises of reads that do not wait, on the machine's own file systems: the page cache is told from the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage.disk.atomic_file import write_atomically
from storage.disk.file_system import VIEW_BYTES_MIN, OsFileSystem

BYTES = 64 * 1024
DROPS_MAX = 1_000


@contextmanager
def opened(path: Path, content: bytes) -> Iterator[tuple[OsFileSystem, int]]:
    """A file on the disk."""
    fs = OsFileSystem()
    fd = fs.open(str(path), create=True)
    try:
        fs.pwritev(fd, [content], 0)
        fs.fdatasync(fd)
        yield fs, fd
    finally:
        fs.close(fd)


def dropped(fs: OsFileSystem, fd: int) -> None:
    """Nothing of the file is in the page cache any more; skips where the file system does not know of one.

    The kernel keeps pages that it is busy with, so the cache is dropped until the first page is really gone.
    """
    try:
        os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # what asks reads nothing ahead
        for _ in range(DROPS_MAX):
            fs.drop_cache(fd, 0)
            os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NORMAL)
        fs.drop_cache(fd, 0)
    except OSError as error:
        pytest.skip(f"this file system cannot tell: {error}")


def test_what_is_in_the_page_cache_is_read_without_waiting(tmp_path: Path) -> None:
    content = os.urandom(BYTES)
    with opened(tmp_path / "file", content) as (fs, fd):
        assert fs.pread_nowait(fd, BYTES, 0) == content
        assert fs.pread_nowait(fd, 100, 7) == content[7:107]


def test_many_bytes_are_handed_out_without_a_copy_and_nobody_can_change_them(tmp_path: Path) -> None:
    content = os.urandom(VIEW_BYTES_MIN)
    with opened(tmp_path / "file", content) as (fs, fd):
        found = fs.pread_nowait(fd, VIEW_BYTES_MIN + 1, 0)
        assert isinstance(found, memoryview) and found.readonly and found == content
        assert isinstance(fs.pread_nowait(fd, VIEW_BYTES_MIN - 1, 0), bytes)


def test_a_read_behind_the_end_of_the_file_is_short(tmp_path: Path) -> None:
    with opened(tmp_path / "file", b"abc") as (fs, fd):
        assert fs.pread_nowait(fd, 10, 1) == b"bc"
        assert fs.pread_nowait(fd, 10, 3) == b""


def test_what_only_the_disk_has_is_not_read(tmp_path: Path) -> None:
    content = os.urandom(BYTES)
    with opened(tmp_path / "file", content) as (fs, fd):
        for _ in range(100):  # another processor may hold pages that were written a moment ago
            dropped(fs, fd)
            if (found := fs.pread_nowait(fd, BYTES, 0)) is None:
                break
        assert found is None  # the kernel begins to read it then
        assert fs.pread(fd, BYTES, 0) == content
        assert fs.pread_nowait(fd, BYTES, 0) == content


def test_a_read_ends_where_the_page_cache_does(tmp_path: Path) -> None:
    content = os.urandom(64 * BYTES)
    with opened(tmp_path / "file", content) as (fs, fd):
        for _ in range(100):  # another processor may hold pages that were written a moment ago
            dropped(fs, fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # the kernel reads nothing ahead
            assert fs.pread(fd, 1, 0) == content[:1]
            found = fs.pread_nowait(fd, len(content), 0)
            assert found is not None and found == content[: len(found)]
            if len(found) < len(content):
                break
        assert 0 < len(found) < len(content)


def test_a_file_system_that_cannot_tell_reads_at_once() -> None:
    directory = Path("/dev/shm")
    if not os.access(directory, os.W_OK):
        pytest.skip("no tmpfs here")
    path = directory / f"penstock-test-{os.getpid()}"
    try:
        with opened(path, b"abc") as (fs, fd):
            assert fs.pread_nowait(fd, 3, 0) == b"abc"
    finally:
        path.unlink(missing_ok=True)


def test_new_files_are_their_owners_alone(tmp_path: Path) -> None:
    fs = OsFileSystem()
    fs.close(fs.open(f"{tmp_path}/log", create=True))
    write_atomically(fs, f"{tmp_path}/bootstrap-users", b"{}")
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ("log", "bootstrap-users"), 0o600
    )
