"""One log's directory: segments that leave it or are replaced, and bytes in it that rot."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace
from random import Random

import pytest

from penstock.errors import (
    CleaningAbortedError,
    CorruptFileError,
)
from penstock.record.builder import build_batch
from penstock.types import EpochEntry
from storage.log.log import Log
from storage.log.log_types import CleanedSegment
from storage.segment.batch_check import BatchCheck, Span
from storage.segment.segment import Segment
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, batch, filled, read_all, reopened


@pytest.fixture
def fs() -> LosingFileSystem:
    return LosingFileSystem()


def test_retention_can_take_segments_off(fs: LosingFileSystem) -> None:
    log = filled(fs, 20)
    log.flush()
    log.full.remove_oldest(1)

    assert log.log_start_offset == log.segments[0].base_offset == 7
    assert log.epoch_entries == (EpochEntry(0, 7),)
    assert reopened(fs.after_crash(), 20).log_start_offset == 0
    log.full.run_file_changes()
    assert reopened(fs.after_crash(), 20).log_start_offset == 7


def test_files_of_removed_segments_stay_for_the_delay(fs: LosingFileSystem) -> None:
    log = filled(fs, 20, replace(SMALL, file_delete_delay_ms=1000))
    log.flush()
    log.full.remove_oldest(100)
    log.full.run_file_changes()
    deleted = [path for path in fs.files() if path.endswith(".deleted")]

    assert [segment.base_offset for segment in log.segments] == [14]
    assert sum(path.endswith(".log.deleted") for path in deleted) == 2
    assert (log.full.delete_expired_files(5000), log.full.delete_expired_files(5999)) == (0, 0)
    assert log.full.delete_expired_files(6000) == len(deleted) == log.statistics().removed_segments * 3
    assert not any(path.endswith(".deleted") for path in fs.files())


def test_a_log_that_is_closed_in_order_leaves_no_file_on_its_way_out(fs: LosingFileSystem) -> None:
    log = filled(fs, 20)
    log.flush()
    log.full.remove_oldest(1)
    log.close()

    assert not any(path.endswith(".deleted") for path in fs.files())
    assert reopened(fs, 20, clean=True).log_start_offset == 7


@pytest.mark.parametrize("crash_at", range(1, 30))
def test_removal_survives_a_crash_at_every_operation(crash_at: int) -> None:
    fs = LosingFileSystem()
    log = filled(fs, 30)
    log.flush()
    fs.crash_at = fs.operations + crash_at
    with contextlib.suppress(Crashed):
        log.full.remove_oldest(3)
        log.full.run_file_changes()
    for survivor in (fs.after_crash(), *(fs.after_crash(Random(n)) for n in range(5))):
        found = read_all(reopened(survivor, 30))
        assert [offset for offset, _ in found] == list(range(found[0][0], 30))


def test_a_full_disk_defers_file_changes_and_they_go_on_later(fs: LosingFileSystem) -> None:
    log = filled(fs, 20)
    log.flush()
    log.full.remove_oldest(2)
    fs.fail_on |= {"rename": errno.ENOSPC, "unlink": errno.ENOSPC}  # some take room even for a removal
    with pytest.raises(OSError, match="No space"):
        log.full.run_file_changes()
    fs.fail_on.clear()
    assert log.full.has_file_changes
    log.append.as_leader(batch(b"more"), 0, NOW_MS)
    log.full.run_file_changes()

    assert not log.full.has_file_changes
    assert reopened(fs.clone(), 20).log_start_offset == 14


# -- what has rotted on the disk ---------------------------------------------------------------------------------------


def cold(fs: LosingFileSystem, count: int = 20) -> Log:
    """A log that was closed in order and opened again: nothing of it was looked at yet."""
    filled(fs, count).close()
    return reopened(fs, count, clean=True)


@pytest.mark.parametrize("position", [3, 15, 30, 65, 80])
def test_what_has_rotted_since_the_last_start_is_noticed_when_it_is_read(fs: LosingFileSystem, position: int) -> None:
    log = cold(fs)
    fs.damage(log.segments[1].log_path, position, 4)

    with pytest.raises(CorruptFileError, match=log.segments[1].log_path):
        read_all(log, 10_000)


def test_what_this_process_wrote_or_has_looked_at_is_not_looked_at_again(
    fs: LosingFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[int] = []
    honest = BatchCheck.check

    def counting(self: BatchCheck, path: str, records: bytes, span: Span) -> None:
        checks.append(span.begin.offset)
        honest(self, path, records, span)

    monkeypatch.setattr(BatchCheck, "check", counting)
    log = cold(fs)
    first = read_all(log)
    looked_at = len(checks)
    log.append.as_leader(batch(b"new"), 0, NOW_MS)

    assert read_all(log)[:-1] == first
    assert len(checks) == looked_at > 0


def test_cleaned_segment_takes_the_place_of_others_for_readers_at_once(fs: LosingFileSystem) -> None:
    log = filled(fs, 20)
    log.flush()
    replaced = log.full.cleanable(14)
    kept = tiled(b"kept", 0, 13, 13)
    cleaned = write_cleaned(fs, log, kept, replaced)
    log.full.replace(cleaned, replaced)

    assert read_all(log)[:2] == [(13, b"kept"), (14, b"value-14")]
    log.full.run_file_changes()
    assert read_all(log)[:2] == [(13, b"kept"), (14, b"value-14")]
    assert [offset for offset, _ in read_all(reopened(fs.after_crash(), 20))] == list(range(13, 20))
    with pytest.raises(CleaningAbortedError):
        log.full.replace(cleaned, replaced)


@pytest.mark.parametrize("crash_at", range(1, 40))
def test_swap_survives_a_crash_at_every_operation(crash_at: int) -> None:
    fs = LosingFileSystem()
    log = filled(fs, 30)
    log.flush()
    before = read_all(log)
    replaced = log.full.cleanable(21)
    kept = tiled(b"kept", 0, 20, 20)
    cleaned = write_cleaned(fs, log, kept, replaced)
    fs.crash_at = fs.operations + crash_at
    with contextlib.suppress(Crashed):
        log.full.replace(cleaned, replaced)
        log.full.run_file_changes()
    for survivor in (fs.after_crash(), *(fs.after_crash(Random(n)) for n in range(8))):
        found = read_all(reopened(survivor, 30))
        assert found in (before, [(20, b"kept"), *before[21:]])
        assert read_all(reopened(survivor.after_crash(), 30)) == found


def tiled(value: bytes, base_offset: int, offset: int, last_offset: int) -> bytes:
    """One record, in a batch that covers the offsets of others that were taken out."""
    deltas = {"offset_deltas": [offset - base_offset], "last_offset_delta": last_offset - base_offset}
    return build_batch([value], timestamps_ms=NOW_MS, base_offset=base_offset, leader_epoch=0, **deltas)  # type: ignore[arg-type]


def write_cleaned(fs: LosingFileSystem, log: Log, content: bytes, replaced: tuple[Segment, ...]) -> CleanedSegment:
    path = replaced[0].log_path + ".cleaned"
    fd = fs.open(path, create=True)
    fs.pwritev(fd, [content], 0)
    fs.fdatasync(fd)
    fs.close(fd)
    return CleanedSegment(path, replaced[0].base_offset, replaced[-1].next_offset, len(content))
