"""Promises of the room that is kept back for checkpoints: a full disk takes them, whatever else fills it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest

from penstock.types import TopicPartition
from storage.disk.checkpoint_file import read_offsets
from storage.disk.checkpoint_reserve import RESERVE_BYTES, CheckpointReserve
from storage.disk.file_names import CHECKPOINT_RESERVE, LOG_START_CHECKPOINT
from storage.disk.file_system import Bytes
from storage.log_dirs.log_directory import LogDirectory
from tests.support.filling_fs import FillingFileSystem
from tests.support.losing_fs import Crashed
from tests.support.machine import THREADS

TP = TopicPartition("orders", 0)
PATH = f"/d/{LOG_START_CHECKPOINT}"
RESERVE = f"/d/{CHECKPOINT_RESERVE}"


class NeverInPlace(FillingFileSystem):
    """Bytes are never written over, as with copy on write on a disk that is full."""

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        if at == 0 and self._held(fd).data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwritev(fd, buffers, at)


def directory_on(fs: FillingFileSystem) -> LogDirectory:
    fs.mkdir("/d")
    fs.fsync_dir("/")
    return LogDirectory(fs, "/d", THREADS)


def put(directory: LogDirectory, offset: int, partition: TopicPartition = TP) -> None:
    directory.checkpoint_log_starts(lambda: {partition: offset}, tuple)


@pytest.mark.parametrize("kind", [FillingFileSystem, NeverInPlace])
def test_a_checkpoint_that_finds_no_room_is_written_from_the_reserve(kind: type[FillingFileSystem]) -> None:
    fs = kind()
    directory = directory_on(fs)
    put(directory, 5)
    assert fs.size(RESERVE) == RESERVE_BYTES
    fs.fill()
    put(directory, 7)
    assert read_offsets(fs.after_crash(), PATH) == {TP: 7}


class Foreign(FillingFileSystem):
    """From some time on, the reserve is a file that this process may not write, or no file at all."""

    error: type[OSError] | None = None

    def open(self, path: str, *, create: bool = False) -> int:
        self._must_be_ours(path)
        return super().open(path, create=create)

    def unlink(self, path: str) -> None:
        self._must_be_ours(path)
        super().unlink(path)

    def _must_be_ours(self, path: str) -> None:
        if path == RESERVE and self.error is not None:
            raise self.error(errno.EACCES, path)


@pytest.mark.parametrize("error", [PermissionError, IsADirectoryError])
def test_a_reserve_that_cannot_be_used_is_a_full_disk_and_no_broken_one(error: type[OSError]) -> None:
    fs = Foreign()
    directory = directory_on(fs)
    put(directory, 5)
    fs.error = error
    fs.fill()
    with pytest.raises(OSError) as raised:
        put(directory, 7)
    assert raised.value.errno == errno.ENOSPC, "any other error would end the service of the log dir"


def test_checkpoints_go_on_while_the_disk_stays_full() -> None:
    """The room of the checkpoint that was replaced is the next reserve."""
    fs = FillingFileSystem()
    directory = directory_on(fs)
    put(directory, 1)
    fs.fill()
    for offset in range(2, 20):
        put(directory, offset)
        fs.fill()  # others take what the reserve leaves
        assert read_offsets(fs.after_crash(), PATH) == {TP: offset}


def test_a_nearly_full_disk_has_a_small_reserve_until_there_is_room() -> None:
    fs = FillingFileSystem()
    fs.fill(leave_bytes=1_000)
    directory = directory_on(fs)
    assert 0 < fs.size(RESERVE) < 1_000
    fs.size_bytes += RESERVE_BYTES
    put(directory, 3)
    assert fs.size(RESERVE) == RESERVE_BYTES


def test_a_large_checkpoint_has_a_large_reserve() -> None:
    fs = FillingFileSystem()
    directory = directory_on(fs)
    many = {TopicPartition("orders", number): 10**15 for number in range(5_000)}
    directory.checkpoint_log_starts(lambda: many, tuple)
    assert fs.size(RESERVE) >= fs.size(PATH) > RESERVE_BYTES
    fs.fill()
    many[TP] = 10**16
    directory.checkpoint_log_starts(lambda: many, tuple)
    assert read_offsets(fs.after_crash(), PATH) == many


def test_without_a_reserve_the_error_is_the_disks_and_the_old_checkpoint_stays() -> None:
    fs = FillingFileSystem()
    directory = directory_on(fs)
    put(directory, 5)
    fs.unlink(RESERVE)  # an operator who looked for room
    fs.fill()
    for _ in range(2):
        with pytest.raises(OSError) as raised:
            put(directory, 7)
        assert raised.value.errno == errno.ENOSPC
    assert read_offsets(fs.after_crash(), PATH) == {TP: 5}
    fs.size_bytes += RESERVE_BYTES * 2
    put(directory, 7)
    assert fs.size(RESERVE) == RESERVE_BYTES


def test_a_disk_without_room_for_it_opens_all_the_same() -> None:
    fs = FillingFileSystem()
    fs.mkdir("/d")
    fs.fill()
    assert LogDirectory(fs, "/d", THREADS).path == "/d"


def test_a_crash_while_the_reserve_is_written_over_leaves_the_old_checkpoint_or_the_new_one() -> None:
    fs = FillingFileSystem()
    directory = directory_on(fs)
    put(directory, 5)
    fs.fill()
    first = fs.operations
    put(directory, 7)
    for at in range(first + 1, fs.operations + 1):
        crashed = FillingFileSystem()
        directory = directory_on(crashed)
        put(directory, 5)
        crashed.fill()
        crashed.crash_at = at
        with pytest.raises(Crashed):
            put(directory, 7)
        for survivor in (crashed.after_crash(), crashed.after_kill(), crashed.after_lucky_crash()):
            assert read_offsets(survivor, PATH) in ({TP: 5}, {TP: 7})
            again = LogDirectory(survivor.clone(), "/d", THREADS)
            put(again, 9)


def test_nothing_is_written_from_the_reserve_once_the_log_dir_is_given_up() -> None:
    fs = FillingFileSystem()
    directory = directory_on(fs)
    put(directory, 5)
    fs.fill()
    directory.close(clean=False, broker_epoch=-1)
    with pytest.raises(OSError):
        put(directory, 7)
    assert read_offsets(fs, PATH) == {TP: 5} and fs.exists(RESERVE)


def test_a_reserve_that_cannot_be_taken_is_said_once_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fs = FillingFileSystem()
    fs.mkdir("/d")
    fs.mkdir(RESERVE)
    reserve = CheckpointReserve(fs, "/d", THREADS)
    for _ in range(3):
        reserve.refill()
    assert len(caplog.records) == 1 and "no room is kept back" in caplog.text
    reserve.write(PATH, b"content")
    assert fs.read_file(PATH) == b"content"
