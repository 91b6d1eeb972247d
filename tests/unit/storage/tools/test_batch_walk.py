"""The walk that goes on behind damage: what it tells of each batch, for every way a file can be bad."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from penstock.record.builder import build_batch
from storage.disk.file_system import OsFileSystem
from storage.segment.batch_scan import MAX_OFFSETS, LogFile
from storage.tools.batch_walk import CHUNK_BYTES, Seen, walk


def file_of(path: Path, content: bytes) -> LogFile:
    path.write_bytes(content)
    fs = OsFileSystem()
    return LogFile(fs, fs.open(str(path)), str(path), len(content), 0, MAX_OFFSETS)


def walked(path: Path, content: bytes, chunk_bytes: int = CHUNK_BYTES) -> list[Seen]:
    file = file_of(path, content)
    try:
        return list(walk(file, lambda count: None, chunk_bytes))
    finally:
        file.fs.close(file.fd)


def batches(sizes: list[int]) -> list[bytes]:
    return [build_batch([b"x" * size], timestamps_ms=1, base_offset=at) for at, size in enumerate(sizes)]


@pytest.mark.parametrize("chunk_bytes", [61, 64, 100, 150, 1000, 512 * 1024])
def test_every_batch_is_seen_whatever_the_chunk(tmp_path: Path, chunk_bytes: int) -> None:
    random = Random(chunk_bytes)
    parts = batches([random.randrange(0, 300) for _ in range(50)])
    bad = {random.randrange(50) for _ in range(5)}
    content = b"".join(part[:-1] + b"\xff" if at in bad else part for at, part in enumerate(parts))
    found = walked(tmp_path / "log", content, chunk_bytes)
    assert [seen.header.base_offset for seen in found if seen.header] == list(range(50))
    assert {at for at, seen in enumerate(found) if seen.problem} == bad
    ends = [sum(map(len, parts[:at])) for at in range(50)]
    assert [seen.position for seen in found] == ends


class Counting(OsFileSystem):
    """Notes the size of every read."""

    def __init__(self) -> None:
        self.reads: list[int] = []

    def pread(self, fd: int, size: int, at: int) -> bytes:
        self.reads.append(size)
        return super().pread(fd, size, at)


def counted(path: Path, content: bytes, chunk_bytes: int = CHUNK_BYTES) -> tuple[list[Seen], list[int], int]:
    """The batches, the sizes of the reads, and the sum of what `on_read` was told."""
    path.write_bytes(content)
    fs, reported = Counting(), []
    file = LogFile(fs, fs.open(str(path)), str(path), len(content), 0, MAX_OFFSETS)
    found = list(walk(file, reported.append, chunk_bytes))
    fs.close(file.fd)
    return found, fs.reads, sum(reported)


def test_nothing_is_read_twice_but_for_the_end_of_a_chunk(tmp_path: Path) -> None:
    content = b"".join(batches([60_000] * 40))
    found, reads, reported = counted(tmp_path / "log", content)
    assert len(found) == 40 and reported == len(content)
    assert len(content) <= sum(reads) < 1.2 * len(content)


@pytest.mark.parametrize(
    "tail, what, is_cut_off",
    [
        (b"\x00" * 30, "30 bytes that are no whole batch", True),
        (b"\x00" * 100, "zeros where a batch should begin", True),
        (b"\x01" * 100, "no batch begins here", False),
        (batches([50])[0][:-1], "the batch at offset 0 is cut off: its last 1 bytes are missing", True),
    ],
)
def test_what_stands_behind_the_last_batch(tmp_path: Path, tail: bytes, what: str, is_cut_off: bool) -> None:
    (good,) = batches([10])
    first, last = walked(tmp_path / "log", good + tail)
    assert first.problem == "" and last.header is None and last.position == len(good)
    assert what in last.problem and last.is_cut_off is is_cut_off


def test_a_length_that_claims_the_whole_file_allocates_nothing(tmp_path: Path) -> None:
    parts = batches([100] * 100)
    content = bytearray(b"".join(parts))
    content[8:12] = (len(content) - 12).to_bytes(4, "big")
    (seen,), reads, reported = counted(tmp_path / "log", bytes(content), 1024)
    assert "checksum" in seen.problem and max(reads) <= 1024 and reported == len(content)


def test_a_sector_that_cannot_be_read_is_told_with_its_position(tmp_path: Path) -> None:
    class BadSector(OsFileSystem):
        def pread(self, fd: int, size: int, at: int) -> bytes:
            if at + size > 200_000:
                raise OSError(errno.EIO, "Input/output error")
            return super().pread(fd, size, at)

    content = b"".join(batches([600_000] * 2))
    path = tmp_path / "log"
    path.write_bytes(content)
    fs = BadSector()
    file = LogFile(fs, fs.open(str(path)), str(path), len(content), 0, MAX_OFFSETS)
    (seen,) = walk(file, lambda count: None)
    fs.close(file.fd)
    assert seen == Seen(0, None, "the disk does not give back what begins here: Input/output error")


def test_a_file_that_became_shorter_meanwhile_is_cut_off(tmp_path: Path) -> None:
    content = b"".join(batches([100] * 3))
    file = file_of(tmp_path / "log", content)
    (tmp_path / "log").write_bytes(content[:50])
    (seen,) = walk(file, lambda count: None)
    file.fs.close(file.fd)
    assert seen.header is None and seen.is_cut_off
