"""`penstock log verify`: what it finds in segment files, good and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.log import findings
from penstock.errors import ConfigError
from penstock.record.builder import build_batch


def write_segment(directory: Path, base_offset: int, batches: int) -> Path:
    """A segment of batches with three records each."""
    starts = range(base_offset, base_offset + 3 * batches, 3)
    data = b"".join(
        build_batch([b"a", b"b", b"c"], timestamps_ms=1, base_offset=start, leader_epoch=0) for start in starts
    )
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(data)
    return path


def problems(directory: Path, *, gaps_allowed: bool = False) -> list[str]:
    return [found.problem for found in findings(directory, gaps_allowed=gaps_allowed) if found.problem]


def test_good_segments_have_no_problems(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, 2)
    write_segment(tmp_path, 6, 1)
    found = list(findings(tmp_path, gaps_allowed=False))
    assert [batch.header.base_offset for batch in found if batch.header] == [0, 3, 6]
    assert problems(tmp_path) == []


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, 2)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert problems(tmp_path) == ["the checksum does not fit"]


def test_a_torn_tail_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, 2)
    path.write_bytes(path.read_bytes()[:-3])
    assert len(problems(tmp_path)) == 1 and "no whole batch" in problems(tmp_path)[0]


def test_a_missing_segment_is_a_gap_unless_the_topic_is_compacted(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, 1)
    write_segment(tmp_path, 9, 1)
    assert problems(tmp_path) == ["begins at offset 9, expected 3"]
    assert problems(tmp_path, gaps_allowed=True) == []


def test_offsets_that_fall_are_found_even_in_a_compacted_topic(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, 2)
    write_segment(tmp_path, 3, 1)
    assert problems(tmp_path, gaps_allowed=True) == ["begins at offset 3, expected 6"]


def test_a_directory_without_segments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no segment files \(\*\.log\)"):
        list(findings(tmp_path, gaps_allowed=False))
