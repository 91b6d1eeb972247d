"""The epoch checkpoint and records that were deleted: it says nothing that would make them damage."""

from __future__ import annotations

from storage.log.log import Log
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log, read_all, reopened


def deleted_up_to(offset: int, fs: LosingFileSystem) -> Log:
    """A log of three records in epoch 1, flushed, of which those below the offset are deleted, flushed too."""
    log = new_log(fs)
    for value in (b"a", b"b", b"c"):
        log.append.as_leader(batch(value), 1, NOW_MS)
    log.flush()
    log.advance_log_start(offset)
    log.flush()
    return log


def test_a_log_whose_every_record_was_deleted_or_cut_is_whole_after_a_crash() -> None:
    fs = LosingFileSystem()
    log = deleted_up_to(3, fs)
    log.append.as_leader(batch(b"d"), 1, NOW_MS)
    log.truncate_to(3)
    assert log.epoch_entries == ()
    found = reopened(fs.after_crash(), recovery_point=3)
    assert (found.log_start_offset, found.log_end_offset, read_all(found)) == (3, 3, [])


def test_what_came_after_the_deletion_and_was_not_flushed_is_still_there_after_a_kill() -> None:
    fs = LosingFileSystem()
    log = deleted_up_to(3, fs)
    log.append.as_leader(batch(b"cut"), 1, NOW_MS)
    log.truncate_to(3)
    log.append.as_leader(batch(b"d"), 2, NOW_MS)
    found = reopened(fs.after_kill(), recovery_point=3)
    assert (found.log_start_offset, read_all(found)) == (3, [(3, b"d")])
    assert [(entry.epoch, entry.start_offset) for entry in found.epoch_entries] == [(2, 3)]


def test_a_log_of_which_a_part_was_deleted_starts_there_after_a_crash() -> None:
    fs = LosingFileSystem()
    deleted_up_to(2, fs)
    found = reopened(fs.after_crash(), recovery_point=3)
    assert (found.log_start_offset, read_all(found)) == (2, [(2, b"c")])
