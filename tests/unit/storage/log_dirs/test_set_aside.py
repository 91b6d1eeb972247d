"""Logs that leave: deleted later, set aside as stray or rotten; and what the checkpoints say of those that follow."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.checkpoint_file import read_offsets
from storage.disk.disk_errors import is_shortage
from storage.log_dirs.deleted_logs import DIRECTORIES_PER_CALL
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_removal import LogRemoval
from storage.log_dirs.log_table import LogId
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager, read_all

OTHER = TopicPartition("orders", 1)
OTHER_ID = "B" * 22
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


@pytest.fixture
def fs() -> LosingFileSystem:
    return LosingFileSystem()


def filled(fs: LosingFileSystem, clock: ManualClock | None = None) -> LogManager:
    """Two logs of 20 records, flushed and in every checkpoint."""
    manager = open_manager(fs, clock=clock)
    for tp in (TP, OTHER):
        log = manager.get_or_create(tp, TOPIC_ID, SMALL)
        for n in range(20):
            log.append.as_leader(batch(b"value-%02d" % n), 0, NOW_MS)
        log.flush()
        log.advance_log_start(3)
        cleaner = manager.cleaner_checkpoint(log)
        assert cleaner is not None and cleaner.put(tp, 9, cleaner.generation(tp))
    manager.checkpoints.write_recovery_points()
    manager.checkpoints.write_high_watermarks(lambda: {LogId(TP, TOPIC_ID): 15, LogId(OTHER, TOPIC_ID): 16})
    manager.checkpoints.write_log_starts()
    return manager


def lines(fs: LosingFileSystem, tp: TopicPartition) -> list[int | None]:
    return [(read_offsets(fs, f"/d/{name}") or {}).get(tp) for name in CHECKPOINTS]


def rotten(fs: LosingFileSystem) -> LosingFileSystem:
    """The machine after a crash, with rot in the newest segment of TP, below its recovery point."""
    filled(fs)
    fs = fs.after_crash()
    fs.damage("/d/orders-0/00000000000000000014.log", 30, 4)
    return fs


# -- deleted -----------------------------------------------------------------------------------------------------------


def test_a_deleted_logs_files_go_after_the_delay(fs: LosingFileSystem) -> None:
    clock = ManualClock()
    manager = filled(fs, clock)
    path = manager.removal.set_aside_for_deletion(TP, TOPIC_ID)

    assert path is not None and manager.get(TP, TOPIC_ID) is None
    assert manager.statistics().deleted == 1
    clock.advance(SMALL.file_delete_delay_ms - 1)
    assert manager.removal.delete_due(clock.now_ms()) == 0 and fs.exists(path)
    clock.advance(1)
    assert manager.removal.delete_due(clock.now_ms()) == 1 and not fs.exists(path)
    assert manager.removal.delete_due(clock.now_ms()) == 0
    assert manager.statistics().deleted == 0


def test_one_call_removes_a_bounded_number(fs: LosingFileSystem) -> None:
    clock = ManualClock()
    manager = open_manager(fs, clock=clock)
    for n in range(DIRECTORIES_PER_CALL + 3):
        manager.get_or_create(TopicPartition("t", n), TOPIC_ID, SMALL)
        manager.removal.set_aside_for_deletion(TopicPartition("t", n), TOPIC_ID)
    clock.advance(SMALL.file_delete_delay_ms)

    assert [manager.removal.delete_due(clock.now_ms()) for _ in range(3)] == [DIRECTORIES_PER_CALL, 3, 0]


def test_a_directory_that_cannot_be_removed_is_said_and_tried_again_behind_the_others(fs: LosingFileSystem) -> None:
    manager = filled(fs)
    paths = [str(manager.removal.set_aside_for_deletion(tp, TOPIC_ID)) for tp in (TP, OTHER)]
    fs.fail_at[fs.operations + 1] = errno.EIO
    with pytest.raises(KafkaStorageError, match=r"cannot delete: .*the disk failed"):
        manager.removal.delete_due(NOW_MS)
    assert [fs.exists(path) for path in paths] == [True, True]
    assert manager.removal.deleted.paths() == (paths[1], paths[0])

    assert open_manager(fs.clone()).removal.delete_due(NOW_MS) == 2, "the next start finds it"
    assert manager.removal.delete_due(NOW_MS) == 2
    assert [fs.exists(path) for path in paths] == [False, False]


def test_a_name_that_only_looks_deleted_is_never_removed(fs: LosingFileSystem) -> None:
    open_manager(fs).close()
    for name in ("photos.2024-delete", "orders-0-delete", "orders-0.x-delete", ".-delete"):
        fs.mkdir(f"/d/{name}")
    manager = open_manager(fs)

    assert manager.removal.delete_due(NOW_MS) == 0
    assert "photos.2024-delete" in fs.listdir("/d")


# -- stray -------------------------------------------------------------------------------------------------------------


def test_strays_are_reported_at_every_start_and_never_deleted(fs: LosingFileSystem) -> None:
    manager = filled(fs)
    long_name = TopicPartition("t" * 249, 2_000_000_000)
    manager.get_or_create(long_name, TOPIC_ID, SMALL)
    paths = sorted(str(manager.removal.stray(tp, TOPIC_ID)) for tp in (TP, long_name))
    assert all(len(path.rpartition("/")[2]) <= 255 for path in paths)
    assert manager.statistics().strays == 2
    manager.checkpoints.write_recovery_points()
    manager.close(False)

    for _ in range(2):
        manager = open_manager(fs)
        assert sorted(manager.removal.strays) == paths
        assert manager.statistics().strays == 2 and manager.statistics().rotten == 0
        assert manager.removal.delete_due(NOW_MS) == 0
        manager.close()
    assert all(fs.exists(f"{path}/partition.metadata") for path in paths)


def test_a_log_that_cannot_be_set_aside_is_offline_and_no_other_takes_its_place(fs: LosingFileSystem) -> None:
    manager = filled(fs)
    fs.fail_on["rename"] = errno.EIO
    with pytest.raises(KafkaStorageError, match="cannot set aside"):
        manager.removal.stray(TP, TOPIC_ID)
    fs.fail_on.clear()

    with pytest.raises(KafkaStorageError, match="offline"):
        manager.get_or_create(TP, OTHER_ID, SMALL)
    assert manager.removal.stray(TP, TOPIC_ID) is not None
    assert manager.get_or_create(TP, OTHER_ID, SMALL).log_end_offset == 0


TAKERS = [LogRemoval.set_aside_for_deletion, LogRemoval.stray]


@pytest.mark.parametrize("take", TAKERS)
def test_a_log_for_whose_rename_there_was_no_room_leaves_when_it_is_tried_again(
    fs: LosingFileSystem, take: Callable[[LogRemoval, TopicPartition, str], str | None]
) -> None:
    manager = filled(fs)
    fs.fail_at[fs.operations + 1] = errno.ENOSPC
    with pytest.raises(KafkaStorageError, match="once there is room") as refused:
        take(manager.removal, TP, TOPIC_ID)
    assert is_shortage(refused.value), "a caller can tell that it may try again"
    with pytest.raises(KafkaStorageError, match="offline") as creation:
        manager.get_or_create(TP, OTHER_ID, SMALL)
    assert is_shortage(creation.value)
    assert take(manager.removal, TP, TOPIC_ID) is not None and manager.statistics().offline_logs == 0
    assert manager.get_or_create(TP, OTHER_ID, SMALL).log_end_offset == 0


@pytest.mark.parametrize("why", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("take", TAKERS)
def test_a_rename_whose_sync_is_refused_counts_and_a_crash_may_take_it_back(
    fs: LosingFileSystem, take: Callable[[LogRemoval, TopicPartition, str], str | None], why: int
) -> None:
    """The next start finds the log once more, and what was created since is synced with it."""
    manager = filled(fs)
    fs.fail_at[fs.operations + 2] = why
    path = take(manager.removal, TP, TOPIC_ID)
    assert path is not None and [*manager.removal.strays, *manager.removal.deleted.paths()] == [path]
    back = [log.topic_id for log in open_manager(fs.after_crash()).logs() if log.topic_partition == TP]
    assert back == ([TOPIC_ID] if take is LogRemoval.stray else []), "a deletion syncs the dir once more"

    manager.get_or_create(TP, OTHER_ID, SMALL).flush()
    manager = open_manager(fs.after_crash())
    assert [log.topic_id for log in manager.logs() if log.topic_partition == TP] == [OTHER_ID]
    assert [*manager.removal.strays, *manager.removal.deleted.paths()] == [path]


@pytest.mark.parametrize("then", [LogRemoval.set_aside_rotten, *TAKERS])
def test_a_rotten_log_whose_rename_found_no_descriptor_for_its_sync_has_left_after_the_next_call(
    fs: LosingFileSystem, then: Callable[[LogRemoval, TopicPartition, str], str | None]
) -> None:
    manager = open_manager(rotten(fs))
    fs = manager.file_system._fs  # type: ignore[attr-defined]
    fs.fail_at[fs.operations + 2] = errno.EMFILE
    with pytest.raises(KafkaStorageError, match="too many open files"):
        manager.removal.set_aside_rotten(TP, TOPIC_ID)
    assert "fsync_dir" in fs.trace[-1] and not fs.exists("/d/orders-0") and lines(fs, TP)[0] == 20
    with pytest.raises(KafkaStorageError, match="offline"):
        manager.get_or_create(TP, OTHER_ID, SMALL)
    path = then(manager.removal, TP, TOPIC_ID)
    assert path is not None and fs.after_crash().exists(path) and manager.table.offline.names() == ()
    log = manager.get_or_create(TP, OTHER_ID, SMALL)
    log.flush()
    assert log.log_end_offset == 0 and list(open_manager(fs.after_crash()).table.offline.names()) == []


def test_a_sync_that_failed_is_never_made_again(fs: LosingFileSystem) -> None:
    manager = open_manager(rotten(fs))
    fs = manager.file_system._fs  # type: ignore[attr-defined]
    fs.fail_at[fs.operations + 2] = errno.EIO
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="cannot set aside"):
            manager.removal.set_aside_rotten(TP, TOPIC_ID)
    assert TP in manager.table.offline.names()


# -- rotten ------------------------------------------------------------------------------------------------------------


def test_a_rotten_log_makes_room_for_a_new_replica_and_its_lines_go(fs: LosingFileSystem) -> None:
    fs = rotten(fs)
    manager = open_manager(fs)
    assert list(manager.table.offline.names()) == [TP]
    assert lines(fs, TP) == [20, 15, 3, 9]
    path = manager.removal.set_aside_rotten(TP, TOPIC_ID)

    assert path is not None and path.endswith("-rotten")
    assert lines(fs, TP) == [None] * 4
    assert lines(fs, OTHER) == [20, 16, 3, 9], "another log's lines stay"
    log = manager.get_or_create(TP, TOPIC_ID, SMALL)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert fs.exists(f"{path}/00000000000000000014.log")
    manager = open_manager(fs.after_kill())
    assert (manager.removal.rotten, manager.statistics().rotten, manager.removal.strays) == ([path], 1, [])
    assert manager.checkpoints.high_watermarks() == {LogId(OTHER, TOPIC_ID): 16}
    assert sorted(map(str, (log.topic_partition for log in manager.logs()))) == ["orders-0", "orders-1"]


def test_a_checkpoint_between_two_steps_brings_no_line_of_a_rotten_log_back(fs: LosingFileSystem) -> None:
    manager = open_manager(rotten(fs))
    fs = manager.file_system._fs  # type: ignore[attr-defined]
    removal = manager.removal.begin_rotten(TP, TOPIC_ID)
    assert removal is not None
    manager.checkpoints.write_recovery_points()
    assert lines(fs, TP)[0] == 20, "it has not left yet"
    removal.outcomes |= manager.removal.carry_out("/d", (removal,))[removal]
    manager.checkpoints.write_recovery_points()
    manager.checkpoints.write_log_starts()
    assert lines(fs, TP) == [None] * 4
    manager.removal.end(removal)
    assert manager.table.offline.names() == () and not manager.table.renamed


def test_only_an_offline_log_is_rotten(fs: LosingFileSystem) -> None:
    manager = filled(fs)

    assert manager.removal.set_aside_rotten(TP, TOPIC_ID) is None
    assert manager.removal.set_aside_rotten(TopicPartition("none", 0), TOPIC_ID) is None
    manager.fail_log_dir("/d", OSError(errno.EIO, "I/O error"))
    assert manager.removal.set_aside_rotten(TP, TOPIC_ID) is None, "nobody knows whether it is good: its disk failed"


def test_at_every_crash_point_rot_stays_rot_or_is_set_aside_whole(fs: LosingFileSystem) -> None:
    before = rotten(fs)
    outcomes = set()
    for crash_at in range(1, 100):
        fs = before.clone()
        manager = open_manager(fs)
        fs.crash_at = fs.operations + crash_at
        try:
            manager.removal.set_aside_rotten(TP, TOPIC_ID)
            manager.get_or_create(TP, TOPIC_ID, SMALL).flush()
        except Crashed:
            pass
        else:
            break
        manager = open_manager(fs.after_crash())
        log = manager.get(TP, TOPIC_ID)
        assert log is None or log.size_bytes == 0, "a log that was rotten is not taken for one with a torn tail"
        if log is None and TP not in manager.table.offline.names():
            assert len(manager.removal.rotten) == 1
            log = manager.get_or_create(TP, TOPIC_ID, SMALL)
            log.append.as_leader(batch(b"new"), 0, NOW_MS)
            assert len(read_all(log)) == 1
        outcomes.add((log is None, len(manager.removal.rotten)))

    assert outcomes == {(True, 0), (False, 1)}


def test_rot_that_was_found_by_a_reader_is_rot_after_a_restart(fs: LosingFileSystem) -> None:
    """Its records were flushed, but no checkpoint had been written since: the next start must not cut them."""
    manager = open_manager(fs)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL)
    for n in range(4):
        log.append.as_leader(batch(b"value-%02d" % n), 0, NOW_MS)
    log.flush()
    assert lines(fs, TP)[0] is None
    fs.damage("/d/orders-0/00000000000000000000.log", 30, 4)
    manager.fail_log(manager.logs()[0], CorruptFileError("/d/orders-0/00000000000000000000.log", 0, "a reader saw it"))
    manager.checkpoints.write_recovery_points()

    assert lines(fs, TP)[0] == 4
    manager.close(True)
    manager = open_manager(fs)
    assert manager.logs()[0].log_end_offset == 4, "a clean start looks at the end only"
    with pytest.raises(CorruptFileError):
        manager.logs()[0].reader.read(0, 1000)
    manager.fail_log(
        manager.logs()[0], CorruptFileError("/d/orders-0/00000000000000000000.log", 0, "a reader saw it again")
    )
    manager.close(False)
    assert list(open_manager(fs).table.offline.names()) == [TP]


# -- in several log dirs -----------------------------------------------------------------------------------------------


def test_a_partition_in_three_dirs_is_offline_and_leaves_all_of_them(fs: LosingFileSystem) -> None:
    dirs = ("/a", "/b", "/c")
    manager = open_manager(fs, dirs)
    manager.get_or_create(TP, TOPIC_ID, SMALL, log_dir="/b").flush()
    manager.close()
    fs.mkdir("/a/orders-0")
    fs.mkdir("/c/orders-0")
    manager = open_manager(fs, dirs)

    assert manager.logs() == () and manager.table.offline.named(TP)[""].copies == ("/b/orders-0", "/c/orders-0")
    assert fs.listdir("/a/orders-0") == [], "nothing was touched"
    manager.removal.stray(TP, TOPIC_ID)
    assert sorted(path[:12] for path in manager.removal.strays) == ["/a/orders-0.", "/b/orders-0.", "/c/orders-0."]
    assert manager.get_or_create(TP, TOPIC_ID, SMALL).log_end_offset == 0


@pytest.mark.parametrize("take", [LogRemoval.delete, LogRemoval.stray, LogRemoval.set_aside_rotten])
def test_what_follows_a_log_that_left_starts_below_every_old_line(
    fs: LosingFileSystem, take: Callable[[LogRemoval, TopicPartition, str], object]
) -> None:
    manager = open_manager(rotten(fs))
    take(manager.removal, TP, TOPIC_ID)
    manager.get_or_create(TP, OTHER_ID, SMALL).flush()
    fs = manager.file_system._fs.after_crash()  # type: ignore[attr-defined]

    assert lines(fs, TP) in ([0, 0, 0, 0], [0, 0, 0, None], [None] * 4)
    manager = open_manager(fs)
    assert (manager.checkpoints.high_watermarks().get(LogId(TP, OTHER_ID), 0), manager.table.offline.names()) == (0, ())
