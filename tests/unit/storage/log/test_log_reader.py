"""Promises of reads that may not wait: what the disk must be asked for is read in a thread, and counts only if the log
is still the one that was read."""

from __future__ import annotations

import errno
import threading

import pytest

from penstock.errors import CorruptFileError, KafkaStorageError, OffsetOutOfRangeError
from penstock.record.batch import iter_headers
from storage.log.log import Log
from storage.log.log_reader import COLD_READ_BYTES_MAX, ColdLookUp, Records
from storage.log_config import LogConfig
from storage.segment.cold_read import ColdRead
from storage.segment.timestamp_lookup import TimeLookUp
from tests.support.cold_fs import ColdFileSystem
from tests.support.look_ups import offset_for_timestamp
from tests.support.storage import NOW_MS, batch, new_log, reopened

BIG = LogConfig(segment_bytes=100_000, index_interval_bytes=1000)
ALL = 1_000_000


def filled(fs: ColdFileSystem, batches: int = 30, config: LogConfig = BIG) -> Log:
    log = new_log(fs, config)
    for number in range(batches):
        log.append.as_leader(batch(bytes(500), timestamp_ms=NOW_MS + number), 0, NOW_MS)
    log.flush()
    return log


def cold(log: Log, fs: ColdFileSystem, start: int = 0, max_bytes: int = ALL) -> ColdRead:
    fs.go_cold()
    found = log.reader.read_nowait(start, max_bytes, log.log_end_offset)
    assert isinstance(found, ColdRead)
    return found


def warm(log: Log, start: int = 0, max_bytes: int = ALL) -> Records:
    found = log.reader.read_nowait(start, max_bytes, log.log_end_offset)
    assert isinstance(found, Records)
    return found


def offsets(records: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(records)]


def in_thread(work: ColdRead | ColdLookUp) -> None:
    thread = threading.Thread(target=work.run, name="io")
    thread.start()
    thread.join()


def finished(log: Log, work: ColdRead, start: int = 0) -> Records | None:
    return log.reader.finish(work, start, log.log_end_offset)


def open_files(fs: ColdFileSystem) -> int:
    return len(fs.descriptors)


def test_what_is_in_the_page_cache_is_read_at_once() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    assert offsets(warm(log).records) == list(range(30)) and warm(log, 30) == Records(b"", 30)
    assert fs.waited == []


def test_what_only_the_disk_has_is_read_in_a_thread_and_is_the_same() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    expected, files = log.reader.read(7, ALL), open_files(fs)
    work = cold(log, fs, 7)
    in_thread(work)
    found = finished(log, work, 7)
    assert found == Records(expected.records, expected.next_offset) and found is not None
    assert fs.waited and set(fs.waited) == {"io"} and open_files(fs) == files
    assert log.statistics().read_bytes == 2 * len(found.records)


def test_a_file_system_that_cannot_tell_is_read_at_once() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    fs.tells = False
    fs.go_cold()
    assert offsets(warm(log).records) == list(range(30))


def test_half_of_it_in_the_page_cache_is_read_whole_in_a_thread() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    fs.go_cold()
    log.reader.read(0, 1000)
    work = log.reader.read_nowait(0, ALL, log.log_end_offset)
    assert isinstance(work, ColdRead)
    in_thread(work)
    assert (found := finished(log, work)) is not None and offsets(found.records) == list(range(30))


def test_indexes_that_are_not_loaded_are_loaded_in_the_thread_and_kept() -> None:
    fs = ColdFileSystem()
    filled(fs).close()
    log = reopened(fs, 30, clean=True, config=BIG)
    fs.go_cold()
    fs.waited.clear()
    work = log.reader.read_nowait(17, ALL, log.log_end_offset)
    assert isinstance(work, ColdRead)
    in_thread(work)
    assert (found := finished(log, work, 17)) is not None and offsets(found.records) == list(range(17, 30))
    assert log.segments[0].indexes.loaded
    assert set(fs.waited) == {"io"}
    assert offsets(warm(log, 20).records) == list(range(20, 30))
    assert set(fs.waited) == {"io"}


def test_an_index_that_lies_is_rebuilt_in_the_thread() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    log.close()
    index = fs.file_at("/d/orders-0/00000000000000000000.index")
    index.data[:] = index.data[:4] + bytes([0, 0, 0, 1]) + index.data[8:]
    log = reopened(fs, 30, clean=True, config=BIG)
    fs.go_cold()
    fs.waited.clear()
    work = log.reader.read_nowait(3, ALL, log.log_end_offset)
    assert isinstance(work, ColdRead)
    in_thread(work)
    assert (found := finished(log, work, 3)) is not None and offsets(found.records) == list(range(3, 30))
    assert log.statistics().index_rebuilds == 1 and set(fs.waited) == {"io"}


def test_a_read_in_a_thread_is_bounded_whatever_was_asked_for() -> None:
    fs = ColdFileSystem()
    log = new_log(fs, LogConfig(segment_bytes=8 * COLD_READ_BYTES_MAX, index_interval_bytes=4096))
    for _ in range(12):
        log.append.as_leader(batch(bytes(COLD_READ_BYTES_MAX // 4)), 0, NOW_MS)
    work = cold(log, fs, 0, 100 * COLD_READ_BYTES_MAX)
    in_thread(work)
    assert (found := finished(log, work)) is not None and offsets(found.records) == [0, 1, 2]


def test_what_is_appended_meanwhile_is_not_in_the_answer_and_does_no_harm() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs)
    log.append.as_leader(batch(b"new"), 0, NOW_MS)
    in_thread(work)
    assert (found := finished(log, work)) is not None and offsets(found.records) == list(range(30))
    assert offsets(warm(log, 30).records) == [30]


def test_what_was_truncated_meanwhile_is_never_answered() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    work, files = cold(log, fs, 20), open_files(fs)
    in_thread(work)
    log.truncate_to(25)
    for _ in range(5):
        log.append.as_leader(batch(bytes(500)), 1, NOW_MS)
    assert finished(log, work, 20) is None
    assert open_files(fs) < files


def test_a_file_that_is_cut_under_the_reader_is_not_taken_for_damage() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs, 20)
    log.truncate_to(5)
    in_thread(work)
    with pytest.raises(CorruptFileError):
        work.result()
    assert log.reader.finish(work, 5, log.log_end_offset) is None


def test_a_segment_that_retention_took_is_not_answered() -> None:
    fs = ColdFileSystem()
    log = filled(fs, config=LogConfig(segment_bytes=3000, index_interval_bytes=1000))
    work = cold(log, fs)
    log.full.remove_oldest(2)
    log.full.run_file_changes()
    in_thread(work)
    with pytest.raises(OffsetOutOfRangeError):
        finished(log, work)
    assert log.reader.finish(work, log.log_start_offset, log.log_end_offset) is None


def test_a_log_that_is_closed_meanwhile_answers_nothing_and_leaves_no_file_open() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs)
    log.close()
    in_thread(work)
    with pytest.raises(KafkaStorageError, match="closed"):
        finished(log, work)
    assert open_files(fs) == 0


def test_records_above_the_bound_of_now_are_not_answered() -> None:
    """A leader that became one anew may know less of the high watermark than it did."""
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs)
    in_thread(work)
    assert log.reader.finish(work, 0, 10) is None


def test_an_error_of_the_disk_is_told_when_the_outcome_is_taken() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs)
    fs.errors[".log"] = errno.EIO
    in_thread(work)
    with pytest.raises(KafkaStorageError, match="Input/output"):
        finished(log, work)


def test_rot_is_found_in_the_thread() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    log.segments[0].distrust()
    work = cold(log, fs)
    fs.file_at(log.segments[0].log_path).data[300] ^= 1
    in_thread(work)
    with pytest.raises(CorruptFileError, match="checksum"):
        finished(log, work)


def test_bytes_that_are_reported_bad_during_a_read_are_not_answered_and_stay_unchecked() -> None:
    """The thread read them before the report, and took them for the process's own, which need no check."""
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs)
    fs.file_at(log.segments[0].log_path).data[300] ^= 1
    in_thread(work)
    log.segments[0].distrust()
    assert finished(log, work) is None
    again = cold(log, fs)
    in_thread(again)
    with pytest.raises(CorruptFileError, match="checksum"):
        finished(log, again)


def test_a_file_that_is_shorter_than_it_was_is_damage() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    work = cold(log, fs)
    del fs.file_at(log.segments[0].log_path).data[-10:]
    in_thread(work)
    with pytest.raises(CorruptFileError, match="the file ends"):
        finished(log, work)


def test_work_that_nobody_wants_any_more_reads_nothing_and_closes_its_file() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    files = open_files(fs)
    work = cold(log, fs)
    work.cancel()
    in_thread(work)
    assert fs.waited == [] and open_files(fs) == files
    cold(log, fs).discard()
    assert open_files(fs) == files


def test_a_look_up_by_time_that_needs_the_disk_is_done_in_a_thread() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    expected, files = offset_for_timestamp(log, NOW_MS + 11), open_files(fs)
    assert log.reader.look_up_nowait(TimeLookUp(0, NOW_MS + 11)) == expected
    fs.go_cold()
    work = log.reader.look_up_nowait(TimeLookUp(0, NOW_MS + 11))
    assert isinstance(work, ColdLookUp)
    in_thread(work)
    assert log.reader.finish_look_up(work, 0) == expected
    assert set(fs.waited) == {"io"} and open_files(fs) == files


def test_a_look_up_whose_log_was_cut_meanwhile_is_made_again() -> None:
    fs = ColdFileSystem()
    log = filled(fs)
    fs.go_cold()
    work = log.reader.look_up_nowait(TimeLookUp(0, NOW_MS + 11))
    assert isinstance(work, ColdLookUp)
    in_thread(work)
    log.truncate_to(5)
    log.reader.read(0, ALL)
    assert log.reader.finish_look_up(work, 0) is None


def test_a_look_up_in_many_segments_has_no_more_than_one_of_them_open_and_loaded() -> None:
    fs = ColdFileSystem()
    filled(fs, 200, LogConfig(segment_bytes=3000, index_interval_bytes=1000)).close()
    log = reopened(fs, 200, clean=True, config=LogConfig(segment_bytes=3000, index_interval_bytes=1000))
    assert len(log.segments) > 30
    fs.go_cold()
    files = open_files(fs)
    work = log.reader.look_up_nowait(TimeLookUp(0, NOW_MS + 199))
    assert isinstance(work, ColdLookUp)
    most = 0

    def noting(path: str) -> bytes:
        nonlocal most
        most = max(most, open_files(fs))
        return read_file(path)

    read_file, fs.read_file = fs.read_file, noting  # type: ignore[method-assign]
    in_thread(work)
    found = log.reader.finish_look_up(work, 0)
    assert not isinstance(found, ColdLookUp) and found is not None and found.offset == 199
    assert files < most <= files + 1 and open_files(fs) == files
