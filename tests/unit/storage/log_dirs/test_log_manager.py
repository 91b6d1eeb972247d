"""A node's log dirs: whose they are, what is opened, created, set aside, and how they are closed."""

from __future__ import annotations

import errno
import json
import re

import pytest

from penstock.errors import ConfigError, InconsistentTopicIdError, KafkaStorageError, MetaPropertiesError
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.disk.checkpoint_file import read_offsets
from storage.disk.file_system import OsFileSystem
from storage.disk.sealed_text import seal
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.log_table import LogId
from storage.log_dirs.meta_properties import format_directory, read_meta_properties
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import IDS, machine
from tests.support.storage import CLUSTER_ID, NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager, read_all

OTHER_ID = "B" * 22
TWO = ("/a", "/b")


@pytest.fixture
def fs() -> LosingFileSystem:
    return LosingFileSystem()


def some_log(manager: LogManager, tp: TopicPartition = TP, count: int = 20) -> None:
    log = manager.get_or_create(tp, TOPIC_ID, SMALL)
    append(log, count)
    log.flush()


def append(log: Log, count: int) -> None:
    for n in range(count):
        log.append.as_leader(batch(b"value-%02d" % n), 0, NOW_MS)


# -- whose the dirs are ------------------------------------------------------------------------------------------------


def test_formatting_writes_meta_properties_once(fs: LosingFileSystem) -> None:
    properties = format_directory(fs, "/data/one", CLUSTER_ID, 7, IDS.new_id())

    lines = fs.read_file("/data/one/meta.properties").decode()
    content = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=7\ndirectory.id={properties.directory_id}\n"
    assert re.fullmatch(rf"{content}crc32c [0-9a-f]{{8}}\n", lines)
    assert read_meta_properties(fs.after_crash(), "/data/one") == properties
    with pytest.raises(MetaPropertiesError, match="formatted already, for node 7"):
        format_directory(fs, "/data/one", CLUSTER_ID, 7, IDS.new_id())


def test_a_directory_that_is_not_empty_is_never_formatted(fs: LosingFileSystem) -> None:
    fs.mkdir("/d")
    fs.mkdir("/d/photos")

    with pytest.raises(MetaPropertiesError, match="/d is not empty"):
        format_directory(fs, "/d", CLUSTER_ID, 1, IDS.new_id())
    assert fs.listdir("/d") == ["photos"]


def test_a_file_is_not_a_log_dir(fs: LosingFileSystem) -> None:
    fs.close(fs.open("/d", create=True))

    with pytest.raises(MetaPropertiesError, match="/d is a file"):
        format_directory(fs, "/d", CLUSTER_ID, 1, IDS.new_id())


def opened(fs: LosingFileSystem, *dirs: str, cluster_id: str | None = CLUSTER_ID, node_id: int = 1) -> LogManager:
    return LogManager.open(dirs, LogManagerConfig(node_id, cluster_id), machine(fs))


def test_dirs_that_are_not_this_nodes_are_refused_with_the_reason(fs: LosingFileSystem) -> None:
    format_directory(fs, "/a", CLUSTER_ID, 1, IDS.new_id())
    format_directory(fs, "/b", OTHER_ID, 1, IDS.new_id())
    fs.mkdir("/empty")

    with pytest.raises(
        MetaPropertiesError, match=r"/empty is not formatted; format it with: penstock node format.* is lost, see"
    ):
        opened(fs, "/a", "/empty")
    with pytest.raises(
        MetaPropertiesError, match=f"/b belongs to cluster {OTHER_ID}, this node's is {CLUSTER_ID}; correct"
    ):
        opened(fs, "/a", "/b")
    with pytest.raises(MetaPropertiesError, match=f"/b belongs to cluster {OTHER_ID}"):
        opened(fs, "/a", "/b", cluster_id=None)
    with pytest.raises(MetaPropertiesError, match=r"/a belongs to node 1, but node\.id = 2; correct node\.id or"):
        opened(fs, "/a", node_id=2)
    with pytest.raises(MetaPropertiesError, match="/gone is not formatted"):
        opened(fs, "/gone")
    with pytest.raises(ConfigError, match="each only once"):
        opened(fs, "/a", "/a/")
    assert fs.listdir("/empty") == []


def test_a_copied_dir_is_recognised(fs: LosingFileSystem) -> None:
    format_directory(fs, "/a", CLUSTER_ID, 1, IDS.new_id())
    fs.mkdir("/b")
    fd = fs.open("/b/meta.properties", create=True)
    fs.pwritev(fd, [fs.read_file("/a/meta.properties")], 0)

    with pytest.raises(MetaPropertiesError, match=r"/b is a copy of /a.*; take one of them out"):
        opened(fs, "/a", "/b")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"version=4\ncluster.id=x\nnode.id=1\ndirectory.id=y\n", "has version 4, this release knows 1 to 3"),
        (b"version=1\ncluster.id=x\nnode.id=1\n", "directory.id is missing"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y", "a line is incomplete"),
        (b"version=1\ncluster.id=x\nnode.id=one\ndirectory.id=y\n", "a version or node id is not a number"),
        (b"", "version is missing"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_damaged_meta_properties_are_refused(fs: LosingFileSystem, content: bytes, why: str) -> None:
    fs.mkdir("/d")
    fd = fs.open("/d/meta.properties", create=True)
    fs.pwritev(fd, [content], 0)

    with pytest.raises(MetaPropertiesError, match=why):
        opened(fs, "/d")


def test_a_dir_that_another_process_holds_is_refused(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    with pytest.raises(
        MetaPropertiesError, match=r"/d is in use by another process .*\.lock\); stop that process first"
    ):
        open_manager(fs)
    manager.close()
    open_manager(fs).close()


# -- stopping and starting ---------------------------------------------------------------------------------------------


def test_a_clean_stop_is_recognised_once_and_has_the_broker_epoch(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    assert (manager.was_clean_shutdown, manager.previous_broker_epoch) == (False, -1)
    some_log(manager)
    manager.close(True, broker_epoch=0)
    marker = json.loads(fs.read_file("/a/.kafka_cleanshutdown"))
    assert (marker["version"], marker["brokerEpoch"], len(marker["directoryIds"])) == (1, 0, 2)
    fs = fs.after_crash()

    manager = open_manager(fs, TWO)
    assert (manager.was_clean_shutdown, manager.previous_broker_epoch) == (True, 0)
    fs = fs.after_crash()

    manager = open_manager(fs, TWO)
    assert (manager.was_clean_shutdown, manager.previous_broker_epoch) == (False, -1)
    assert len(read_all(manager.logs()[0])) == 20


def test_one_dir_without_its_marker_makes_the_start_unclean(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    manager.close(True, 5)
    fs.unlink("/b/.kafka_cleanshutdown")

    manager = open_manager(fs, TWO)
    assert (manager.was_clean_shutdown, manager.previous_broker_epoch) == (False, -1)


def test_a_marker_that_cannot_be_read_is_none(fs: LosingFileSystem) -> None:
    for content in (b"", b"{", b'{"version":1,"brokerEpoch":5}', b'{"version":0,"brokerEpoch":"5"}', b"[]"):
        open_manager(fs).close(True, 5)
        fs.cut("/d/.kafka_cleanshutdown", 0)
        fd = fs.open("/d/.kafka_cleanshutdown")
        fs.pwritev(fd, [content], 0)
        manager = open_manager(fs)
        assert not manager.was_clean_shutdown
        manager.close(False)


def test_a_log_that_cannot_be_flushed_at_the_end_leaves_no_marker(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    manager.logs()[0].append.as_leader(batch(b"x"), 0, NOW_MS)
    fs.fail_on["fdatasync"] = errno.EIO
    manager.close(True, 5)
    fs.fail_on.clear()

    assert not open_manager(fs).was_clean_shutdown


def test_checkpoints_are_written_and_read_back(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    manager.logs()[0].advance_log_start(3)
    manager.checkpoints.write_recovery_points()
    manager.checkpoints.write_high_watermarks(
        lambda: {LogId(TP, TOPIC_ID): 12, LogId(TopicPartition("unknown", 0), TOPIC_ID): 3}
    )
    manager.checkpoints.write_log_starts()
    fs = fs.after_crash()

    assert fs.read_file("/d/recovery-point-offset-checkpoint") == seal(f"2\n1\norders 0 20 {TOPIC_ID}\n")
    assert fs.read_file("/d/replication-offset-checkpoint") == seal("1\n1\norders 0 12\n")
    manager = open_manager(fs)
    assert manager.checkpoints.high_watermarks() == {LogId(TP, TOPIC_ID): 12}
    assert manager.logs()[0].log_start_offset == 3


def test_a_high_watermark_is_never_above_the_log_end(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    manager.checkpoints.write_high_watermarks(lambda: {LogId(TP, TOPIC_ID): 20})
    manager.logs()[0].truncate_to(10)

    assert manager.checkpoints.high_watermarks() == {LogId(TP, TOPIC_ID): 10}


def power_cut_below_the_high_watermark(fs: LosingFileSystem) -> LosingFileSystem:
    """The disk of a follower: 20 records were flushed, 5 more were not, and its leader had committed them all."""
    manager = open_manager(fs)
    some_log(manager)
    append(manager.logs()[0], 5)
    manager.checkpoints.write_high_watermarks(lambda: {LogId(TP, TOPIC_ID): 25})
    return fs.after_crash()


def test_records_that_follow_a_power_cut_are_not_committed_by_the_high_watermark_before_it(
    fs: LosingFileSystem,
) -> None:
    fs = power_cut_below_the_high_watermark(fs)
    manager = open_manager(fs)
    assert manager.checkpoints.high_watermarks() == {LogId(TP, TOPIC_ID): 20}
    append(manager.logs()[0], 9)
    manager.logs()[0].flush()
    for survivor in (fs.after_kill(), fs.after_crash()):  # before any checkpoint of high watermarks
        manager = open_manager(survivor)
        assert manager.logs()[0].log_end_offset == 29
        assert manager.checkpoints.high_watermarks() == {LogId(TP, TOPIC_ID): 20}


def test_a_line_of_a_log_that_is_not_hosted_yet_is_not_above_what_a_power_cut_left(fs: LosingFileSystem) -> None:
    """Such a log keeps its line in each checkpoint."""
    manager = open_manager(power_cut_below_the_high_watermark(fs))
    append(manager.logs()[0], 9)
    manager.checkpoints.write_high_watermarks(dict)

    assert manager.checkpoints.high_watermarks() == {LogId(TP, TOPIC_ID): 20}


def test_a_full_disk_does_not_prevent_that_start_and_the_next_checkpoint_is_right(fs: LosingFileSystem) -> None:
    fs = power_cut_below_the_high_watermark(fs)
    fs.fail_on = dict.fromkeys(("create", "write"), errno.ENOSPC)
    manager = open_manager(fs)
    known = manager.checkpoints.high_watermarks()
    assert known == {LogId(TP, TOPIC_ID): 20} and not manager.offline_log_dirs
    fs.fail_on.clear()
    append(manager.logs()[0], 9)
    manager.checkpoints.write_high_watermarks(lambda: known)
    manager.logs()[0].flush()

    assert open_manager(fs.after_crash()).checkpoints.high_watermarks() == known


def test_a_truncation_lowers_the_checkpoint_before_records_go(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    manager.checkpoints.write_recovery_points()
    fs.trace.clear()
    manager.logs()[0].truncate_to(5)

    lowered = next(n for n, step in enumerate(fs.trace) if "rename /d/recovery-point-offset-checkpoint" in step)
    gone = next(n for n, step in enumerate(fs.trace) if "unlink /d/orders-0" in step)
    assert lowered < gone
    assert read_offsets(fs, "/d/recovery-point-offset-checkpoint") == {TP: 5}


def test_no_checkpoint_claims_more_than_a_truncation_under_way_leaves(fs: LosingFileSystem) -> None:
    """The checkpoint jobs run in threads: whenever a truncation writes, removes or cuts something, one may run."""
    manager = open_manager(fs)
    some_log(manager)
    log = manager.logs()[0]
    log.advance_log_start(3)
    high_watermark = 20

    def checkpoints() -> None:
        manager.checkpoints.write_recovery_points()
        manager.checkpoints.write_log_starts()
        manager.checkpoints.write_high_watermarks(lambda: {LogId(TP, TOPIC_ID): high_watermark})

    checkpoints()
    lower, steps = log._cut._lower_checkpoints, []

    def lowered(offset: int, log_start: int) -> None:
        lower(offset, log_start)
        checkpoints()
        steps.append(manager.logs()[0].recovery_point)

    log._cut._lower_checkpoints = lowered
    high_watermark = 5  # as a follower does BEFORE
    log.truncate_to(5)
    survivor = fs.after_crash()

    assert steps == [20], "the log itself was not cut yet"
    assert read_offsets(fs, "/d/recovery-point-offset-checkpoint") == {TP: 5}
    assert read_offsets(fs, "/d/replication-offset-checkpoint") == {TP: 5}
    again = open_manager(survivor)
    assert not again.table.offline and again.logs()[0].log_end_offset == 5
    assert again.logs()[0].log_start_offset == 3
    log.append.as_leader(batch(b"more"), 1, NOW_MS)
    log.flush()
    manager.checkpoints.write_recovery_points()
    assert read_offsets(fs, "/d/recovery-point-offset-checkpoint") == {TP: 6}, "afterwards it may claim more again"


# -- logs --------------------------------------------------------------------------------------------------------------


def test_new_logs_go_to_the_dir_with_the_fewest(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    logs = [manager.get_or_create(TopicPartition("t", n), TOPIC_ID, SMALL) for n in range(4)]

    assert [log.log_dir for log in logs] == ["/a", "/b", "/a", "/b"]
    assert manager.get(TopicPartition("t", 2), TOPIC_ID) is logs[2]
    assert manager.get(TopicPartition("t", 9), TOPIC_ID) is None
    assert fs.read_file("/a/t-0/partition.metadata") == seal(f"version: 1\ntopic_id: {TOPIC_ID}\n")


def test_new_log_goes_to_the_preferred_dir_if_that_can_be_used(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    logs = [manager.get_or_create(TopicPartition("t", n), TOPIC_ID, SMALL, preferred_dir="/b") for n in range(3)]
    assert [log.log_dir for log in logs] == ["/b", "/b", "/b"]
    assert manager.path_of(manager.directory_id("/b")) == "/b" and manager.path_of("no such id") is None

    manager.fail_log_dir("/b", OSError(errno.EIO, "dead"))
    log = manager.get_or_create(TopicPartition("t", 3), TOPIC_ID, SMALL, preferred_dir="/b")
    assert log.log_dir == "/a" and manager.directory_id("/b"), "a dir that has failed keeps its id"


def test_a_new_log_goes_to_a_cordoned_dir_only_where_no_other_can_have_it(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)

    def made(number: int, preferred_dir: str | None = None) -> str:
        return manager.get_or_create(TopicPartition("t", number), TOPIC_ID, SMALL, preferred_dir=preferred_dir).log_dir

    manager.cordoned.add("/a")
    assert [made(number) for number in range(3)] == ["/b", "/b", "/b"]
    assert made(3, "/a") == "/a", "a replica that is assigned there comes back to it"
    manager.cordoned.add("/b")
    assert made(4) == "/a", "one that was decided before has a log all the same"
    manager.cordoned.remove("/b")
    manager.fail_log_dir("/b", OSError(errno.EIO, "dead"))
    assert made(5) == "/a"


def test_a_log_of_another_topic_id_is_not_given_out(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)

    with pytest.raises(InconsistentTopicIdError, match=f"belongs to topic id {TOPIC_ID}, not {OTHER_ID}"):
        manager.get_or_create(TP, OTHER_ID, SMALL)
    path = manager.removal.stray(TP, TOPIC_ID)
    assert path is not None and path.endswith("-stray")
    assert manager.get_or_create(TP, OTHER_ID, SMALL).log_end_offset == 0
    assert fs.exists(f"{path}/00000000000000000000.log"), "a stray is never deleted"
    manager.close()
    assert open_manager(fs).removal.strays == [path]


def test_a_deleted_log_is_gone_and_its_name_is_free(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    manager.checkpoints.write_recovery_points()
    manager.removal.delete(TP, TOPIC_ID)
    manager.removal.delete(TP, TOPIC_ID)

    assert manager.get(TP, TOPIC_ID) is None
    assert not [path for path in fs.files() if "orders" in path]
    manager.get_or_create(TP, OTHER_ID, SMALL).flush()
    manager = open_manager(fs.after_crash())
    assert manager.logs()[0].log_end_offset == 0, "the old recovery point does not make the new log look rotten"
    assert manager.logs()[0].topic_id == OTHER_ID


def test_a_deletion_that_was_interrupted_is_finished_after_the_next_start(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    path = manager.removal.set_aside_for_deletion(TP, TOPIC_ID)
    assert path is not None
    fs = fs.after_crash()
    manager = open_manager(fs)

    assert manager.logs() == ()
    assert manager.removal.delete_due(0) == 1
    assert not fs.exists(path)


def test_one_rotten_log_is_offline_and_the_others_go_on(fs: LosingFileSystem) -> None:
    other = TopicPartition("orders", 1)
    manager = open_manager(fs)
    some_log(manager)
    some_log(manager, other)
    manager.checkpoints.write_recovery_points()
    fs = fs.clone()
    fs.damage("/d/orders-0/00000000000000000014.log", 30, 4)

    for _ in range(2):
        manager = open_manager(fs)
        assert list(manager.table.offline.names()) == [TP]
        assert "00000000000000000014.log: damaged" in str(manager.table.offline.named(TP)[TOPIC_ID].error)
        assert len(read_all(manager.logs()[0])) == 20
        with pytest.raises(KafkaStorageError, match="the log is offline"):
            manager.get_or_create(TP, TOPIC_ID, SMALL)
        manager.checkpoints.write_recovery_points()
        manager.close(False)
    manager = open_manager(fs)
    manager.removal.stray(TP, TOPIC_ID)
    assert manager.get_or_create(TP, TOPIC_ID, SMALL).log_end_offset == 0


def test_rot_stays_rot_when_the_checkpoint_is_gone(fs: LosingFileSystem) -> None:
    manager = open_manager(fs)
    some_log(manager)
    fs = fs.clone()
    fs.damage("/d/orders-0/00000000000000000000.log", 30, 4)
    fs.unlink("/d/recovery-point-offset-checkpoint")

    for _ in range(2):
        manager = open_manager(fs)
        assert list(manager.table.offline.names()) == [TP]
        manager.close(True, 4)


def test_a_partition_in_two_dirs_is_offline(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    some_log(manager)
    manager.close()
    fs.mkdir("/b/orders-0")
    topic_id = fs.read_file("/a/orders-0/partition.metadata")
    fs.pwritev(fs.open("/b/orders-0/partition.metadata", create=True), [topic_id], 0)

    (offline,) = open_manager(fs, TWO).table.offline.values()
    assert "/a/orders-0: the same partition is in /b/orders-0 too" in str(offline.error)


def test_a_log_that_never_got_its_topic_id_is_no_second_log_of_the_topic(fs: LosingFileSystem) -> None:
    """A power cut came before its first flush; it holds nothing."""
    manager = open_manager(fs, TWO)
    some_log(manager)
    manager.close()
    fs.mkdir("/b/orders-0")
    manager = open_manager(fs, TWO)

    assert len(read_all(manager.get_or_create(TP, TOPIC_ID, SMALL))) == 20
    assert sorted(log.topic_id for log in manager.logs()) == ["", TOPIC_ID]


def test_a_failed_log_dir_takes_only_its_logs(fs: LosingFileSystem) -> None:
    manager = open_manager(fs, TWO)
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    for tp in (one, two):
        some_log(manager, tp, 3)
    assert manager.fail_log_dir("/a", OSError(errno.EIO, "Input/output error")) == (one,)

    assert [log.topic_partition for log in manager.logs()] == [two]
    with pytest.raises(KafkaStorageError, match="offline"):
        manager.get_or_create(one, TOPIC_ID, SMALL)
    assert manager.get_or_create(TopicPartition("t", 2), TOPIC_ID, SMALL).log_dir == "/b", "it is known not to be in /a"
    manager.checkpoints.write_recovery_points()
    manager.close(True, 3)
    assert not fs.exists("/a/.kafka_cleanshutdown")


def test_a_log_whose_creation_was_lost_half_way_can_be_taken_into_use(fs: LosingFileSystem) -> None:
    open_manager(fs).close()
    fs.mkdir("/d/orders-0")
    fs.close(fs.open("/d/orders-0/partition.metadata", create=True))
    manager = open_manager(fs)

    assert manager.logs()[0].topic_id == ""
    assert manager.get_or_create(TP, TOPIC_ID, SMALL).topic_id == TOPIC_ID
    assert manager.statistics().logs == 1


def test_only_the_metadata_log_gets_a_topic_id_where_its_records_survived_a_power_cut_without_it(
    fs: LosingFileSystem,
) -> None:
    metadata = TopicPartition(METADATA_TOPIC, 0)
    manager = open_manager(fs)
    for tp in (TP, metadata):
        manager.get_or_create(tp, TOPIC_ID, SMALL).append.as_leader(batch(b"value"), 0, NOW_MS)
    fs = fs.after_kill()
    for tp in (TP, metadata):
        fs.truncate(fs.open(f"/d/{tp}/partition.metadata"), 0)
    manager = open_manager(fs)

    assert {log.topic_id for log in manager.logs()} == {""}
    assert manager.get_or_create(metadata, TOPIC_ID, SMALL).log_end_offset == 1
    with pytest.raises(InconsistentTopicIdError, match=r"belongs to topic id \(none\)"):
        manager.get_or_create(TP, TOPIC_ID, SMALL)
    manager.close()
    assert {log.topic_id for log in open_manager(fs).logs()} == {"", TOPIC_ID}


def test_what_is_not_a_partition_is_left_alone(fs: LosingFileSystem) -> None:
    open_manager(fs).close()
    fs.mkdir("/d/lost+found")
    fs.mkdir("/d/orders-0x")
    manager = open_manager(fs)

    assert manager.logs() == ()
    assert {"lost+found", "orders-0x"} <= set(fs.listdir("/d"))


def test_the_machines_own_file_system_does_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    fs = OsFileSystem()
    directory = str(tmp_path / "deep" / "data")
    format_directory(fs, directory, CLUSTER_ID, 1, IDS.new_id())
    config = LogManagerConfig(1, None, SMALL)
    manager = LogManager.open([directory], config, machine(fs))
    with pytest.raises(MetaPropertiesError, match="in use"):
        LogManager.open([directory], config, machine(fs))
    some_log(manager)
    manager.logs()[0].truncate_to(15)
    manager.close(True, 8)
    manager = LogManager.open([directory], config, machine(fs))

    assert manager.previous_broker_epoch == 8
    assert len(read_all(manager.logs()[0])) == 15
    manager.removal.delete(TP, TOPIC_ID)
    assert not (tmp_path / "deep" / "data" / "orders-0").exists()
    manager.close()
