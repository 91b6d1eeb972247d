"""A log that was never in use goes at a start if another log dir has the log, and nothing else does."""

from __future__ import annotations

import errno

import pytest

from broker.node.registration.broker_registration import hosted_replicas
from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.file_names import PARTITION_METADATA
from storage.disk.partition_metadata import note_topic_id, sync_topic_id
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, batch, open_manager

TP = TopicPartition("t", 0)
UNIQUE = "u" * 22
LEFT, LOG = "/a/t-0", "/b/t-0"
DIRS = ("/a", "/b")


class Refusing(LosingFileSystem):
    """Removes no file in /a/t-0 once it is dying."""

    is_dying = False

    def unlink(self, path: str) -> None:
        if self.is_dying and path.startswith(LEFT):
            raise OSError(errno.EIO, "dying", path)
        super().unlink(path)


class Gone(LosingFileSystem):
    """/b does not answer once it is gone."""

    is_gone = False

    def entries(self, path: str) -> dict[str, bool]:
        if self.is_gone and path == "/b":
            raise OSError(errno.EIO, "gone", path)
        return super().entries(path)


def left_behind(fs: LosingFileSystem) -> None:
    """The disk that a creation that hangs leaves, beside a log with records."""
    manager = open_manager(fs, DIRS)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL, log_dir="/b")
    log.append.as_leader(batch(b"value"), 1, NOW_MS)
    log.flush()
    manager.close(clean=False)
    fs.mkdir(LEFT)
    note_topic_id(fs, LEFT, TOPIC_ID)
    fs.close(fs.open(f"{LEFT}/00000000000000000000.log", create=True))


def places(fs: LosingFileSystem) -> list[str]:
    """The directories of the logs in use after a start."""
    manager = open_manager(fs, DIRS)
    found = [log.directory for log in manager.logs()]
    manager.close(clean=False)
    return found


def test_what_a_creation_left_is_removed_beside_the_log() -> None:
    fs = LosingFileSystem()
    left_behind(fs)
    assert places(fs) == [LOG] and not fs.exists(LEFT)
    assert places(fs) == [LOG]


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000007.log", "leader-epoch-checkpoint"])
def test_a_directory_that_may_have_been_in_use_is_kept_and_a_person_decides(name: str) -> None:
    fs = LosingFileSystem()
    left_behind(fs)
    fd = fs.open(f"{LEFT}/{name}", create=not fs.exists(f"{LEFT}/{name}"))
    fs.pwritev(fd, (b"x",), 0)
    fs.close(fd)
    assert places(fs) == [] and fs.exists(LEFT) and fs.exists(LOG)


def test_two_that_were_never_in_use_leave_one() -> None:
    fs = LosingFileSystem()
    open_manager(fs, DIRS).close(clean=False)
    for path in (LEFT, LOG):
        fs.mkdir(path)
        note_topic_id(fs, path, TOPIC_ID)
    assert places(fs) == [LOG]


def test_one_that_stands_alone_is_the_log() -> None:
    fs = LosingFileSystem()
    open_manager(fs, DIRS).close(clean=False)
    fs.mkdir(LEFT)
    note_topic_id(fs, LEFT, TOPIC_ID)
    assert places(fs) == [LEFT] and fs.exists(f"{LEFT}/{PARTITION_METADATA}")


def test_one_that_cannot_be_removed_leaves_the_decision_to_a_person() -> None:
    fs = Refusing()
    left_behind(fs)
    fs.is_dying = True
    assert places(fs) == [] and fs.exists(LOG)


@pytest.mark.parametrize("gave_up", [True, False], ids=["given up", "silent"])
def test_where_the_other_log_dir_is_gone_it_does_not_count_as_the_replica(gave_up: bool) -> None:
    """The controller would let it lead, as the last copy: with an empty log in place of acked records."""
    fs = Gone()
    left_behind(fs)
    fs.is_gone = not gave_up
    manager = open_manager(fs, DIRS[:1] if gave_up else DIRS, gave_up_dirs=gave_up)
    assert hosted_replicas(manager) == () and not fs.exists(LEFT)
    if not gave_up:
        with pytest.raises(KafkaStorageError, match="may be in a failed one: /b"):
            manager.get_or_create(TP, TOPIC_ID, SMALL)
    manager.close(clean=False)


@pytest.mark.parametrize("gave_up", [True, False], ids=["given up", "silent"])
def test_one_that_cannot_be_removed_does_not_count_as_the_replica_either(gave_up: bool) -> None:
    class Both(Gone, Refusing):
        pass

    fs = Both()
    left_behind(fs)
    fs.is_gone, fs.is_dying = not gave_up, True
    manager = open_manager(fs, DIRS[:1] if gave_up else DIRS, gave_up_dirs=gave_up)
    assert hosted_replicas(manager) == ()
    with pytest.raises(KafkaStorageError, match=r"/a/t-0.*dying"):
        manager.get_or_create(TP, TOPIC_ID, SMALL)
    manager.close(clean=False)


def test_one_that_was_removed_for_a_dir_that_was_given_up_stays_so_after_a_power_cut() -> None:
    """The option is given once: the next start misses nothing, and would take it for the log."""
    fs = LosingFileSystem()
    left_behind(fs)
    sync_topic_id(fs, LEFT, TOPIC_ID)
    for path in ("/a", LEFT):
        fs.fsync_dir(path)
    fs.fail_on["write"] = errno.ENOSPC  # a checkpoint would sync the log dir by chance
    open_manager(fs, DIRS[:1], gave_up_dirs=True).close(clean=False)
    fs = fs.after_crash()
    manager = open_manager(fs, DIRS[:1])
    assert hosted_replicas(manager) == ()
    manager.close(clean=False)


# -- without descriptors: the log dir does not fail --------------------------------------------------------------------


class Short(Gone):
    """While `is_short`, nothing can be listed or opened in /a/t-0 but the topic id."""

    is_short = False

    def listdir(self, path: str) -> list[str]:
        self._may_be_short(path)
        return super().listdir(path)

    def open(self, path: str, *, create: bool = False) -> int:
        if PARTITION_METADATA not in path:
            self._may_be_short(path)
        return super().open(path, create=create)

    def _may_be_short(self, path: str) -> None:
        if self.is_short and path.startswith(LEFT):
            raise OSError(errno.EMFILE, "too many", path)


@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "here"])
@pytest.mark.parametrize("is_short", [True, False], ids=["short until the end", "short for a moment"])
def test_what_a_creation_without_descriptors_left_does_not_outlive_a_stop_in_order(
    is_silent: bool, is_short: bool
) -> None:
    fs = Short()
    manager = open_manager(fs, DIRS)
    fs.is_short = True
    with pytest.raises(KafkaStorageError):
        manager.get_or_create(TP, TOPIC_ID, SMALL, log_dir="/a")
    assert fs.exists(LEFT)
    manager.get_or_create(TP, TOPIC_ID, SMALL, log_dir="/b").append.as_leader(batch(b"value"), 1, NOW_MS)
    fs.is_short = is_short
    manager.close(True, 3)
    assert fs.exists(LEFT) is fs.is_short is not fs.exists("/a/.kafka_cleanshutdown")
    fs.is_short, fs.is_gone = False, is_silent
    assert places(fs) == ([] if is_silent else [LOG])


def test_a_creation_there_takes_what_an_earlier_one_left() -> None:
    fs = Short()
    manager = open_manager(fs, DIRS)
    fs.is_short = True
    with pytest.raises(KafkaStorageError):
        manager.get_or_create(TP, TOPIC_ID, SMALL, log_dir="/a")
    fs.is_short = False
    manager.get_or_create(TP, TOPIC_ID, SMALL, log_dir="/a").append.as_leader(batch(b"value"), 1, NOW_MS)
    manager.close(True, 3)
    assert fs.exists("/a/.kafka_cleanshutdown") and places(fs) == [LEFT]


# -- beside a log that is between two names ----------------------------------------------------------------------------


def in_a_move(fs: LosingFileSystem, *, has_copy: bool) -> None:
    """The log was about to leave /b for /c; what a creation left in /a is back."""
    open_manager(fs, ("/c",)).close(clean=False)
    left_behind(fs)
    if has_copy:
        _copy(fs, LOG, f"/c/t-0.{UNIQUE}-future")
    fs.rename(LOG, f"/b/t-0.{UNIQUE}-moved")


def _copy(fs: LosingFileSystem, source: str, target: str) -> None:
    fs.mkdir(target)
    for name in fs.listdir(source):
        read, written = fs.open(f"{source}/{name}"), fs.open(f"{target}/{name}", create=True)
        fs.pwritev(written, (fs.pread(read, 1 << 20, 0),), 0)


@pytest.mark.parametrize("has_copy", [True, False], ids=["copy", "no copy"])
def test_a_log_that_a_crash_left_in_a_move_is_not_given_up_for_one_that_was_never_in_use(has_copy: bool) -> None:
    fs = LosingFileSystem()
    in_a_move(fs, has_copy=has_copy)
    manager = open_manager(fs, (*DIRS, "/c"))
    assert [(log.directory, log.log_end_offset) for log in manager.logs()] == [("/c/t-0" if has_copy else LOG, 1)]
    assert not fs.exists(LEFT)
    manager.close(clean=False)


def test_a_log_in_a_move_stays_where_it_is_while_the_dir_of_its_copy_is_silent() -> None:
    fs = Gone()
    in_a_move(fs, has_copy=False)
    fs.is_gone = True
    manager = open_manager(fs, (*DIRS, "/c"))
    assert hosted_replicas(manager) == () and fs.exists(f"/b/t-0.{UNIQUE}-moved") and not fs.exists(LEFT)
    manager.close(clean=False)


def test_a_copy_whose_log_was_given_up_does_not_go_on_from_one_that_was_never_in_use() -> None:
    """A person decides about the copy, and the broker tells the controller that the log is lost."""
    fs = LosingFileSystem()
    open_manager(fs, ("/c",)).close(clean=False)
    left_behind(fs)
    _copy(fs, LOG, f"/c/t-0.{UNIQUE}-future")
    manager = open_manager(fs, ("/a", "/c"), gave_up_dirs=True)
    assert hosted_replicas(manager) == () and manager.futures.going_on == {}
    assert manager.replicas_without_log() == {(TOPIC_ID, 0)}
    manager.close(clean=False)


def test_the_log_of_a_topic_made_anew_is_kept_beside_an_older_one_in_a_move() -> None:
    fs = LosingFileSystem()
    in_a_move(fs, has_copy=False)
    fs.unlink(f"{LEFT}/{PARTITION_METADATA}")
    note_topic_id(fs, LEFT, "N" * 22)
    manager = open_manager(fs, (*DIRS, "/c"))
    assert [(log.directory, log.topic_id) for log in manager.logs()] == [(LEFT, "N" * 22), (LOG, TOPIC_ID)]
    manager.close(clean=False)
