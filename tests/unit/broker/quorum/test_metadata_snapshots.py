"""Files of metadata snapshots: a name stands for a whole snapshot, also after a crash; damage is never used."""

from __future__ import annotations

from random import Random

import pytest

from broker.quorum.metadata_snapshots import KeptSnapshot, MetadataSnapshots
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import TopicRecord
from penstock.errors import CorruptMessageError
from penstock.types import EpochEndOffset
from storage.disk.file_names import PART_SUFFIX, metadata_snapshot_name, parse_metadata_snapshot
from tests.support.losing_fs import Crashed, LosingFileSystem

TIME_MS = 1_700_000_000_000


def image_at(offset: int, epoch: int = 3) -> MetadataImage:
    delta = MetadataDelta(EMPTY_IMAGE)
    for number in range(offset + 1):
        delta.replay(TopicRecord(f"topic-{number}", f"id-{number}"))
    return delta.apply(offset, epoch)


IMAGE, SNAPSHOT_ID = image_at(9), EpochEndOffset(3, 10)


def empty_disk() -> LosingFileSystem:
    made = LosingFileSystem()
    made.mkdir("/d")
    made.fsync_dir("/")
    return made


@pytest.fixture
def fs() -> LosingFileSystem:
    return empty_disk()


@pytest.fixture
def snapshots(fs: LosingFileSystem) -> MetadataSnapshots:
    return MetadataSnapshots(fs, "/d")


def received(snapshots: MetadataSnapshots, data: bytes, chunk_bytes: int = 100) -> MetadataImage | None:
    for position in range(0, len(data), chunk_bytes):
        snapshots.write_part(SNAPSHOT_ID, position, data[position : position + chunk_bytes])
    return snapshots.complete_part(SNAPSHOT_ID)


def bytes_of(fs: LosingFileSystem) -> bytes:
    MetadataSnapshots(fs, "/d").write(IMAGE, TIME_MS)
    return fs.read_file(f"/d/{metadata_snapshot_name(SNAPSHOT_ID)}")


def test_a_name_tells_the_epoch_and_the_end() -> None:
    name = metadata_snapshot_name(EpochEndOffset(3, 4711))
    assert name == "00000000000000004711-0000000003.checkpoint"
    assert parse_metadata_snapshot(name) == EpochEndOffset(3, 4711)
    others = (name + PART_SUFFIX, name[1:], "00000000000000004711.log", "leader-epoch-checkpoint")
    assert [parse_metadata_snapshot(other) for other in others] == [None] * 4


def test_what_was_written_is_found_loaded_and_removed(snapshots: MetadataSnapshots) -> None:
    kept = snapshots.write(IMAGE, TIME_MS)
    older = snapshots.write(image_at(4), TIME_MS - 1).snapshot_id
    assert snapshots.found() == (older, SNAPSHOT_ID)
    assert snapshots.kept(SNAPSHOT_ID) == kept == KeptSnapshot(SNAPSHOT_ID, kept.size_bytes, TIME_MS)
    assert snapshots.load(SNAPSHOT_ID) == IMAGE
    snapshots.remove([older, older, SNAPSHOT_ID])
    assert snapshots.found() == () and snapshots.read(SNAPSHOT_ID, 0, 10) is None


def test_it_is_read_in_pieces(snapshots: MetadataSnapshots) -> None:
    size_bytes = snapshots.write(IMAGE, TIME_MS).size_bytes
    pieces = [snapshots.read(SNAPSHOT_ID, at, 100) for at in range(0, size_bytes + 100, 100)]
    assert all(piece is not None and piece[0] == size_bytes for piece in pieces)
    assert snapshots.read(SNAPSHOT_ID, (1 << 63) - 1, 100) == (size_bytes, b"")
    assert b"".join(piece[1] for piece in pieces if piece is not None) == bytes_of(empty_disk())


@pytest.mark.parametrize("seed", range(10))
def test_at_every_crash_a_name_stands_for_a_whole_snapshot(seed: int) -> None:
    step = 0
    while True:
        fs, step = empty_disk(), step + 1
        snapshots = MetadataSnapshots(fs, "/d")
        fs.crash_at = fs.operations + step
        try:
            snapshots.write(IMAGE, TIME_MS)
        except Crashed:
            after = MetadataSnapshots(fs.after_crash(Random(seed * 1_000 + step)), "/d")
            assert all(after.load(one) == IMAGE for one in after.found())
            continue
        after = MetadataSnapshots(fs.after_crash(), "/d")
        assert after.load(SNAPSHOT_ID) == IMAGE and step > 4
        return


def test_no_cut_and_no_flipped_byte_is_loaded(fs: LosingFileSystem, snapshots: MetadataSnapshots) -> None:
    size_bytes, path = snapshots.write(IMAGE, TIME_MS).size_bytes, snapshots.path(SNAPSHOT_ID)
    for position in range(size_bytes):
        fs.damage(path, position, 1 << position % 8)
        with pytest.raises(CorruptMessageError):
            snapshots.load(SNAPSHOT_ID)
        fs.damage(path, position, 1 << position % 8)
    assert snapshots.load(SNAPSHOT_ID) == IMAGE
    fs.cut(path, size_bytes - 1)
    with pytest.raises(CorruptMessageError):
        snapshots.load(SNAPSHOT_ID)


# -- a snapshot that the leader sends ----------------------------------------------------------------------------------


def test_what_the_leader_sent_whole_is_durable_under_its_name(
    fs: LosingFileSystem, snapshots: MetadataSnapshots
) -> None:
    assert received(snapshots, bytes_of(empty_disk())) == IMAGE
    after = MetadataSnapshots(fs.after_crash(), "/d")
    assert after.load(SNAPSHOT_ID) == IMAGE
    assert snapshots.complete_part(SNAPSHOT_ID) == IMAGE, "once more, after the log found no room to begin anew"


def test_what_came_damaged_is_gone_and_can_be_sent_again(snapshots: MetadataSnapshots, fs: LosingFileSystem) -> None:
    data = bytes_of(empty_disk())
    assert received(snapshots, data[:150] + bytes([data[150] ^ 1]) + data[151:]) is None
    assert fs.listdir("/d") == []
    assert received(snapshots, data) == IMAGE


def test_what_was_not_sent_to_its_end_is_removed_at_the_next_start(
    fs: LosingFileSystem, snapshots: MetadataSnapshots
) -> None:
    snapshots.write_part(SNAPSHOT_ID, 0, bytes_of(empty_disk())[:100])
    assert len(fs.listdir("/d")) == 1 and snapshots.found() == ()
    MetadataSnapshots(fs, "/d")
    assert fs.listdir("/d") == []


def test_another_snapshot_from_its_beginning_takes_the_place_of_the_part(
    fs: LosingFileSystem, snapshots: MetadataSnapshots
) -> None:
    snapshots.write_part(EpochEndOffset(3, 5), 0, b"some of an older one")
    assert received(snapshots, bytes_of(empty_disk())) == IMAGE
    assert fs.listdir("/d") == [metadata_snapshot_name(SNAPSHOT_ID)]
