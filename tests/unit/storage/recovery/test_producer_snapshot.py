"""The file of a snapshot: what is written is read, all else is refused, and only a snapshot of this log is used."""

from __future__ import annotations

import pytest

from penstock.errors import CorruptFileError
from penstock.types import EpochEntry
from storage.append.producer_state import ProducerEntry, TakenBatch
from storage.append.transaction_state import EndedRange, ProducerTransaction
from storage.disk.sealed_text import seal
from storage.recovery.producer_snapshot import ProducerSnapshot, read_snapshot, snapshot_content, snapshot_path
from storage.segment.transaction_index import IndexedSegment
from tests.support.losing_fs import LosingFileSystem

BATCHES = (TakenBatch(2**31 - 1, 3, 4, -1), TakenBatch(4, 8, 0, 1_700_000_000_000))
PRODUCERS = {
    5: ProducerEntry(0, BATCHES, 1_700_000_000_000),
    2**63 - 1: ProducerEntry(2**15 - 1, (TakenBatch(0, 10, 0, -1),), -5),
}
SNAPSHOT = ProducerSnapshot(11, 7, PRODUCERS)


def disk(content: bytes, offset: int = 11) -> LosingFileSystem:
    fs = LosingFileSystem()
    fd = fs.open(snapshot_path("", offset), create=True)
    fs.pwritev(fd, [content], 0)
    fs.close(fd)
    return fs


def test_what_is_written_is_read_in_the_order_of_the_last_appends() -> None:
    found = read_snapshot(disk(snapshot_content(SNAPSHOT)), "", 11)

    assert found == SNAPSHOT
    assert list(found.producers) == [5, 2**63 - 1]
    assert read_snapshot(LosingFileSystem(), "", 11) is None


def test_only_a_snapshot_with_likely_times_has_the_newer_version() -> None:
    """An older release refuses that one, and reads the log instead: it costs time only."""
    guessed = SNAPSHOT._replace(producers=PRODUCERS | {6: ProducerEntry(0, BATCHES, 1_700_000_000_000, 0)})

    assert read_snapshot(disk(snapshot_content(guessed)), "", 11) == guessed
    assert snapshot_content(guessed).startswith(b"2\n") and snapshot_content(SNAPSHOT).startswith(b"1\n")


def test_only_a_snapshot_with_transactions_has_the_newest_version() -> None:
    fenced = ProducerEntry(3, (), 1_700_000_000_000, 5, ProducerTransaction(-1, 4, 9))
    transactional = SNAPSHOT._replace(
        producers=PRODUCERS | {6: fenced, 7: ProducerEntry(0, BATCHES, 1, transaction=ProducerTransaction(3))},
        ended=(EndedRange(2, 7), EndedRange(4, 9)),
        indexes=(IndexedSegment(0, 2, 0xFF), IndexedSegment(7, 1, 0xFFFFFFFF)),
    )
    for snapshot in (transactional, SNAPSHOT._replace(ended=(EndedRange(2, 7),)), transactional._replace(ended=())):
        content = snapshot_content(snapshot)
        assert read_snapshot(disk(content), "", 11) == snapshot and content.startswith(b"3\n")


def test_a_snapshot_of_nobody_is_one() -> None:
    empty = ProducerSnapshot(0, -1, {})
    assert read_snapshot(disk(snapshot_content(empty), 0), "", 0) == empty


def test_every_byte_that_is_changed_or_missing_is_noticed() -> None:
    content = snapshot_content(SNAPSHOT)
    for at in range(len(content)):
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]):
            with pytest.raises(CorruptFileError):
                read_snapshot(disk(damaged), "", 11)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1\n",
        "4\n11 7 0\n",
        "3\n11 7 0\n",
        "3\n11 7 0 0\n",
        "3\n11 7 1 0 0\n",
        "3\n11 7 1 -1 0\n5 0 1 - 0:4:0:-1\n",
        "3\n11 7 1 0 0\n5 0 1 -\n",
        "3\n11 7 1 0 0\n5 0 1 0:4:0:-1\n",
        "3\n11 7 1 0 0\n5 0 1 11:0:0\n",
        "3\n11 7 1 0 0\n5 0 1 -1:0:11\n",
        "3\n11 7 1 0 0\n5 0 1 -2:0:0\n",
        "3\n11 7 1 0 0\n5 0 1 0:0\n",
        "3\n11 7 0 1 0\n3\n",
        "3\n11 7 0 1 0\n3 11\n",
        "3\n11 7 0 1 0\n4 3\n",
        "3\n11 7 0 2 0\n3 5\n3 6\n",
        "3\n11 7 0 2 0\n3 5\n4 5\n",
        "3\n11 7 0 0 1\n11 1 00000000\n",
        "3\n11 7 0 0 1\n0 0 00000000\n",
        "3\n11 7 0 0 1\n0 1\n",
        "3\n11 7 0 0 2\n0 1 00000000\n0 1 00000000\n",
        "1\n11 7 1\n5 0 9~8 0:4:0:-1\n",
        "2\n11 7 1\n5 0 9~9 0:4:0:-1\n",
        "2\n11 7 1\n5 0 9~-1 0:4:0:-1\n",
        "2\n11 7 1\n5 0 9~ 0:4:0:-1\n",
        "1\n12 7 0\n",
        "1\n11 7 1\n",
        "1\n11 7 1\n5 0 1\n",
        "1\n11 7 1\n5 0 1 0:3:0\n",
        "1\n11 7 1\n5 0 1 0:3:0:-1 1:4:0:-1 2:5:0:-1 3:6:0:-1 4:7:0:-1 5:8:0:-1\n",
        "1\n11 7 1\n5 0 1 0:11:0:-1\n",
        "1\n11 7 1\n5 0 1 0:4:0:-1 1:4:0:-1\n",
        "1\n11 7 1\n5 0 1 -1:4:0:-1\n",
        "1\n11 7 1\n5 0 1 0:4:-1:-1\n",
        "1\n11 7 1\n5 -1 1 0:4:0:-1\n",
        "1\n11 7 1\n-5 0 1 0:4:0:-1\n",
        "1\n11 7 1\nx 0 1 0:4:0:-1\n",
        "1\n11 7 2\n5 0 1 0:4:0:-1\n5 0 1 0:5:0:-1\n",
    ],
)
def test_a_sealed_file_that_says_something_else_is_refused(text: str) -> None:
    with pytest.raises(CorruptFileError):
        read_snapshot(disk(seal(text)), "", 11)


@pytest.mark.parametrize(
    ("first", "end", "entries", "used"),
    [
        (0, 20, ((7, 0),), True),
        (0, 10, ((7, 0),), False),
        (12, 20, ((7, 0),), False),
        (0, 20, ((7, 0), (8, 11)), True),
        (0, 20, ((7, 0), (8, 10)), False),
        (0, 20, ((6, 0),), False),
        (0, 20, ((7, 12),), True),
        (0, 20, ((6, 12),), False),
        (11, 11, (), True),
    ],
)
def test_a_snapshot_is_used_only_in_the_log_that_it_is_of(
    first: int, end: int, entries: tuple[tuple[int, int], ...], used: bool
) -> None:
    """The snapshot is of offset 11, behind a record of epoch 7; a log that begins above that record does not know its
    epoch."""
    assert SNAPSHOT.is_of(first, end, tuple(EpochEntry(*entry) for entry in entries)) is used
