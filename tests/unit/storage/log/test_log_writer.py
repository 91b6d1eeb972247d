"""An append is all there or not at all, wherever it fails, whatever it fails with, and over however many segments."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random

import pytest

from penstock.errors import KafkaStorageError
from penstock.record.batch import read_header
from storage.append.batch_validation import whole_batches
from storage.append.placing import Placed, place_as_leader
from storage.disk.file_system import Bytes
from storage.log.log import Log
from storage.log.log_parts import open_parts
from storage.log.log_types import LogOptions
from storage.log.log_writer import LogWriter
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, SMALL, TP, batch, new_log, read_all, reopened

WIDE = LogConfig()
TIGHT = LogConfig(index_interval_bytes=1)
COUNT = 20
"""The number of batches: more than fit three of the follower's segments."""


class InterruptedFileSystem(LosingFileSystem):
    """The n-th write from now on puts half of its bytes into the file and is interrupted."""

    interrupt_write = 0
    interruption: type[BaseException] = KeyboardInterrupt

    def pwritev(self, fd: int, buffers: Sequence[Bytes], at: int) -> int:
        if self.interrupt_write:
            self.interrupt_write -= 1
            if not self.interrupt_write:
                content = b"".join(buffers)
                super().pwritev(fd, [content[: len(content) // 2]], at)
                raise self.interruption
        return super().pwritev(fd, buffers, at)


def fetched(count: int = COUNT) -> bytes:
    """Records of a leader with larger segments: they go into several of ours. The epoch changes often."""
    leader = new_log(LosingFileSystem(), WIDE)
    for n in range(count):
        leader.append.as_leader(batch(b"value-%02d" % n, timestamp_ms=NOW_MS + n), 1 + n // 2, NOW_MS)
    return leader.reader.read(0, 1 << 20).records


def follower(fs: LosingFileSystem, records: bytes, batches: int) -> Log:
    """A log with the first of the batches, flushed."""
    log = new_log(fs, SMALL)
    size = read_header(records).size_bytes
    log.append.as_follower(records[: batches * size])
    log.flush()
    return log


def rest(records: bytes, batches: int) -> bytes:
    return records[batches * read_header(records).size_bytes :]


def state(fs: LosingFileSystem, log: Log) -> tuple[object, ...]:
    """All that an append changes, on the disk as the process sees it, and in memory."""
    files = {path: len(fs.read_file(path)) for path in fs.files() if path.endswith(".log")}
    segments = [(s.base_offset, s.next_offset, s.size_bytes, s.indexes.contents()) for s in log.segments]
    appended = log.statistics().appended_records, log.statistics().appended_bytes
    return files, segments, log.log_end_offset, log.epoch_entries, log.recovery_point, appended


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_shortage_anywhere_in_an_append_leaves_the_log_as_it_was(code: int) -> None:
    records = fetched()
    for nth in range(1, 100):
        fs = LosingFileSystem()
        log = follower(fs, records, 2)
        before = state(fs, log)
        failing = len(fs.calls) + nth
        fs.fail_call[failing] = code
        try:
            log.append.as_follower(rest(records, 2))
        except KafkaStorageError:
            assert state(fs, log) == before, f"call {nth}: {fs.calls[-1]}"
            if log.statistics().failed:
                assert (code, fs.calls[failing - 1]) == (errno.ENOSPC, "fsync_dir"), "a failed sync is no shortage"
                continue
            log.append.as_follower(rest(records, 2))
        done = len(fs.calls) < failing
        fs.fail_call.clear()
        assert [offset for offset, _ in read_all(log)] == list(range(COUNT))
        if done:
            break
    assert done and nth > 5 and len(log.segments) > 2


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError, OverflowError])
def test_any_exception_leaves_the_log_as_it_was(nth: int, interruption: type[BaseException]) -> None:
    records, fs = fetched(), InterruptedFileSystem()
    fs.interruption = interruption
    log = follower(fs, records, 2)
    before = state(fs, log)

    fs.interrupt_write = nth
    with pytest.raises(interruption):
        log.append.as_follower(rest(records, 2))
    assert state(fs, log) == before

    log.append.as_follower(rest(records, 2))
    assert [offset for offset, _ in read_all(log)] == list(range(COUNT))


def test_a_batch_that_its_index_cannot_hold_leaves_nothing() -> None:
    """No check lets such a batch through; the writer does not rely on that."""
    fs = LosingFileSystem()
    fs.mkdir("/d")
    parts = open_parts(fs, "/d", TP, TIGHT, LogOptions(THREADS))
    writer, first = LogWriter(parts), parts.segments.active
    good = batch(b"a") * 3
    end = writer.append([place_as_leader(good, list(whole_batches(good)), 0, 1, -1)], 0, TIGHT)
    before = len(fs.read_file(first.log_path)), first.size_bytes, first.next_offset, first.indexes.contents()

    placed = place_as_leader(good, list(whole_batches(good)), end, 2, -1)
    lies = [header._replace(last_offset_delta=2**31 - 1) for header in placed.headers]
    with pytest.raises(OverflowError):
        writer.append([Placed(placed.buffers, lies, placed.size_bytes)], end, TIGHT)

    after = len(fs.read_file(first.log_path)), first.size_bytes, first.next_offset, first.indexes.contents()
    assert after == before and [entry.epoch for entry in parts.epochs.entries] == [1]
    assert writer.append([placed], end, TIGHT) == 6


def test_what_was_taken_back_stays_away_once_something_is_flushed() -> None:
    """No segment and no byte of a refused append stands between what was flushed after it, whatever the disk kept."""
    records = fetched()
    for seed in range(60):
        fs = InterruptedFileSystem()
        log = follower(fs, records, 2)
        fs.interrupt_write = 2 + seed % 2
        with pytest.raises(KeyboardInterrupt):
            log.append.as_follower(rest(records, 2))
        log.update_config(LogConfig(segment_bytes=400 + 30 * (seed % 7)))
        for n in range(2, 12):
            log.append.as_leader(batch(b"other-%02d" % n), 50, NOW_MS)
            if n == 2 + seed % 9:
                log.flush()
        flushed = log.recovery_point
        wanted = read_all(log)

        found = read_all(reopened(fs.after_crash(Random(seed)), flushed))

        assert found[:flushed] == wanted[:flushed] and found == wanted[: len(found)]


def test_a_flush_under_way_does_not_make_a_cut_durable() -> None:
    records, fs = fetched(), InterruptedFileSystem()
    log = follower(fs, records, 1)
    log.append.as_follower(rest(records, 1)[: read_header(records).size_bytes])
    pending = log.prepare_flush()
    assert pending is not None

    fs.interrupt_write = 1
    with pytest.raises(KeyboardInterrupt):
        log.append.as_follower(rest(records, 2))
    pending.run()
    assert log.complete_flush(pending) == 2

    assert log.prepare_flush() is not None, "the cut of the file is not durable yet"
    log.flush()
    assert len(fs.durable(log.segments[0].log_path)) == log.segments[0].size_bytes


def test_a_disk_that_cannot_cut_a_file_fails_the_log() -> None:
    records, fs = fetched(), LosingFileSystem()
    log = follower(fs, records, 2)
    fs.short_at.add(fs.operations + 1)
    fs.fail_at[fs.operations + 2] = errno.EIO

    with pytest.raises(KafkaStorageError, match="cannot take back an append"):
        log.append.as_follower(rest(records, 2))

    assert log.log_end_offset == 2 and log.statistics().failed
    with pytest.raises(KafkaStorageError):
        log.append.as_follower(rest(records, 2))


def test_a_removal_that_could_not_be_made_durable_is_made_so_before_the_next_one() -> None:
    """Else a crash could bring back the newer segment without the older one: a hole."""
    fs = LosingFileSystem()
    log = follower(fs, fetched(), COUNT)
    fs.fail_on["fsync_dir"] = errno.EMFILE
    with pytest.raises(KafkaStorageError):
        log.truncate_to(1)
    fs.fail_on.clear()
    before = len(fs.trace)
    log.truncate_to(1)
    steps = [step.split()[1] for step in fs.trace[before:]]

    assert steps.index("fsync_dir") < steps.index("unlink")
    assert log.log_end_offset == 1


@pytest.mark.parametrize("target", [1, 6, 9, 30])
def test_a_truncation_that_finds_no_descriptor_goes_on_when_it_is_made_again(target: int) -> None:
    """Wherever the shortage came, the log ends where its segments do, and no crash leaves a hole in it."""
    records = fetched()
    for nth in range(1, 100):
        fs = LosingFileSystem()
        log = follower(fs, records, COUNT)
        cut = log.truncate_to if target < COUNT else log.truncate_fully_and_start_at
        failing = len(fs.calls) + nth
        fs.fail_call[failing] = errno.EMFILE
        try:
            cut(target)
        except KafkaStorageError:
            assert not log.statistics().failed, fs.calls[failing - 1]
            end = log.segments[-1].next_offset
            assert (log.log_end_offset, log.recovery_point <= end) == (end, True)
            crashed = reopened(fs.after_crash(Random(nth)), log.recovery_point)
            assert log.recovery_point <= crashed.log_end_offset <= COUNT or target > COUNT
            cut(target)
        done = len(fs.calls) < failing
        fs.fail_call.clear()
        assert log.log_end_offset == target
        assert read_all(log) == read_all(reopened(fs.after_crash(), log.recovery_point))
        if done:
            break
    assert done and nth > 3


def refused(config: LogConfig, values: Sequence[bytes], fault: str, nth: int) -> tuple[bool, bool] | None:
    """A leader's append of one batch for each value meets the fault in its n-th step: whether its error says that
    nothing was written, and whether some power cut leaves any of it. None when the append ends before that step."""
    fs = LosingFileSystem()
    log = new_log(fs, config)
    log.append.as_leader(batch(b"before"), 1, NOW_MS)
    log.flush()
    step = len(fs.calls) + nth
    if fault == "short":
        fs.short_call = {step}
    else:
        fs.fail_call[step] = errno.ENOSPC
    try:
        log.append.as_leader(b"".join(batch(value) for value in values), 1, NOW_MS)
    except KafkaStorageError as error:
        found: set[bytes] = set()
        for seed in range(40):
            found.update(value for _, value in read_all(reopened(fs.after_crash(Random(seed)), None, config=config)))
        return error.nothing_written, not found.isdisjoint(values)
    return None


@pytest.mark.parametrize("fault", ["fails", "short"])
@pytest.mark.parametrize("config", [WIDE, SMALL, LogConfig(segment_bytes=150)])
@pytest.mark.parametrize("values", [[b"one"], [b"one", b"two"]])
def test_a_refusal_says_that_nothing_was_written_only_if_no_power_cut_can_leave_any_of_it(
    config: LogConfig, values: Sequence[bytes], fault: str
) -> None:
    endings = [ending for nth in range(1, 12) if (ending := refused(config, values, fault, nth)) is not None]
    assert endings and (True, True) not in endings


def test_a_full_disk_says_so_of_one_batch_and_not_when_the_first_of_two_was_whole() -> None:
    assert refused(WIDE, [b"one"], "short", 1) == refused(WIDE, [b"one"], "fails", 1) == (True, False)
    assert refused(WIDE, [b"one", b"two"], "short", 1) == (False, True)
