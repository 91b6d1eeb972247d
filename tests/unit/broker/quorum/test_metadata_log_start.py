"""A metadata log begins with its newest sound snapshot, whatever a crash or damage left; a hole is refused."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.quorum.metadata_log import MetadataLog
from broker.quorum.metadata_log_opening import open_metadata_log
from broker.quorum.metadata_log_start import find_beginning
from broker.quorum.metadata_snapshots import KeptSnapshot, LogBeginning, MetadataSnapshots
from metadata.codec import encode_record
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import FeatureLevelRecord, TopicRecord, VotersRecord
from penstock.errors import CorruptFileError, CorruptMessageError
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset, EpochEntry
from raft.decided_log import BEGINNING
from raft.driver.protocols import LoadedSnapshot, NoRoomError
from raft.messages import leader_change_value
from raft.voter_records import voters_value
from raft.voters import Voter, VoterSet
from storage.disk.checkpoint_file import write_epochs
from storage.disk.file_names import LEADER_EPOCH_CHECKPOINT
from storage.disk.file_system import OsFileSystem
from storage.log.log import Log
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.machine import machine

EPOCHS = (EpochEntry(1, 0), EpochEntry(4, 6))
END = 12
TIME_MS = 1_700_000_000_000


def image_at(end_offset: int, epoch: int) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(TopicRecord(f"at-{end_offset}", "id"))
    return delta.apply(end_offset - 1, epoch)


class Metadata:
    """A node's metadata log of twelve records: the epochs 1 (from offset 0) and 4 (from 6). Each is a segment."""

    def __init__(self, path: Path) -> None:
        self.path, self.fs = str(path / "data"), OsFileSystem()
        format_directory(self.fs, self.path, "c" * 22, 1, "d" * 22)
        self.start()
        for epoch in (1, 4):
            for value in (leader_change_value(2, epoch, (1, 2, 3)), *[b'{"type":"NoOp"}'] * 5):
                self.log.append.as_leader(build_batch((value,), timestamps_ms=0), epoch, 0)
                self.log.roll()
        self.log.flush()

    def start(self) -> None:
        self.manager = LogManager.open([self.path], LogManagerConfig(1), machine())
        self.log, self.snapshots = open_metadata_log(self.manager, self.fs, self.path, is_voter=True, voters=3)

    def restart(self, *, clean: bool = True) -> LogBeginning:
        self.manager.close(clean=clean)
        self.start()
        return find_beginning(self.log, self.snapshots)

    def write(self, end_offset: int, epoch: int) -> EpochEndOffset:
        return self.snapshots.write(image_at(end_offset, epoch), TIME_MS + end_offset).snapshot_id

    def damage(self, snapshot_id: EpochEndOffset) -> None:
        path = Path(self.snapshots.path(snapshot_id))
        path.write_bytes(path.read_bytes()[:-1])

    def cut_prefix(self, offset: int) -> None:
        self.log.advance_log_start(offset)
        self.log.full.remove_oldest(sum(segment.next_offset <= offset for segment in self.log.segments))
        self.log.full.run_file_changes(sync=True)

    def range(self) -> tuple[int, int]:
        return self.log.log_start_offset, self.log.log_end_offset


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Metadata]:
    found = Metadata(tmp_path)
    yield found
    found.manager.close(clean=False)


def ids(beginning: LogBeginning) -> list[EpochEndOffset]:
    return [one.snapshot_id for one in beginning.kept]


def test_without_a_snapshot_it_begins_at_zero(node: Metadata) -> None:
    beginning = node.restart()
    assert (ids(beginning), beginning.loaded, node.range()) == ([BEGINNING], None, (0, END))


def test_the_newest_sound_snapshot_counts_and_the_older_ones_are_kept(node: Metadata) -> None:
    older, newest, damaged = node.write(3, 1), node.write(9, 4), node.write(11, 4)
    node.damage(damaged)
    beginning = node.restart()
    assert ids(beginning) == [BEGINNING, older, newest] and node.range() == (0, END)
    assert beginning.loaded is not None and beginning.loaded.contents == image_at(9, 4)
    assert [one.time_ms for one in beginning.kept] == [0, TIME_MS + 3, TIME_MS + 9]
    assert Path(node.snapshots.path(damaged)).exists(), "for a person to look at"


@pytest.mark.parametrize("clean", [True, False], ids=["stop", "kill"])
@pytest.mark.parametrize("end_offset", [3, 6, 8, END])
def test_a_log_that_starts_in_the_middle_of_an_epoch_is_whole(node: Metadata, end_offset: int, clean: bool) -> None:
    newest = node.write(end_offset, 1 if end_offset <= 6 else 4)
    node.cut_prefix(end_offset)
    beginning = node.restart(clean=clean)
    assert ids(beginning) == [newest] and node.range() == (end_offset, END)
    beginning = node.restart(clean=clean)
    assert ids(beginning) == [newest] and node.range() == (end_offset, END)


def test_a_start_removes_what_a_crash_left_before_the_oldest_snapshot_that_counts(node: Metadata) -> None:
    """The file of the snapshot at 3 was removed, and the log not cut yet; the one at 2 came back."""
    node.write(2, 1)
    newest = node.write(8, 4)
    node.cut_prefix(3)
    beginning = node.restart()
    assert ids(beginning) == [newest] and node.range() == (8, END) and node.snapshots.found() == (newest,)


@pytest.mark.parametrize("newest", [EpochEndOffset(4, 15), EpochEndOffset(5, 15), EpochEndOffset(5, 9)])
def test_a_log_that_does_not_reach_an_installed_snapshot_begins_anew_behind_it(
    node: Metadata, newest: EpochEndOffset
) -> None:
    """A crash fell between the snapshot's name and the log's new beginning."""
    older = node.write(3, 1)
    node.write(newest.end_offset, newest.epoch)
    beginning = node.restart()
    assert ids(beginning) == [newest] and node.range() == (newest.end_offset,) * 2
    assert older not in node.snapshots.found()
    assert ids(node.restart()) == [newest] and node.range() == (newest.end_offset,) * 2


def test_a_damaged_snapshot_gives_way_to_an_older_one_that_the_log_reaches(node: Metadata) -> None:
    older, newest = node.write(3, 1), node.write(9, 4)
    node.cut_prefix(3)
    node.damage(newest)
    beginning = node.restart()
    assert ids(beginning) == [older] and node.range() == (3, END)


def test_records_that_are_in_no_sound_snapshot_and_not_in_the_log_are_missed(node: Metadata) -> None:
    newest = node.write(9, 4)
    node.cut_prefix(9)
    node.damage(newest)
    with pytest.raises(CorruptFileError, match="begins at offset 9, and no sound snapshot reaches it; see `A quorum"):
        node.restart()
    node.write(3, 1)
    with pytest.raises(CorruptFileError, match="begins at offset 9"):
        node.restart()


def test_a_log_whose_snapshots_are_gone_is_refused_before_anything_is_cut(node: Metadata) -> None:
    node.cut_prefix(8)
    node.manager.close(clean=True)
    with pytest.raises(CorruptFileError, match="begins at offset 8, and no sound snapshot reaches it"):
        node.start()
    assert node.manager.logs()[0].log_end_offset == END


def test_a_log_that_goes_without_its_beginning_is_noted_before_it_does(node: Metadata) -> None:
    """A start may be what cuts it: a log that rotted below its own snapshot begins anew behind that."""
    seen: list[tuple[int, int]] = []

    def begun() -> LogBeginning:
        node.manager.close(clean=True)
        node.start()
        return find_beginning(node.log, node.snapshots, lambda: seen.append(node.range()))

    node.write(8, 4)
    begun()
    assert seen == [] and node.range() == (0, END)
    node.log.truncate_to(7)
    node.log.flush()
    begun()
    assert seen == [(0, 7)] and node.range() == (8, 8)
    begun()
    assert seen[1:] == [(8, 8)], "at each start, whoever cut it"


def test_a_cut_makes_room_on_a_full_disk_and_what_is_refused_is_put_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Metadata(tmp_path)
    kept = disk.write(8, 4)
    refusals = [OSError(errno.ENOSPC, "full")]

    def before_cut() -> None:
        if refusals:
            raise refusals.pop()

    log = MetadataLog(disk.log, machine().clock, snapshots=disk.snapshots, before_cut=before_cut)
    log.cut_prefix(kept.end_offset)
    assert disk.range() == (0, END) and "cut later" in caplog.text
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(disk.log), "roll", refuses)
        log.cut_prefix(kept.end_offset)
        log.remove_files()
    assert disk.range() == (kept.end_offset, END) and len(disk.log.segments) == END - 8 + 1


def refuses(_log: Log) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_a_lack_of_descriptors_while_a_snapshot_replaces_the_log_is_waited_for(node: Metadata) -> None:
    taken = LoadedSnapshot(node.write(20, 9), image_at(20, 9))
    log = MetadataLog(node.log, machine().clock, snapshots=node.snapshots)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MetadataSnapshots, "kept", no_descriptors)
        with pytest.raises(NoRoomError):
            log.begin_after(taken)
    assert node.range() == (0, END)
    log.begin_after(taken)
    assert node.range() == (20, 20) and log.snapshot_ids == (taken.snapshot_id,)


def no_descriptors(_snapshots: MetadataSnapshots, _id: EpochEndOffset) -> KeptSnapshot:
    raise OSError(errno.EMFILE, "too many open files")


def test_epochs_that_a_crash_left_of_the_log_before_are_dropped(node: Metadata) -> None:
    """The log was begun anew behind the snapshot of a leader, and its checkpoint of epochs still has a later one."""
    newest = node.write(15, 3)
    node.log.truncate_fully_and_start_at(15)
    write_epochs(node.fs, f"{node.log.directory}/{LEADER_EPOCH_CHECKPOINT}", [EpochEntry(4, 15)])
    beginning = node.restart(clean=False)
    assert ids(beginning) == [newest] and (node.range(), node.log.latest_epoch) == ((15, 15), -1)


@pytest.mark.parametrize(("end_offset", "epoch"), [(8, 3), (8, 5), (9, 3)])
def test_an_epoch_at_the_logs_start_that_no_snapshot_has_is_cut(
    node: Metadata, end_offset: int, epoch: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No checksum covers a batch's epoch; the log starts at 8, in epoch 4."""
    node.cut_prefix(8)
    node.snapshots.write(image_at(end_offset, epoch), TIME_MS)
    beginning = node.restart()
    assert "has leader epoch 4, which it did not begin; the log is cut there" in caplog.text
    assert ids(beginning) == [EpochEndOffset(epoch, end_offset)] and node.range() == (end_offset,) * 2


def test_each_snapshot_closes_a_segment_so_that_it_goes_with_the_snapshot_before_it(node: Metadata) -> None:
    kept, cuts = [BEGINNING], 0

    def before_cut() -> None:
        nonlocal cuts
        cuts += 1

    log = MetadataLog(node.log, machine().clock, snapshots=node.snapshots, before_cut=before_cut)
    for end in range(END, END + 40, 4):
        for _ in range(4):
            node.log.append.as_leader(build_batch((b'{"type":"NoOp"}',), timestamps_ms=0), 4, 0)
        node.log.flush()
        kept.append(node.write(end + 4, 4))
        kept = kept[-3:]
        log.cut_prefix(kept[0].end_offset)
        log.remove_files()
    assert node.range() == (kept[0].end_offset, kept[-1].end_offset) and cuts == 1
    segments = [name for name in node.fs.listdir(node.log.directory) if name.endswith((".log", ".deleted"))]
    assert sorted(segments) == [f"{offset:020d}.log" for offset in (END + 32, END + 36, END + 40)]
    beginning = node.restart()
    assert (ids(beginning), node.range()) == (kept, (END + 32, END + 40))


def voters(*directory_ids: str) -> VoterSet:
    return VoterSet(tuple(Voter(number, directory_id) for number, directory_id in enumerate(directory_ids, 1)))


def append(node: Metadata, value: bytes) -> int:
    """The offset of a new record."""
    node.log.append.as_leader(build_batch((value,), timestamps_ms=0), 4, 0)
    node.log.flush()
    return node.log.log_end_offset - 1


def write_with_voters(node: Metadata, end_offset: int, named: VoterSet) -> None:
    delta = MetadataDelta(image_at(end_offset - 1, 4))
    delta.replay(VotersRecord(named))
    node.snapshots.write(delta.apply(end_offset - 1, 4), TIME_MS)


def test_a_log_says_each_set_of_voters_that_its_records_name(node: Metadata) -> None:
    assert node.restart().voter_sets == ()
    first, second = append(node, voters_value(voters("a"))), append(node, voters_value(voters("a", "b")))
    append(node, b'{"type":"NoOp","version":0}')
    assert node.restart().voter_sets == ((first, voters("a")), (second, voters("a", "b")))


def test_the_newest_snapshot_says_the_voters_of_all_that_is_below_its_end(node: Metadata) -> None:
    below = append(node, voters_value(voters("a")))
    write_with_voters(node, below + 1, voters("a"))
    behind = append(node, voters_value(voters("a", "b")))
    beginning = node.restart()
    assert beginning.voter_sets == ((-1, voters("a")), (behind, voters("a", "b")))
    assert beginning.loaded is not None and beginning.loaded.voters == voters("a")


def test_a_snapshot_of_a_static_quorum_names_no_voters(node: Metadata) -> None:
    node.write(9, 4)
    beginning = node.restart()
    assert beginning.loaded is not None and beginning.loaded.voters is None and beginning.voter_sets == ()


def test_voters_of_a_snapshot_that_the_leader_sent_are_given_to_the_quorum(node: Metadata) -> None:
    log = MetadataLog(node.log, machine().clock, snapshots=node.snapshots)
    write_with_voters(node, END, voters("a", "b"))
    (sent,) = node.snapshots.found()
    data = Path(node.snapshots.path(sent)).read_bytes()
    log.write_snapshot(sent, 0, data)
    taken = log.complete_snapshot(sent)
    assert taken is not None and taken.voters == voters("a", "b")


def test_a_newer_releases_record_of_voters_is_not_guessed_at(node: Metadata) -> None:
    append(node, b'{"type":"Voters","version":7,"voters":[]}')
    with pytest.raises(CorruptMessageError, match="upgrade this node"):
        node.restart()


@pytest.mark.parametrize("is_lowered", [True, False])
def test_what_an_older_release_cannot_read_stays_away_after_a_crash_that_brought_it_back(
    node: Metadata, is_lowered: bool
) -> None:
    """The files of the log's beginning go later than the snapshot comes, and a start finds them again."""
    lowering = encode_record(FeatureLevelRecord("metadata.version", 1, "0.2.0"))
    value = lowering if is_lowered else encode_record(TopicRecord("FeatureLevel", "id"))
    node.log.append.as_leader(build_batch((value,), timestamps_ms=0), 4, 0)
    older, newest = node.write(3, 1), node.write(13, 4)
    noted: list[str] = []
    node.manager.close(clean=False)
    node.start()
    found = find_beginning(node.log, node.snapshots, lambda: noted.append("cut"))
    kept = [newest] if is_lowered else [BEGINNING, older, newest]
    assert ([one.snapshot_id for one in found.kept], node.range()) == (kept, (kept[0].end_offset, 13))
    assert noted == ["cut"] * is_lowered and list(node.snapshots.found()) == [one for one in kept if one.end_offset]
