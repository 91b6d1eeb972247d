"""Loading the logs of a node: in parallel, with progress, and what one bad log means for the others."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

import pytest

from penstock.clock import ManualClock
from penstock.errors import InvariantViolation, KafkaStorageError, PenstockError
from penstock.types import TopicPartition
from storage.log_dirs.log_manager import LoadProgress, LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, batch, open_manager, read_all

TWO = ("/a", "/b")
LOGS = 12


class BadFileSystem(LosingFileSystem):
    """A file system whose files under `bad` cannot be opened."""

    bad: str = "/none"
    error: Callable[[str], BaseException] = staticmethod(lambda path: OSError(errno.EIO, os.strerror(errno.EIO), path))

    def open(self, path: str, *, create: bool = False) -> int:
        if path.startswith(self.bad) and not path.endswith(".lock"):
            raise self.error(path)
        return super().open(path, create=create)


def filled(dirs: tuple[str, ...] = TWO, logs: int = LOGS, clean: bool = False) -> LosingFileSystem:
    """Logs t-0, t-1, … with as many records as their number, spread over the dirs."""
    fs = LosingFileSystem()
    manager = open_manager(fs, dirs)
    for n in range(logs):
        log = manager.get_or_create(TopicPartition("t", n), TOPIC_ID, SMALL)
        for _ in range(n):
            log.append.as_leader(batch(b"x"), 0, NOW_MS)
        log.flush()
    manager.checkpoints.write_recovery_points()
    manager.close(clean)
    return fs


def bad(fs: LosingFileSystem, path: str, error: Callable[[str], BaseException] | None = None) -> BadFileSystem:
    copy = BadFileSystem(fs.root)
    copy.bad = path
    if error is not None:
        copy.error = error
    return copy


def lengths(manager: LogManager) -> dict[int, int]:
    return {log.topic_partition.partition: len(read_all(log)) for log in manager.logs()}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_the_result_does_not_depend_on_the_number_of_threads(threads: int, clean: bool) -> None:
    fs = filled(clean=clean)
    manager = open_manager(fs, TWO, recovery_threads=threads)

    assert lengths(manager) == {n: n for n in range(LOGS)}
    assert [str(log.topic_partition) for log in manager.logs()] == [
        *sorted(f"t-{n}" for n in range(0, LOGS, 2)),
        *sorted(f"t-{n}" for n in range(1, LOGS, 2)),
    ]
    manager.close()


def test_one_thread_is_the_callers() -> None:
    fs = bad(filled(), "/a/t-4", lambda path: OSError(errno.EIO, threading.current_thread().name))
    manager = open_manager(fs, TWO, recovery_threads=1)

    assert threading.current_thread().name in str(manager.table.offline.values()[0].error)


def test_log_dirs_are_loaded_beside_each_other() -> None:
    """Each waits in its first log for the other; one after the other they would wait for ever."""
    both = threading.Barrier(2)

    def meet(path: str) -> BaseException:
        both.wait(timeout=60)
        return OSError(errno.EIO, "met", path)

    fs = bad(filled(logs=2), "/", meet)
    manager = open_manager(fs, TWO, recovery_threads=2)

    assert all("met" in str(offline.error) for offline in manager.table.offline.values())
    assert len(manager.table.offline) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_is_told_for_each_dir_before_the_first_log_and_when_it_is_done(threads: int) -> None:
    heard: list[LoadProgress] = []
    manager = open_manager(filled(), TWO, recovery_threads=threads, progress=heard.append)

    assert sorted((p.log_dir, p.done, p.total, p.was_clean) for p in heard) == [
        ("/a", 0, 6, False),
        ("/a", 6, 6, False),
        ("/b", 0, 6, False),
        ("/b", 6, 6, False),
    ]
    assert sum(p.size_bytes for p in heard) == manager.statistics().size_bytes > 0


def test_progress_is_told_every_second_while_it_lasts() -> None:
    clock = ManualClock()
    heard: list[int] = []

    def slow(path: str) -> BaseException:
        clock.advance(400)
        return OSError(errno.EIO, "slow", path)

    fs = bad(filled(("/a",)), "/a/t-", slow)
    open_manager(fs, ("/a",), clock=clock, recovery_threads=1, progress=lambda p: heard.append(p.done))

    assert heard == [0, 3, 6, 9, 12]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_disk_error_in_one_logs_files_takes_that_log_only(threads: int) -> None:
    manager = open_manager(bad(filled(), "/a/t-4"), TWO, recovery_threads=threads)

    assert list(manager.table.offline.names()) == [TopicPartition("t", 4)]
    (offline,) = manager.table.offline.values()
    assert "/a/t-4: cannot open the log: Input/output error; the disk failed" in str(offline.error)
    assert len(manager.logs()) == LOGS - 1
    manager.checkpoints.write_recovery_points()
    manager.close(False)
    again = open_manager(LosingFileSystem(manager.file_system._fs.root), TWO)  # type: ignore[attr-defined]
    assert lengths(again) == {n: n for n in range(LOGS)}, "the disk answers again, and nothing was lost"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", ["/a/t-4", "/a/meta", "/a"])
def test_no_descriptors_refuse_the_start_with_the_remedy(where: str, threads: int) -> None:
    fs = bad(filled(), where, lambda path: OSError(errno.EMFILE, os.strerror(errno.EMFILE), path))
    if where == "/a/meta":
        fs.bad, fs.fail_on["read_file"] = "/none", errno.EMFILE

    with pytest.raises(PenstockError, match=r"too many open files|Too many open files"):
        open_manager(fs, TWO, recovery_threads=threads)
    assert fs.open_descriptors == 0, "everything was let go"
    fs.bad = "/none"
    fs.fail_on.clear()
    assert len(open_manager(fs, TWO).logs()) == LOGS


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [InvariantViolation("a bug"), MemoryError(), KeyError("a bug")])
def test_what_nobody_expects_is_not_overlooked(error: BaseException, threads: int) -> None:
    fs = bad(filled(), "/a/t-4", lambda path: error)

    with pytest.raises(type(error)):
        open_manager(fs, TWO, recovery_threads=threads)
    assert fs.open_descriptors == 0


def test_a_full_disk_takes_no_log_dir_offline_at_start() -> None:
    fs = filled(("/a",))
    fs.fail_on["create"] = errno.ENOSPC
    manager = open_manager(fs, ("/a",))

    assert (len(manager.logs()), manager.offline_log_dirs) == (LOGS, {})


def test_a_log_that_cannot_be_opened_leaves_no_descriptor_open() -> None:
    fs = filled(("/a",), 9)
    for n in range(4, 9):
        fs.damage(f"/a/t-{n}/00000000000000000000.log", 40, 4)
    manager = open_manager(fs, ("/a",))

    assert len(manager.table.offline) == 5
    held = fs.open_descriptors
    for n in range(4):
        manager.removal.delete(TopicPartition("t", n), TOPIC_ID)
    assert fs.open_descriptors == 1, f"the lock of the dir, of {held}"


def test_a_failed_log_dir_is_no_end_while_there_is_another() -> None:
    fs = filled()
    fs.mkdir("/c")
    manager = open_manager(bad(fs, "/a/.", None), TWO)
    assert manager.offline_log_dirs == {}, "nothing of that name is opened but the lock, and that is not kept from it"
    manager.close(False)

    class NoLock(LosingFileSystem):
        def lock(self, path: str) -> int:
            if path.startswith("/a"):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
            return super().lock(path)

    manager = open_manager(NoLock(fs.root), TWO)
    assert list(manager.offline_log_dirs) == ["/a"]
    assert "read-only" in str(manager.offline_log_dirs["/a"])
    assert len(manager.logs()) == LOGS // 2
    with pytest.raises(KafkaStorageError, match="may be in a failed one: /a"):
        manager.get_or_create(TopicPartition("t", 0), TOPIC_ID, SMALL)
    with pytest.raises(KafkaStorageError, match="read-only"):
        open_manager(NoLock(fs.root), ("/a",))
