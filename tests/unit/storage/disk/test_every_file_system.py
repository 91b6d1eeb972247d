"""Every file system keeps the promises of `storage.disk.file_system.FileSystem`: the machine's, and those of tests.

What each does besides (losing bytes, failing, being cold) has tests of its own, and is off here.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.disk.file_system import FileSystem, OsFileSystem, remove_tree
from storage.tools.recorded import RecordedFileSystem
from tests.support.cold_fs import ColdFileSystem
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.losing_fs import LosingFileSystem


class Place:
    """A file system and an empty directory in it."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self.fs, self.directory = fs, directory

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def file(self, name: str, content: bytes = b"") -> int:
        """A new file; its descriptor."""
        fd = self.fs.open(self.path(name), create=True)
        if content:
            assert self.fs.pwritev(fd, [content], 0) == len(content)
        return fd


@pytest.fixture(params=["machine", "faulty", "recorded", "losing", "cold"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "machine":
            return Place(OsFileSystem(), str(tmp_path))
        case "faulty":
            return Place(FaultyFileSystem(), str(tmp_path))
        case "recorded":
            return Place(RecordedFileSystem(OsFileSystem(), lambda count: None), str(tmp_path))
        case _:
            fs = ColdFileSystem() if request.param == "cold" else LosingFileSystem()
            fs.mkdir("/d")
            return Place(fs, "/d")


def errno_of(call: Callable[[], object]) -> int | None:
    """The errno of the error that the call raises."""
    try:
        call()
    except OSError as error:
        return error.errno
    return None


def test_what_is_written_is_read(place: Place) -> None:
    fs, fd = place.fs, place.file("f")
    assert fs.pwritev(fd, [b"ab", bytearray(b"cd"), memoryview(b"ef")], 0) == 6
    assert fs.pread(fd, 100, 0) == b"abcdef"
    assert fs.pread(fd, 2, 3) == b"de"
    assert fs.pread(fd, 10, 6) == b""
    assert fs.size(place.path("f")) == 6
    fs.close(fd)
    assert fs.read_file(place.path("f")) == b"abcdef"


def test_a_write_in_the_middle_changes_no_more_than_that(place: Place) -> None:
    fd = place.file("f", b"abcdef")
    place.fs.pwritev(fd, [b"XY"], 2)
    assert place.fs.pread(fd, 10, 0) == b"abXYef"


def test_a_write_behind_the_end_leaves_zeros_between(place: Place) -> None:
    fd = place.file("f", b"ab")
    place.fs.pwritev(fd, [b"z"], 4)
    assert place.fs.pread(fd, 10, 0) == b"ab\0\0z"


def test_a_file_is_cut_and_grows_again(place: Place) -> None:
    fd = place.file("f", b"abcdef")
    place.fs.truncate(fd, 2)
    assert place.fs.size(place.path("f")) == 2
    place.fs.truncate(fd, 4)
    assert place.fs.pread(fd, 10, 0) == b"ab\0\0"


def test_a_read_that_does_not_wait_finds_what_was_just_written(place: Place) -> None:
    fd = place.file("f", b"abc")
    assert place.fs.pread_nowait(fd, 10, 1) in (b"bc", None)


def test_a_second_descriptor_outlives_the_first(place: Place) -> None:
    fs, fd = place.fs, place.file("f", b"abc")
    other = fs.dup(fd)
    fs.close(fd)
    assert fs.pread(other, 10, 0) == b"abc"
    fs.fdatasync(other)
    fs.drop_cache(other, 0)
    fs.close(other)
    assert errno_of(lambda: fs.pread(other, 1, 0)) == errno.EBADF


def test_a_name_is_created_once(place: Place) -> None:
    place.file("f")
    with pytest.raises(FileExistsError):
        place.file("f")


def test_what_is_not_there_cannot_be_opened_read_measured_or_removed(place: Place) -> None:
    fs, gone = place.fs, place.path("gone")
    for ask in (fs.open, fs.read_file, fs.size, fs.modified_ms, fs.unlink, fs.listdir, fs.entries, fs.rmdir):
        with pytest.raises(FileNotFoundError):
            ask(gone)
    with pytest.raises(FileNotFoundError):
        fs.rename(gone, place.path("new"))
    assert not fs.exists(gone)
    assert not fs.is_directory(gone)


def test_a_rename_replaces_the_target_and_keeps_descriptors(place: Place) -> None:
    fs, fd = place.fs, place.file("new", b"new")
    fs.close(place.file("old", b"old"))
    fs.rename(place.path("new"), place.path("old"))
    assert fs.read_file(place.path("old")) == b"new"
    assert not fs.exists(place.path("new"))
    fs.pwritev(fd, [b"NEW"], 0)
    assert fs.read_file(place.path("old")) == b"NEW"


def test_an_unlinked_file_lives_while_it_is_open(place: Place) -> None:
    fs, fd = place.fs, place.file("f", b"abc")
    fs.unlink(place.path("f"))
    assert not fs.exists(place.path("f"))
    assert fs.pread(fd, 10, 0) == b"abc"


def test_a_directory_says_what_is_in_it_in_order(place: Place) -> None:
    fs = place.fs
    for name in ("b", "a"):
        fs.close(place.file(name))
    fs.mkdir(place.path("c"))
    assert fs.listdir(place.directory) == ["a", "b", "c"]
    assert fs.entries(place.directory) == {"a": False, "b": False, "c": True}
    assert fs.is_directory(place.path("c")) and not fs.is_directory(place.path("a"))
    fs.fsync_dir(place.directory)


def test_a_directory_that_holds_something_is_not_removed(place: Place) -> None:
    fs = place.fs
    fs.mkdir(place.path("c"))
    fs.close(place.file("c/f"))
    assert errno_of(lambda: fs.rmdir(place.path("c"))) == errno.ENOTEMPTY
    remove_tree(fs, place.path("c"))
    assert not fs.exists(place.path("c"))


def test_a_directory_is_made_once_and_only_in_one_that_is_there(place: Place) -> None:
    place.fs.mkdir(place.path("c"))
    with pytest.raises(FileExistsError):
        place.fs.mkdir(place.path("c"))
    with pytest.raises(FileNotFoundError):
        place.fs.mkdir(place.path("x/y"))


def test_a_directory_moves_with_everything_in_it(place: Place) -> None:
    fs = place.fs
    fs.mkdir(place.path("c"))
    fs.close(place.file("c/f", b"abc"))
    fs.rename(place.path("c"), place.path("d"))
    assert fs.read_file(place.path("d/f")) == b"abc"


def test_a_lock_has_one_holder_until_its_descriptor_is_closed(place: Place) -> None:
    fs, path = place.fs, place.path(".lock")
    fd = fs.lock(path)
    with pytest.raises(BlockingIOError):
        fs.lock(path)
    fs.close(fd)
    fs.close(fs.lock(path))
