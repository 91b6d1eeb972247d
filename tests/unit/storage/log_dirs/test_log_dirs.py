"""Log dirs and the small files in them: interrupted formats, dirs that are gone, full disks, and every flipped bit."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from penstock.errors import CorruptFileError, KafkaStorageError, MetaPropertiesError, PenstockError
from penstock.types import TopicPartition
from storage.disk.file_names import META_PROPERTIES
from storage.disk.partition_metadata import read_topic_id, write_topic_id
from storage.log_dirs.clean_shutdown import CleanStop, take_marker, write_marker
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import (
    METADATA_SNAPSHOTS,
    VERSION_MAX,
    format_directory,
    raise_version,
    read_meta_properties,
)
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.machine import IDS, machine
from tests.support.storage import CLUSTER_ID, NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager, read_all

TWO = ("/a", "/b")
ONE, TWO_P = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def fs() -> LosingFileSystem:
    return LosingFileSystem()


class FailingFileSystem(LosingFileSystem):
    """Every access to what is under `path` fails."""

    path, code = "/none", errno.EIO

    def _must_answer(self, path: str) -> None:
        if path.startswith(self.path):
            raise OSError(self.code, os.strerror(self.code), path)

    def open(self, path: str, *, create: bool = False) -> int:
        self._must_answer(path)
        return super().open(path, create=create)

    def read_file(self, path: str) -> bytes:
        self._must_answer(path)
        return super().read_file(path)

    def listdir(self, path: str) -> list[str]:
        self._must_answer(path)
        return super().listdir(path)


def failing(fs: LosingFileSystem, path: str, code: int = errno.EIO) -> FailingFileSystem:
    copy = FailingFileSystem(fs.root)
    copy.path, copy.code = path, code
    return copy


def two_logs(fs: LosingFileSystem, dirs: tuple[str, ...] = TWO, clean: bool = True) -> None:
    manager = open_manager(fs, dirs)
    for tp in (ONE, TWO_P):
        log = manager.get_or_create(tp, TOPIC_ID, SMALL)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        log.flush()
    manager.close(clean, 5)


def as_it_is(fs: LosingFileSystem, *dirs: str) -> LogManager:
    return LogManager.open(dirs, LogManagerConfig(1, CLUSTER_ID, SMALL, recovery_threads=1), machine(fs))


# -- formatting --------------------------------------------------------------------------------------------------------


def test_a_format_that_was_interrupted_anywhere_can_be_done_again() -> None:
    for crash_at in range(1, 30):
        fs = LosingFileSystem()
        fs.crash_at = crash_at
        with contextlib.suppress(Crashed):
            format_directory(fs, "/deep/d", CLUSTER_ID, 1, IDS.new_id())
        done = fs.operations < crash_at
        for found in (fs.after_kill(), fs.after_crash()):
            if not found.exists(f"/deep/d/{META_PROPERTIES}"):
                assert not done
                format_directory(found, "/deep/d", CLUSTER_ID, 1, IDS.new_id())
            assert read_meta_properties(found, "/deep/d") is not None
        if done:
            return
    raise AssertionError("the format never ended")


def test_a_leftover_of_a_format_is_no_reason_to_refuse_but_anything_else_is(fs: LosingFileSystem) -> None:
    fs.mkdir("/d")
    fs.close(fs.open("/d/meta.properties.tmp", create=True))
    format_directory(fs, "/d", CLUSTER_ID, 1, IDS.new_id())
    assert fs.listdir("/d") == ["meta.properties"]

    fs.mkdir("/e")
    fs.close(fs.open("/e/other.tmp", create=True))
    with pytest.raises(MetaPropertiesError, match=r"/e is not empty \(it holds other\.tmp\)"):
        format_directory(fs, "/e", CLUSTER_ID, 1, IDS.new_id())


# -- dirs that are gone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["/a/meta.properties", "/a/recovery", "/a/.kafka", "/a"])
def test_a_dir_whose_disk_fails_is_offline_and_the_node_lives_on_the_others(fs: LosingFileSystem, where: str) -> None:
    two_logs(fs)
    manager = as_it_is(failing(fs, where), *TWO)

    assert list(manager.offline_log_dirs) == ["/a"]
    assert "the disk failed" in str(manager.offline_log_dirs["/a"])
    assert [log.topic_partition for log in manager.logs()] == [TWO_P]
    assert not manager.was_clean_shutdown and manager.previous_broker_epoch == -1
    with pytest.raises(KafkaStorageError, match="may be in a failed one: /a"):
        manager.get_or_create(ONE, TOPIC_ID, SMALL)
    with pytest.raises(KafkaStorageError, match="/a is offline"):
        manager.get_or_create(TopicPartition("u", 0), TOPIC_ID, SMALL, is_new=True, log_dir="/a")
    assert manager.get_or_create(TopicPartition("u", 0), TOPIC_ID, SMALL, is_new=True).log_dir == "/b"


def test_when_every_dir_fails_the_start_is_refused(fs: LosingFileSystem) -> None:
    two_logs(fs)

    with pytest.raises(KafkaStorageError, match=r"/a: cannot use the log dir: .*replace the disk"):
        as_it_is(failing(fs, "/"), *TWO)


def test_a_disk_that_is_not_mounted_refuses_the_start(fs: LosingFileSystem) -> None:
    """Its mount point is an empty directory, or none: an empty replica must not be made of what was in it."""
    two_logs(fs)
    fs.mkdir("/empty")

    for path in ("/empty", "/missing"):
        with pytest.raises(MetaPropertiesError, match=f"{path} is not formatted.*mount its disk"):
            as_it_is(fs, "/a", path)
    assert len(as_it_is(fs, *TWO).logs()) == 2, "nothing was touched"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EISDIR])
def test_a_dir_that_cannot_be_read_by_mistake_refuses_the_start(fs: LosingFileSystem, code: int) -> None:
    two_logs(fs)

    with pytest.raises(MetaPropertiesError, match=r"meta\.properties cannot be read"):
        as_it_is(failing(fs, "/a", code), *TWO)


def test_a_stop_is_not_clean_when_one_of_its_dirs_is_missing_at_the_start(fs: LosingFileSystem) -> None:
    two_logs(fs)
    manager = as_it_is(fs, "/b")

    assert (manager.was_clean_shutdown, manager.previous_broker_epoch) == (False, -1)


def test_a_dir_that_was_replaced_by_an_empty_one_is_missing(fs: LosingFileSystem) -> None:
    two_logs(fs)
    format_directory(fs, "/c", CLUSTER_ID, 1, IDS.new_id())
    manager = as_it_is(fs, "/b", "/c")

    assert (manager.was_clean_shutdown, manager.previous_broker_epoch) == (False, -1)


# -- a full disk -------------------------------------------------------------------------------------------------------


def test_a_creation_without_room_is_refused_and_leaves_nothing(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    names = fs.listdir("/d")
    for n in range(1, 20):
        fs.fail_at = {fs.operations + n: errno.ENOSPC}
        try:
            manager.get_or_create(TP, TOPIC_ID, SMALL)
        except KafkaStorageError as error:
            assert re.search("the disk (is full|failed)", str(error)), "what an fsync says of a full disk is final"
            assert isinstance(error.__cause__, OSError)
            assert (fs.listdir("/d"), manager.get(TP, TOPIC_ID), fs.open_descriptors) == (names, None, 1)
        else:
            break
    fs.fail_at.clear()

    assert n > 3
    assert manager.get_or_create(TP, TOPIC_ID, SMALL).topic_id == TOPIC_ID


@pytest.mark.parametrize("clean", [False, True])
def test_a_creation_that_could_not_be_taken_back_is_finished_next_time(fs: LosingFileSystem, clean: bool) -> None:
    manager = open_manager(fs)
    if clean:
        manager.close()
        manager = open_manager(fs)
    for n in range(1, 20):
        partition = TopicPartition("t", n)
        fs.fail_at = dict.fromkeys(range(fs.operations + n, fs.operations + 100), errno.ENOSPC)
        with contextlib.suppress(KafkaStorageError):
            manager.get_or_create(partition, TOPIC_ID, SMALL)
        fs.fail_at.clear()
        log = manager.get_or_create(partition, TOPIC_ID, SMALL)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        log.flush()
    manager = open_manager(fs.after_crash())

    assert [(log.topic_id, len(read_all(log))) for log in manager.logs()] == [(TOPIC_ID, 1)] * 19


def test_creating_a_log_syncs_nothing_and_its_first_flush_makes_it_durable(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    before = len(fs.trace)
    log = manager.get_or_create(TP, TOPIC_ID, SMALL)
    assert not [step for step in fs.trace[before:] if "sync" in step], "thousands are created on the event loop"
    log.append.as_leader(batch(b"x"), 0, NOW_MS)
    log.flush()
    manager = open_manager(fs.after_crash())

    assert [(log.topic_id, len(read_all(log))) for log in manager.logs()] == [(TOPIC_ID, 1)]


def test_a_log_that_rolls_before_its_first_flush_has_its_topic_id_on_the_disk(fs: LosingFileSystem) -> None:
    log = open_manager(fs).get_or_create(TP, TOPIC_ID, SMALL)
    log.append.as_leader(batch(b"x"), 0, NOW_MS)
    log.roll()
    manager = open_manager(fs.after_crash())

    assert [log.topic_id for log in manager.logs()] == [TOPIC_ID]


def test_the_topic_id_that_a_killed_process_left_is_synced_before_the_log_is_used(fs: LosingFileSystem) -> None:
    open_manager(fs).get_or_create(TP, TOPIC_ID, SMALL)
    fs = fs.after_kill()
    log = next(iter(open_manager(fs).logs()))
    log.append.as_leader(batch(b"x"), 0, NOW_MS)
    log.flush()
    manager = open_manager(fs.after_crash())

    assert [(log.topic_id, len(read_all(log))) for log in manager.logs()] == [(TOPIC_ID, 1)]


def test_a_full_disk_does_not_keep_an_empty_dir_from_being_opened(fs: LosingFileSystem) -> None:
    open_manager(fs).close()
    fs.unlink("/d/recovery-point-offset-checkpoint")
    fs.fail_on["create"] = errno.ENOSPC
    manager = as_it_is(fs, "/d")
    fs.fail_on.clear()
    manager.get_or_create(TP, TOPIC_ID, SMALL).flush()
    manager.checkpoints.write_recovery_points()

    assert manager.offline_log_dirs == {}
    assert b"orders 0 0" in fs.read_file("/d/recovery-point-offset-checkpoint")


def test_a_checkpoint_that_cannot_be_written_in_one_dir_is_written_in_the_others(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    for tp in (ONE, TWO_P):
        log = manager.get_or_create(tp, TOPIC_ID, SMALL)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        log.flush()
    fs.fail_at[fs.operations + 1] = errno.EMFILE
    with pytest.raises(KafkaStorageError, match=r"/a: cannot write a checkpoint: .*too many open files") as raised:
        manager.checkpoints.write_recovery_points()

    assert isinstance(raised.value.__cause__, OSError)
    assert b"t 1 1" in fs.read_file("/b/recovery-point-offset-checkpoint")
    assert b"t 0" not in fs.read_file("/a/recovery-point-offset-checkpoint")


def test_one_log_that_cannot_be_flushed_at_the_end_does_not_keep_the_others_from_it(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, flush_policy="os")
    for n in range(3):
        manager.get_or_create(TopicPartition("t", n), TOPIC_ID, SMALL).append.as_leader(batch(b"x"), 0, NOW_MS)
    fs.fail_at[fs.operations + 1] = errno.EIO
    manager.close(True, 5)
    manager = open_manager(fs.after_crash())

    assert not manager.was_clean_shutdown
    assert sum(len(read_all(log)) for log in manager.logs()) == 2


# -- flipped bits ------------------------------------------------------------------------------------------------------


def flips(content: bytes) -> Iterator[bytes]:
    for at in range(len(content)):
        for bit in range(8):
            yield content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def put(fs: LosingFileSystem, path: str, content: bytes) -> None:
    fd = fs.open(path, create=not fs.exists(path))
    fs.truncate(fd, 0)
    fs.pwritev(fd, [content], 0)
    fs.close(fd)


def test_no_flipped_bit_changes_whose_a_dir_is(fs: LosingFileSystem) -> None:
    properties = format_directory(fs, "/d", CLUSTER_ID, 1, IDS.new_id())
    content = fs.read_file("/d/meta.properties")
    for damaged in flips(content):
        put(fs, "/d/meta.properties", damaged)
        with contextlib.suppress(MetaPropertiesError):
            assert read_meta_properties(fs, "/d") == properties
    put(fs, "/d/meta.properties", content.rpartition(b"crc32c")[0].replace(b"node.id=1", b"node.id=2"))
    edited = read_meta_properties(fs, "/d")
    assert edited is not None and edited.node_id == 2, "without the line it may be edited"


def test_no_flipped_bit_makes_another_marker(fs: LosingFileSystem) -> None:
    fs.mkdir("/d")
    write_marker(fs, "/d", 17, {"x" * 22})
    content = fs.read_file("/d/.kafka_cleanshutdown")
    good = CleanStop(17, frozenset({"x" * 22}))
    for damaged in flips(content):
        put(fs, "/d/.kafka_cleanshutdown", damaged)
        assert take_marker(fs, "/d") in (None, good)
        assert not fs.exists("/d/.kafka_cleanshutdown")
    put(fs, "/d/.kafka_cleanshutdown", content)
    assert take_marker(fs, "/d") == good
    put(fs, "/d/.kafka_cleanshutdown", b'{"version":0,"brokerEpoch":17}\n')
    assert take_marker(fs, "/d") == CleanStop(17, None), "Kafka's own is read"


def test_no_flipped_bit_makes_another_topic_id(fs: LosingFileSystem) -> None:
    fs.mkdir("/d")
    write_topic_id(fs, "/d", TOPIC_ID)
    content = fs.read_file("/d/partition.metadata")
    for damaged in flips(content):
        put(fs, "/d/partition.metadata", damaged)
        with pytest.raises(CorruptFileError, match=r"/d/partition\.metadata"):
            read_topic_id(fs, "/d")
    put(fs, "/d/partition.metadata", f"version: 0\ntopic_id: {TOPIC_ID}".encode())
    assert read_topic_id(fs, "/d") == TOPIC_ID, "Kafka's own is read"


def test_a_log_whose_topic_id_is_damaged_is_offline_and_no_stray(fs: LosingFileSystem) -> None:
    two_logs(fs, ("/d",))
    fs.damage("/d/t-0/partition.metadata", 25, 1)
    manager = open_manager(fs)

    assert list(manager.table.offline.names()) == [ONE]
    with pytest.raises(PenstockError, match=r"t-0/partition\.metadata: damaged"):
        manager.get_or_create(ONE, TOPIC_ID, SMALL)


def test_an_unknown_log_start_is_that_of_the_first_epoch_or_shows_deleted_records_again(fs: LosingFileSystem) -> None:
    two_logs(fs, ("/d",))
    manager = open_manager(fs)
    log = manager.get_or_create(ONE, TOPIC_ID, SMALL)
    log.append.as_leader(batch(b"y"), 0, NOW_MS)
    log.flush()
    log.advance_log_start(1)
    manager.close(True, 5)
    assert open_manager(fs.clone()).logs()[0].log_start_offset == 1
    fs.damage("/d/log-start-offset-checkpoint", 4, 1)

    assert [len(read_all(log)) for log in open_manager(fs.clone()).logs()] == [1, 1]
    fs.unlink("/d/t-0/leader-epoch-checkpoint")
    assert [len(read_all(log)) for log in open_manager(fs).logs()] == [2, 1]


@pytest.mark.parametrize("crash_at", range(8))
def test_a_dirs_version_rises_for_good_and_a_crash_leaves_one_of_the_two(fs: LosingFileSystem, crash_at: int) -> None:
    before = format_directory(fs, "/d", CLUSTER_ID, 1, "d" * 22)
    fs.crash_at = fs.operations + crash_at
    with contextlib.suppress(Crashed):
        raise_version(fs, "/d", METADATA_SNAPSHOTS)
    fs = fs.after_crash(Random(crash_at))
    found = read_meta_properties(fs, "/d")
    assert found in (before, replace(before, version=2))
    raise_version(fs, "/d", METADATA_SNAPSHOTS)
    raise_version(fs, "/d", 1)
    assert read_meta_properties(fs, "/d") == replace(before, version=2)


def test_a_version_that_this_release_does_not_know_stops_the_start_before_anything_is_opened(
    fs: LosingFileSystem,
) -> None:
    format_directory(fs, "/d", CLUSTER_ID, 1, "d" * 22)
    raise_version(fs, "/d", VERSION_MAX + 1)
    with pytest.raises(MetaPropertiesError, match="has version 4, this release knows 1 to 3: use a newer release"):
        open_manager(fs, ("/d",))
    fs.unlink("/d/meta.properties")
    with pytest.raises(MetaPropertiesError, match="not formatted any more"):
        raise_version(fs, "/d", METADATA_SNAPSHOTS)


def test_a_disk_that_fails_while_a_version_rises_is_told_as_such() -> None:
    fs = FailingFileSystem()
    format_directory(fs, "/d", CLUSTER_ID, 1, "d" * 22)
    fs.path = "/d"
    with pytest.raises(OSError, match="Input/output"):
        raise_version(fs, "/d", METADATA_SNAPSHOTS)
