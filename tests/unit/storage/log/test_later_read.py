"""Promises of the port of reads that end later: a log takes records from any storage, and only those it asked for."""

from __future__ import annotations

import pytest

from penstock.errors import KafkaStorageError
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.segment.checked_read import CheckedRead, ListedSegments
from storage.segment.places import Place
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log

RECORDS = batch(b"from afar")


class FarRead:
    """A `LaterRead` of records that no file of the log has."""

    def __init__(self, start_offset: int, end_offset: int, error: OSError | None = None) -> None:
        self.start_offset, self.bytes_max, self.found_bytes = start_offset, len(RECORDS), 0
        self.end_offset, self.error = end_offset, error
        self.is_of_this_history = True

    def run(self) -> None:
        self.found_bytes = len(RECORDS)

    def cancel(self) -> None: ...

    def discard(self) -> None: ...

    def taken(self, segments: ListedSegments) -> CheckedRead | None:
        if self.error is not None:
            raise self.error
        if not self.is_of_this_history:
            return None
        return CheckedRead(RECORDS, Place(0, self.start_offset), Place(len(RECORDS), self.end_offset))


@pytest.fixture
def log() -> Log:
    log = new_log(LosingFileSystem())
    for _ in range(10):
        log.append.as_leader(batch(bytes(50)), 0, NOW_MS)
    return log


def test_records_of_another_storage_are_taken_as_those_of_a_segment(log: Log) -> None:
    later = FarRead(3, 4)
    later.run()
    assert log.reader.finish(later, 3, 10) == Records(RECORDS, 4)


def test_records_that_are_not_the_logs_any_more_are_not_taken(log: Log) -> None:
    later = FarRead(3, 4)
    later.is_of_this_history = False
    assert log.reader.finish(later, 3, 10) is None


def test_records_from_another_offset_or_above_the_bound_are_not_taken(log: Log) -> None:
    assert log.reader.finish(FarRead(3, 4), 4, 10) is None
    assert log.reader.finish(FarRead(3, 6), 3, 5) is None


def test_an_error_of_another_storage_is_raised_where_the_records_are_taken(log: Log) -> None:
    with pytest.raises(KafkaStorageError, match="unreachable"):
        log.reader.finish(FarRead(3, 4, OSError("unreachable")), 3, 10)
