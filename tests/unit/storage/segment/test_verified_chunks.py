"""Reading a whole segment for the cleaner: every batch once, whatever the chunks, and no damage goes through."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptFileError
from penstock.record.builder import build_batch
from penstock.types import EpochEntry
from storage.segment.batch_scan import LogFile
from storage.segment.verified_chunks import ChunkReader
from tests.support.losing_fs import LosingFileSystem

SIZES = [3, 700, 1, 40, 40, 5000, 2]
EPOCHS = (EpochEntry(0, 0), EpochEntry(2, 14))
PATH = "/s.log"


def batches() -> list[bytes]:
    """Two offsets each from 10 on; the first two of epoch 0, the others of epoch 2."""
    return [
        build_batch([b"x" * size, b""], timestamps_ms=at, base_offset=10 + 2 * at, leader_epoch=0 if at < 2 else 2)
        for at, size in enumerate(SIZES)
    ]


def reader(raw: bytes, *, end_offset: int = 24, epochs: tuple[EpochEntry, ...] = EPOCHS) -> ChunkReader:
    fs = LosingFileSystem()
    fd = fs.open(PATH, create=True)
    fs.pwritev(fd, [raw], 0)
    return ChunkReader(LogFile(fs, fd, PATH, len(raw), 10, end_offset), epochs)


@pytest.mark.parametrize("chunk_bytes", [61, 100, 200, 777, 6000, 1 << 20])
def test_every_batch_comes_once_whatever_the_size_of_a_chunk(chunk_bytes: int) -> None:
    wanted = batches()
    found = []
    position = 0
    for chunk in reader(b"".join(wanted)).chunks(chunk_bytes):
        assert chunk.position == position
        position += chunk.size_bytes
        found += [chunk.data[at : at + header.size_bytes] for at, header in chunk.batches]

    assert found == wanted
    assert position == sum(map(len, wanted))


@pytest.mark.parametrize("chunk_bytes", [61, 777, 1 << 20])
def test_no_byte_may_be_another(chunk_bytes: int) -> None:
    raw = b"".join(batches()[:4])
    for at in range(0, len(raw), 3):
        rotten = bytearray(raw)
        rotten[at] ^= 1
        with pytest.raises(CorruptFileError, match=PATH):
            list(reader(bytes(rotten), end_offset=18).chunks(chunk_bytes))


@pytest.mark.parametrize("chunk_bytes", [61, 777, 1 << 20])
def test_a_file_that_ends_too_early_or_too_late_is_damaged(chunk_bytes: int) -> None:
    wanted = batches()
    raw = b"".join(wanted)
    for size in (*range(1, 200, 7), len(raw) - len(wanted[-1]), len(raw) - 1):
        with pytest.raises(CorruptFileError):
            list(reader(raw[:size]).chunks(chunk_bytes))
    with pytest.raises(CorruptFileError):
        list(reader(raw + b"\x00" * 30).chunks(chunk_bytes))


def test_a_batch_below_the_first_known_epoch_is_not_compared_with_it() -> None:
    raw = b"".join(batches())

    assert list(reader(raw, epochs=EPOCHS[1:]).chunks())
    with pytest.raises(CorruptFileError, match="leader epoch 0, but its last offset 11 is of epoch 1"):
        list(reader(raw, epochs=(EpochEntry(1, 0), EpochEntry(2, 14))).chunks())
