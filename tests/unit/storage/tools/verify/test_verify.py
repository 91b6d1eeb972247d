"""`penstock log verify`: for each kind of file that is flipped, cut, lost or left over, what is said of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.types import EpochEntry, TopicPartition
from storage.disk.checkpoint_file import write_epochs, write_offsets
from storage.disk.file_names import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from storage.disk.file_system import OsFileSystem
from storage.recovery.producer_snapshot import read_snapshot, snapshot_content
from storage.tools.overlay import OverlayFileSystem
from storage.tools.target import find_target
from storage.tools.verify.findings import NEW_VOTER, Finding, LogReport
from storage.tools.verify.verify_log import VerifyOptions
from storage.tools.verify.verify_log_dir import verify
from tests.support.log_dirs import BATCH_BYTES, FIRST, SECOND, THIRD, Damage, contents, cut, flip, make_log_dir
from tests.support.storage import TP

EPOCHS = "leader-epoch-checkpoint"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "data", clean=False, flushed=16)


def verified(path: Path, *, deep: bool = False) -> tuple[list[Finding], list[LogReport]]:
    before = contents(path)
    found = list(verify(find_target(OverlayFileSystem(), str(path)), VerifyOptions(deep=deep)))
    assert contents(path) == before, "a verification changes nothing"
    return [f for f in found if isinstance(f, Finding)], [f for f in found if isinstance(f, LogReport)]


def problems(path: Path, *, deep: bool = False) -> list[Finding]:
    """All that is no note."""
    return [finding for finding in verified(path, deep=deep)[0] if finding.severity != "note"]


def only(path: Path, *, deep: bool = False) -> Finding:
    found = problems(path, deep=deep)
    assert len(found) == 1, found
    return found[0]


def test_a_log_dir_that_was_stopped_in_order_is_sound(data: Path) -> None:
    found, reports = verified(data, deep=True)
    assert found == []
    orders = next(report for report in reports if report.directory.endswith("orders-0"))
    assert (orders.log_start_offset, orders.log_end_offset, orders.recovery_point) == (0, 20, 20)
    assert (orders.segments, orders.batches, orders.records) == (3, 20, 20)
    assert orders.size_bytes == 20 * BATCH_BYTES


def test_a_log_dir_after_a_kill_is_sound_and_says_that_it_was_one(killed: Path) -> None:
    found, reports = verified(killed)
    assert [finding.kind for finding in found] == ["unclean-stop"]
    assert [(report.log_end_offset, report.recovery_point) for report in reports] == [(20, 16), (0, 0)]


def test_a_partition_directory_is_verified_with_what_its_log_dir_knows(data: Path) -> None:
    _, reports = verified(data / "orders-0")
    assert [report.recovery_point for report in reports] == [20]


def test_a_partition_directory_that_stands_alone_is_verified_without(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data / "orders-0", tmp_path / "elsewhere")
    found, reports = verified(copy)
    assert found == [] and reports[0].recovery_point is None and reports[0].log_end_offset == 20


@pytest.mark.parametrize("path", ["", "missing", "data/meta.properties"])
def test_what_is_neither_a_partition_nor_a_log_dir_is_refused(data: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="; give a directory like data/orders-0 or data"):
        find_target(OverlayFileSystem(), str(data.parent / path))


# -- segments ----------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_below_the_recovery_point_is_rot(data: Path) -> None:
    flip(data / "orders-0" / FIRST, 2 * BATCH_BYTES + 40)
    found = only(data)
    assert (found.severity, found.kind) == ("damage", "rot")
    assert found.file == str(data / "orders-0" / FIRST)
    assert (found.position, found.offset) == (2 * BATCH_BYTES, 2)
    assert "everything below offset 20 was flushed, so this is rot" in found.what
    assert "--truncate-at-damage" in found.remedy


def test_the_log_is_read_on_behind_rot(data: Path) -> None:
    flip(data / "orders-0" / FIRST, 2 * BATCH_BYTES + 40)
    flip(data / "orders-0" / FIRST, 4 * BATCH_BYTES + 40)
    found, reports = verified(data)
    assert [finding.offset for finding in found] == [2, 4]
    assert reports[0].batches == 18 and reports[0].log_end_offset == 20


def test_a_flipped_bit_above_the_recovery_point_is_a_torn_tail(killed: Path) -> None:
    flip(killed / "orders-0" / THIRD, 3 * BATCH_BYTES + 40)
    found = only(killed)
    assert (found.severity, found.kind, found.position, found.offset) == ("warning", "torn-tail", 3 * BATCH_BYTES, 17)
    assert f"a torn tail of {3 * BATCH_BYTES} bytes, above the recovery point 16; good batches follow (2)" in found.what


def test_a_cut_file_above_the_recovery_point_is_a_torn_tail(killed: Path) -> None:
    cut(killed / "orders-0" / THIRD, 5 * BATCH_BYTES + 10)
    found, reports = verified(killed)
    torn = next(finding for finding in found if finding.kind == "torn-tail")
    assert torn.severity == "warning" and torn.offset == 19 and "10 bytes that are no whole batch" in torn.what
    assert "good batches follow" not in torn.what
    assert reports[0].log_end_offset == 19


def test_a_cut_file_below_the_recovery_point_is_damage(data: Path) -> None:
    cut(data / "orders-0" / THIRD, 5 * BATCH_BYTES + 10)
    assert (only(data).severity, only(data).offset) == ("damage", 19)


def test_records_that_are_missing_without_a_trace_are_damage(data: Path) -> None:
    cut(data / "orders-0" / THIRD, 5 * BATCH_BYTES)
    found = next(finding for finding in problems(data) if finding.severity == "damage")
    assert (found.kind, found.offset) == ("short", 19)
    assert "was flushed up to offset 20" in found.what


def test_a_lost_segment_is_damage(data: Path) -> None:
    (data / "orders-0" / SECOND).unlink()
    kinds = {(finding.severity, finding.kind) for finding in problems(data)}
    assert kinds == {("damage", "rot"), ("warning", "index-orphan")}
    assert "begins at offset 14, but the one before ends at 7" in problems(data)[-1].what


def test_a_tear_in_an_older_segment_takes_what_follows_along(tmp_path: Path) -> None:
    path = make_log_dir(tmp_path / "data", clean=False, flushed=8)
    flip(path / "orders-0" / SECOND, 2 * BATCH_BYTES + 40)
    assert "and 1 segment behind it" in only(path).what


@pytest.mark.parametrize("at", [0, 7, 12, 15, 16])
def test_a_flipped_bit_in_what_the_checksum_leaves_out_is_found(data: Path, at: int) -> None:
    """Base offset, length, epoch, magic."""
    flip(data / "orders-0" / SECOND, 3 * BATCH_BYTES + at, 2)
    found = only(data)
    assert (found.severity, found.position, found.offset) == ("damage", 3 * BATCH_BYTES, 10)


def test_a_gap_is_damage(data: Path) -> None:
    segment = data / "orders-0" / SECOND
    raw = segment.read_bytes()
    segment.write_bytes(raw[: 2 * BATCH_BYTES] + raw[3 * BATCH_BYTES :])
    found = problems(data)[0]
    assert (found.severity, found.position, found.offset) == ("damage", 2 * BATCH_BYTES, 9)
    assert found.what.startswith("the batch at offset 10 stands where offset 9 should follow")


def test_without_a_recovery_point_only_a_cut_end_is_taken_for_a_tear(data: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(data / "orders-0", tmp_path / "orders-0")
    cut(copy / THIRD, 5 * BATCH_BYTES + 10)
    assert only(copy).severity == "warning"
    flip(copy / THIRD, 40)
    assert {finding.severity for finding in problems(copy)} == {"damage"}
    assert "no recovery point is known here" in problems(copy)[0].remedy


def test_damage_of_a_metadata_log_has_another_remedy(data: Path) -> None:
    (data / "orders-0").rename(data / "__cluster_metadata-0")
    write_offsets(OsFileSystem(), str(data / RECOVERY_POINT_CHECKPOINT), {TopicPartition("__cluster_metadata", 0): 20})
    flip(data / "__cluster_metadata-0" / FIRST, 40)
    assert any(NEW_VOTER in finding.remedy for finding in problems(data))


def test_records_that_do_not_decode_are_found_by_deep(data: Path) -> None:
    segment = data / "orders-0" / THIRD
    good = build_batch([b"a" * 1000], timestamps_ms=1, base_offset=20, leader_epoch=2, codec=Codec.GZIP)
    broken = bytearray(good)
    broken[75] ^= 255
    broken[17:21] = crc_of(broken).to_bytes(4, "big")
    segment.write_bytes(segment.read_bytes() + broken)
    assert problems(data) == []
    found = only(data, deep=True)
    assert (found.severity, found.kind, found.offset) == ("damage", "undecodable", 20)


def crc_of(batch: bytearray) -> int:
    from crc32c import crc32c

    return crc32c(bytes(batch[21:]))


# -- disposable files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("byte", [0, 3, 7, 8, 11])
def test_a_flipped_bit_in_an_index_is_a_warning(data: Path, suffix: str, byte: int) -> None:
    flip((data / "orders-0" / FIRST).with_suffix(suffix), byte, 64)
    found = only(data)
    assert (found.severity, found.kind) == ("warning", "index")
    assert found.file.endswith(suffix) and found.position is not None and "costs only time" in found.remedy


def test_a_cut_index_is_a_warning(data: Path) -> None:
    index = (data / "orders-0" / FIRST).with_suffix(".index")
    cut(index, len(index.read_bytes()) - 3)
    assert (only(data).severity, only(data).kind) == ("warning", "index")


def test_a_time_index_that_does_not_end_with_the_largest_timestamp_is_a_warning(data: Path) -> None:
    index = (data / "orders-0" / FIRST).with_suffix(".timeindex")
    cut(index, len(index.read_bytes()) - 12)
    assert "is not the largest timestamp" in only(data).what


def test_a_lost_index_is_a_warning_where_it_should_be(data: Path) -> None:
    (data / "orders-0" / FIRST).with_suffix(".index").unlink()
    assert (only(data).severity, only(data).kind) == ("warning", "index-missing")


def test_a_half_finished_swap_is_seen_as_what_it_becomes(data: Path) -> None:
    """The cleaned segment has replaced the first two; a crash came before it got their name."""
    orders = data / "orders-0"
    cleaned = (orders / FIRST).read_bytes() + (orders / SECOND).read_bytes()
    (orders / f"{FIRST}.swap").write_bytes(cleaned)
    found, reports = verified(data)
    assert {finding.kind for finding in found} == {"leftover", "index-missing"}
    assert reports[0].segments == 2 and reports[0].batches == 20


def test_a_deleted_log_is_a_leftover_and_what_was_set_aside_a_note(data: Path) -> None:
    (data / f"gone-0.{'A' * 22}-delete").mkdir()
    (data / f"lost-0.{'A' * 22}-stray").mkdir()
    assert only(data).kind == "leftover"
    assert "set-aside" in {finding.kind for finding in verified(data)[0]}


def test_strangers_are_notes(data: Path) -> None:
    (data / "orders-0" / "README").touch()
    assert problems(data) == [] and [finding.kind for finding in verified(data)[0]] == ["foreign"]


# -- small files -------------------------------------------------------------------------------------------------------


def damaged_epochs(data: Path) -> None:
    flip(data / "orders-0" / EPOCHS, 4)


def lost_epochs(data: Path) -> None:
    (data / "orders-0" / EPOCHS).unlink()


def damaged_metadata(data: Path) -> None:
    flip(data / "orders-0" / "partition.metadata", 25)


def lost_metadata(data: Path) -> None:
    (data / "orders-0" / "partition.metadata").unlink()


def damaged_properties(data: Path) -> None:
    flip(data / "meta.properties", 30)


def lost_properties(data: Path) -> None:
    (data / "meta.properties").unlink()


def damaged_vote(data: Path) -> None:
    (data / "orders-0" / "quorum-state").write_text('{"leaderId": 1, "crc32c": "00000000"}\n')


def damaged_promise(data: Path) -> None:
    (data / "quorum-voter").write_text('{"hasVoted": true, "voters": [0, 1, 2], "crc32c": "00000000"}\n')


def damaged_first_voters(data: Path) -> None:
    (data / "first-voters").write_text('{"records": [], "data_version": 1, "crc32c": "00000000"}\n')


def damaged_metadata_snapshot(data: Path) -> None:
    sound = build_batch([b"v"] * 3, timestamps_ms=1, base_offset=0, leader_epoch=0)
    (data / "orders-0" / "00000000000000000003-0000000001.checkpoint").write_bytes(sound)
    (data / "orders-0" / "00000000000000000007-0000000001.checkpoint").write_bytes(sound[:-1] + b"?")


def log_start_above_end(data: Path) -> None:
    write_offsets(OsFileSystem(), str(data / LOG_START_CHECKPOINT), {TP: 99})


def high_watermark_above_end(data: Path) -> None:
    write_offsets(OsFileSystem(), str(data / HIGH_WATERMARK_CHECKPOINT), {TP: 99})


@pytest.mark.parametrize(
    "damage, severity, kind",
    [
        (damaged_epochs, "warning", "epoch-checkpoint"),
        (lost_epochs, "warning", "epoch-checkpoint"),
        (damaged_metadata, "damage", "partition-metadata"),
        (lost_metadata, "damage", "partition-metadata"),
        (damaged_properties, "damage", "meta-properties"),
        (lost_properties, "warning", "meta-properties"),
        (damaged_vote, "damage", "quorum-state"),
        (damaged_promise, "warning", "quorum-voter"),
        (damaged_first_voters, "damage", "first-voters"),
        (damaged_metadata_snapshot, "damage", "metadata-snapshot"),
        (log_start_above_end, "warning", "checkpoint"),
        (high_watermark_above_end, "warning", "checkpoint"),
    ],
)
def test_a_damaged_or_lost_small_file_is_found(data: Path, damage: Damage, severity: str, kind: str) -> None:
    damage(data)
    assert (only(data).severity, only(data).kind) == (severity, kind)


def test_an_epoch_checkpoint_that_contradicts_the_batches_is_damage(data: Path) -> None:
    write_epochs(OsFileSystem(), str(data / "orders-0" / EPOCHS), [EpochEntry(0, 0), EpochEntry(1, 10)])
    found = problems(data)
    assert {finding.severity for finding in found} == {"damage"} and found[0].offset == 8


def test_a_damaged_recovery_point_checkpoint_is_a_warning_and_no_point_is_known(data: Path) -> None:
    flip(data / RECOVERY_POINT_CHECKPOINT, 6)
    found, reports = verified(data)
    assert [(finding.severity, finding.kind) for finding in found] == [("warning", "checkpoint")]
    assert reports[0].recovery_point is None


def test_a_line_of_a_log_that_is_not_here_is_a_note(data: Path) -> None:
    write_offsets(OsFileSystem(), str(data / RECOVERY_POINT_CHECKPOINT), {TP: 20, TopicPartition("moved", 3): 5})
    assert [finding.what for finding in verified(data)[0]] == [
        "moved-3 was flushed up to offset 5, and is not here: deleted, or moved away"
    ]


def test_a_log_dir_that_a_node_uses_is_verified_and_it_is_said(data: Path) -> None:
    fs = OsFileSystem()
    lock = fs.lock(str(data / ".lock"))
    try:
        assert [finding.kind for finding in verified(data)[0]] == ["in-use"]
    finally:
        fs.close(lock)


def test_snapshots_of_producers_that_are_right_are_sound(tmp_path: Path) -> None:
    data = make_log_dir(tmp_path / "data", producers=2)
    assert verified(data)[0] == []


def test_a_snapshot_that_a_start_does_not_use_is_a_warning(tmp_path: Path) -> None:
    data = make_log_dir(tmp_path / "data", producers=2)
    orders = data / "orders-0"
    good = (orders / f"{14:020d}.snapshot").read_bytes()

    flip(orders / f"{14:020d}.snapshot", 5)
    assert [(found.severity, found.kind) for found in problems(data)] == [("warning", "snapshot")]

    snapshot = read_snapshot(OsFileSystem(), str(orders), 20)
    assert snapshot is not None
    (orders / f"{14:020d}.snapshot").write_bytes(good)
    (orders / f"{25:020d}.snapshot").write_bytes(snapshot_content(snapshot._replace(offset=25)))
    assert "the log ends at 20" in only(data).what
    (orders / f"{25:020d}.snapshot").unlink()
    (orders / f"{20:020d}.snapshot").write_bytes(snapshot_content(snapshot._replace(leader_epoch=1)))
    assert "does not have leader epoch 1" in only(data).what


def test_a_snapshot_that_contradicts_the_batches_is_damage(tmp_path: Path) -> None:
    data = make_log_dir(tmp_path / "data", producers=2)
    path = data / "orders-0" / f"{14:020d}.snapshot"
    snapshot = read_snapshot(OsFileSystem(), str(path.parent), 14)
    assert snapshot is not None
    entry = snapshot.producers[1]
    for wrong in (entry._replace(batches=entry.batches[:-1]), entry._replace(epoch=3)):
        path.write_bytes(snapshot_content(snapshot._replace(producers={**snapshot.producers, 1: wrong})))
        assert (only(data).severity, only(data).kind) == ("damage", "snapshot")
    path.write_bytes(snapshot_content(snapshot._replace(producers={0: snapshot.producers[0]})))
    assert problems(data) == [], "a producer that was silent for too long is forgotten"
