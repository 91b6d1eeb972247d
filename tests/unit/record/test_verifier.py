"""The checks of a batch: what each lets pass, and that a fault reads the same whoever finds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import CorruptFileError, CorruptMessageError, PenstockError
from penstock.record import verifier
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.decoding import decode_records
from penstock.record.reader import read_columns
from penstock.record.row_scan import scan_rows
from penstock.types import EpochEntry
from storage.append.batch_validation import check_fetched
from storage.segment.batch_check import BatchCheck, Span
from storage.segment.batch_scan import LogFile, scan_headers, scan_verified
from storage.segment.places import Place
from storage.segment.verified_chunks import ChunkReader
from storage.tools.batch_walk import walk
from tests.support.losing_fs import LosingFileSystem

EPOCHS = (EpochEntry(0, 0), EpochEntry(3, 2))
PATH = "/00000000000000000000.log"


def batch(at: int, epoch: int = 0) -> bytes:
    return build_batch([b"value"], timestamps_ms=1, base_offset=at, leader_epoch=epoch)


GOOD = batch(0), batch(1), batch(2, 3), batch(3, 3)
ROTTEN = GOOD[2][:-1] + b"\x01"
CUT = GOOD[3][:-1]


def log_file(raw: bytes) -> LogFile:
    fs = LosingFileSystem()
    fd = fs.open(PATH, create=True)
    fs.pwritev(fd, [raw], 0)
    return LogFile(fs, fd, PATH, len(raw), 0, 4)


def by_tool(raw: bytes) -> None:
    bad = next((seen for seen in walk(log_file(raw), lambda count: None) if seen.problem), None)
    if bad is not None:
        raise CorruptFileError(PATH, bad.position, bad.problem)


FINDERS: dict[str, Callable[[bytes], object]] = {
    "a look-up": lambda raw: list(scan_headers(log_file(raw), 0)),
    "recovery": lambda raw: list(scan_verified(log_file(raw), 0)),
    "the cleaner": lambda raw: list(ChunkReader(log_file(raw), EPOCHS).chunks()),
    "a read": lambda raw: BatchCheck(EPOCHS).check(PATH, raw, Span(Place(0, 0), Place(len(raw), 4), 0)),
    "log verify": by_tool,
    "a follower": lambda raw: check_fetched(raw, 0, 0),
    "a consumer": read_columns,
}
"""How the parts of the system come upon a batch."""


def said(finder: str, raw: bytes) -> str | None:
    try:
        FINDERS[finder](raw)
    except (CorruptFileError, CorruptMessageError) as error:
        return error.why if isinstance(error, CorruptFileError) else str(error).replace("the leader's", "the")
    except PenstockError as error:
        return f"another error: {error!r}"
    return None


@pytest.mark.parametrize(
    ("raw", "words", "blind"),
    [
        (b"".join(GOOD), None, ()),
        (b"".join((*GOOD[:2], ROTTEN, GOOD[3])), "the batch at offset 2 has a wrong checksum", ("a look-up",)),
        (
            b"".join((GOOD[0], GOOD[2], GOOD[3])),
            "the batch at offset 2 stands where offset 1 should follow",
            ("log verify", "a consumer"),
        ),
        (
            b"".join((*GOOD[:3], CUT)),
            "the batch at offset 3 is cut off: its last 1 bytes are missing",
            ("a follower", "a consumer"),
        ),
        (
            b"".join((*GOOD[:2], batch(2, 2), GOOD[3])),
            "the batch at offset 2 has leader epoch 2, but its last offset 2 is of epoch 3",
            ("a look-up", "recovery", "log verify", "a follower", "a consumer"),
        ),
        (
            b"".join(GOOD[:3]),
            "the batches end at offset 3, but 4 follows",
            ("a look-up", "recovery", "log verify", "a follower", "a consumer"),
        ),
        (
            b"".join(GOOD) + bytes(20),
            "the file ends with 20 bytes that are no whole batch",
            ("a follower", "a consumer"),
        ),
        (
            b"".join((*GOOD, b"\x01" * 100)),
            "no batch begins here; 100 bytes from here on cannot be read as batches",
            ("a follower", "a consumer"),
        ),
    ],
    ids=["good", "checksum", "offset", "cut off", "epoch", "end", "trailing", "no batch"],
)
def test_a_fault_reads_the_same_whoever_finds_it(raw: bytes, words: str | None, blind: tuple[str, ...]) -> None:
    """`blind`: whose business the fault is not, or who is told by other means (how long the answer is)."""
    found = {finder: said(finder, raw) for finder in FINDERS if finder not in blind}
    assert found == dict.fromkeys(found, words)


def test_a_batch_that_is_there_to_its_last_byte_is_not_cut_off() -> None:
    header = read_header(GOOD[0])
    assert [verifier.cut_off_fault(header, left) is None for left in (len(GOOD[0]) - 1, len(GOOD[0]), 1000)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("count", "delta", "is_right", "is_dense"), [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 0, 0), (1, 4, 1, 0)]
)
def test_a_compacted_batch_may_have_fewer_records_than_offsets_and_a_producers_may_not(
    count: int, delta: int, is_right: int, is_dense: int
) -> None:
    header = read_header(GOOD[0])._replace(record_count=count, last_offset_delta=delta)
    assert (verifier.count_fault(header) is None) == is_right
    assert (verifier.dense_count_fault(header) is None) == is_dense


def test_epochs_may_stay_or_rise() -> None:
    assert verifier.epoch_order_fault(3, 3) is None and verifier.epoch_order_fault(4, 3) is None
    assert verifier.epoch_order_fault(2, 3) == "has leader epoch 2, after epoch 3"


def test_records_without_room_are_named_alike_by_all_who_take_records_apart() -> None:
    words = "the batch announces 3 records, but has room for 2; each takes 7 bytes at least"
    for take_apart in (decode_records, scan_rows):
        with pytest.raises(CorruptMessageError) as error:
            take_apart(bytes(20), 0, 20, 3, 2)
        assert str(error.value) == words
    header = read_header(GOOD[0])._replace(record_count=3, last_offset_delta=2)
    with pytest.raises(
        CorruptMessageError, match="the leader's batch at offset 0 announces 3 records, but has room for 1"
    ):
        check_fetched(pack_batch(header, GOOD[0][HEADER_BYTES:]), 0, 0)
