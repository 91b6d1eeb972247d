"""Promises about closed segments: which files count, and that each kind of damage in one is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError, CorruptFileError
from penstock.pipelines.segments import segment_walk
from penstock.pipelines.segments.replica_files import ClosedSegment, closed_segments, read_offset_checkpoint
from penstock.pipelines.segments.segment_walk import SegmentFault, WalkedBatch, walk_segment
from tests.support.replica_dirs import (
    batch_bytes,
    flip_bit,
    make_log_dirs,
    replace_batch,
    segment_path,
    write_checkpoint,
)

SIZE = len(batch_bytes(0))


def first_segment(tmp_path: Path) -> ClosedSegment:
    return closed_segments(make_log_dirs(tmp_path, 1))[0]


def faults(segment: ClosedSegment) -> list[SegmentFault]:
    return [found for found in walk_segment(segment) if isinstance(found, SegmentFault)]


def test_every_segment_but_the_newest_of_each_replica_is_closed(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 2, high_watermark=33, cleaned=0)
    write_checkpoint(Path(log_dirs[1]) / "cleaner-offset-checkpoint", 10)
    (Path(log_dirs[0]) / "orders-0.AAAAAAAAAAAAAAAAAAAAAA-stray").mkdir()
    (Path(log_dirs[0]) / "__cluster_metadata-0").mkdir()
    found = closed_segments(log_dirs)
    assert [(s.node, s.base_offset, s.next_base_offset) for s in found] == [
        ("node 0", 0, 20),
        ("node 0", 20, 40),
        ("node 1", 0, 20),
        ("node 1", 20, 40),
    ]
    assert {(s.topic_id, s.high_watermark, s.cleaned_offset) for s in found} == {("abc", 33, 10)}
    assert closed_segments(log_dirs, ("payments",)) == []


def test_a_segment_that_the_node_removes_meanwhile_is_left_out(tmp_path: Path) -> None:
    (log_dir,) = make_log_dirs(tmp_path, 1)
    segment_path(Path(log_dir), 10).symlink_to(tmp_path / "removed")  # listed, but not there when it is looked at
    assert [segment.base_offset for segment in closed_segments((log_dir,))] == [0, 20]


def test_a_directory_that_is_no_log_dir_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^log_dirs: {tmp_path} is not a log dir: meta.properties cannot be read"):
        closed_segments((str(tmp_path),))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert read_offset_checkpoint(path) == {}
    write_checkpoint(path, 7)
    flip_bit(path, len(b"1\n1\norders 0 "))
    with pytest.raises(CorruptFileError, match="the last line is not the checksum"):
        read_offset_checkpoint(path)


@pytest.mark.parametrize("read_bytes", [1, SIZE + 1, 1 << 20])
def test_a_whole_segment_is_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    monkeypatch.setattr(segment_walk, "READ_BYTES", read_bytes)
    found = list(walk_segment(first_segment(tmp_path)))
    assert [(b.position, b.base_offset, b.next_offset, b.leader_epoch, b.record_count) for b in batches(found)] == [
        (SIZE * n, 5 * n, 5 * n + 5, 3, 5) for n in range(4)
    ]


def batches(found: list[WalkedBatch | SegmentFault]) -> list[WalkedBatch]:
    assert all(isinstance(one, WalkedBatch) for one in found)
    return [one for one in found if isinstance(one, WalkedBatch)]


def test_a_flipped_bit_is_named_and_the_walk_goes_on(tmp_path: Path) -> None:
    segment = first_segment(tmp_path)
    flip_bit(Path(segment.path), 2 * SIZE - 3)
    assert faults(segment) == [SegmentFault("rot", SIZE, 5, 10, "the batch at offset 5 has a wrong checksum")]
    assert sum(isinstance(found, WalkedBatch) for found in walk_segment(segment)) == 3


@pytest.mark.parametrize(
    ("number", "position", "gap"), [(0, 0, "[0, 5)"), (2, 2 * SIZE, "[10, 15)"), (3, 3 * SIZE, "[15, 20)")]
)
def test_a_missing_batch_is_named_wherever_it_was(tmp_path: Path, number: int, position: int, gap: str) -> None:
    segment = first_segment(tmp_path)
    replace_batch(Path(segment.path), number, b"")
    (fault,) = faults(segment)
    assert (fault.kind, fault.position, fault.text) == ("missing", position, f"offsets {gap} are missing")


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    segment_path(Path(log_dirs[0]), 20).unlink()
    (segment,) = closed_segments(log_dirs)
    (fault,) = faults(segment)
    assert (fault.kind, fault.position, fault.text) == ("missing", 4 * SIZE, "offsets [20, 40) are missing")


def test_a_batch_that_stands_twice_and_an_epoch_that_falls_are_named(tmp_path: Path) -> None:
    segment = first_segment(tmp_path)
    replace_batch(Path(segment.path), 1, batch_bytes(0))
    assert [fault.kind for fault in faults(segment)] == ["overlap", "missing"]
    replace_batch(Path(segment.path), 1, batch_bytes(5, epoch=2))
    assert [(fault.kind, fault.text) for fault in faults(segment)] == [
        ("epoch", "the batch at offset 5 has leader epoch 2, after epoch 3")
    ]


@pytest.mark.parametrize("cut", [1, SIZE - 30])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, cut: int) -> None:
    segment = first_segment(tmp_path)
    path = Path(segment.path)
    path.write_bytes(path.read_bytes()[:-cut])
    (fault,) = faults(segment)
    assert (fault.kind, fault.position) == ("unreadable", 3 * SIZE)
    assert fault.text == f"the last {SIZE - cut} bytes are not a whole batch"


def test_a_header_without_sense_ends_the_walk(tmp_path: Path) -> None:
    segment = first_segment(tmp_path)
    flip_bit(Path(segment.path), SIZE + 16)  # the magic
    (fault,) = faults(segment)
    assert (fault.kind, fault.position, fault.first_offset, fault.next_offset) == ("unreadable", SIZE, 5, 20)


def test_a_file_that_retention_removed_meanwhile_gives_nothing(tmp_path: Path) -> None:
    segment = first_segment(tmp_path)
    Path(segment.path).unlink()
    assert list(walk_segment(segment)) == []
