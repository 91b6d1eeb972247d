"""The file system on which nothing happens: what is changed is seen through it, and only through it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.disk.atomic_file import write_atomically
from storage.disk.file_system import OsFileSystem, remove_tree
from storage.tools.overlay import OverlayFileSystem
from storage.tools.recorded import Change, RecordedFileSystem
from tests.support.log_dirs import contents


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"b")
    return tmp_path


def test_changes_are_seen_and_do_not_happen(directory: Path) -> None:
    fs, before = OverlayFileSystem(), contents(directory)
    fd = fs.open(f"{directory}/a")
    fs.truncate(fd, 4)
    fs.rename(f"{directory}/a", f"{directory}/c")
    fs.unlink(f"{directory}/b")
    new = fs.open(f"{directory}/n", create=True)
    fs.pwritev(new, [b"new", b"er"], 0)
    assert fs.listdir(str(directory)) == ["c", "n"] and fs.entries(str(directory)) == {"c": False, "n": False}
    assert fs.read_file(f"{directory}/c") == b"0123" == fs.pread(fd, 100, 0)
    assert (fs.pread(fd, 2, 3), fs.pread(fd, 2, 9)) == (b"3", b"")
    assert fs.read_file(f"{directory}/n") == b"newer" and fs.size(f"{directory}/n") == 5
    assert not fs.exists(f"{directory}/a") and fs.exists(f"{directory}/c")
    with pytest.raises(FileNotFoundError):
        fs.size(f"{directory}/b")
    with pytest.raises(FileExistsError):
        fs.open(f"{directory}/n", create=True)
    for held in (fd, new):
        fs.close(held)
    assert contents(directory) == before


def test_a_file_of_the_machine_is_never_written_into(directory: Path) -> None:
    fs = OverlayFileSystem()
    fd = fs.open(f"{directory}/a")
    with pytest.raises(OSError) as refused:
        fs.pwritev(fd, [b"x"], 0)
    assert refused.value.errno == errno.EROFS
    fs.close(fd)


def test_a_tree_is_removed(directory: Path) -> None:
    (directory / "d" / "e").mkdir(parents=True)
    (directory / "d" / "e" / "f").touch()
    fs = OverlayFileSystem()
    remove_tree(fs, f"{directory}/d")
    assert not fs.exists(f"{directory}/d") and not fs.is_directory(f"{directory}/d")
    assert fs.listdir(str(directory)) == ["a", "b"]
    assert (directory / "d" / "e" / "f").exists()


def test_the_lock_is_real(directory: Path) -> None:
    fs, path = OverlayFileSystem(), f"{directory}/.lock"
    fs.close(fs.lock(path))
    assert not (directory / ".lock").exists(), "without the file nobody can hold it"
    held = OsFileSystem().lock(path)
    with pytest.raises(BlockingIOError):
        fs.lock(path)
    OsFileSystem().close(held)
    mine = fs.lock(path)
    with pytest.raises(BlockingIOError):
        OsFileSystem().lock(path)
    fs.close(mine)


@pytest.mark.parametrize("inner", [OsFileSystem, OverlayFileSystem])
def test_what_changes_is_recorded_in_order(
    directory: Path, inner: type[OsFileSystem] | type[OverlayFileSystem]
) -> None:
    read: list[int] = []
    fs = RecordedFileSystem(inner(), read.append)
    fd = fs.open(f"{directory}/a")
    assert fs.pread(fd, 3, 0) == b"012"
    fs.truncate(fd, 4)
    fs.truncate(fd, 4)
    fs.close(fd)
    write_atomically(fs, f"{directory}/small", b"12345")
    fs.rename(f"{directory}/a", f"{directory}/c")
    fs.unlink(f"{directory}/b")
    fs.close(fs.open(f"{directory}/empty", create=True))
    assert fs.take_changes() == [
        Change("cut", f"{directory}/a", 6),
        Change("written", f"{directory}/small", 5),
        Change("renamed", f"{directory}/a", 4, f"{directory}/c"),
        Change("removed", f"{directory}/b", 1),
        Change("created", f"{directory}/empty", 0),
    ]
    assert fs.take_changes() == [] and read == [3]
