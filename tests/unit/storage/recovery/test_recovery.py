"""Opening a log after a crash: what is cut, what is refused, what is rebuilt."""

from __future__ import annotations

import errno

import pytest

from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import EpochEntry
from storage.disk.checkpoint_file import read_epochs
from storage.log.log import Log
from storage.log_config import LogConfig
from tests.support.look_ups import offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log, read_all, reopened

FIRST, SECOND, THIRD = (f"/d/orders-0/{base:020d}.log" for base in (0, 7, 14))
BATCH_BYTES = len(batch(b"value-00"))


def stopped(count: int = 20, records_per_epoch: int = 8) -> LosingFileSystem:
    """Three segments: 0..6, 7..13, 14.."""
    fs = LosingFileSystem()
    log = new_log(fs)
    for n in range(count):
        log.append.as_leader(batch(b"value-%02d" % n, timestamp_ms=NOW_MS + n), n // records_per_epoch, NOW_MS)
    log.close()
    return fs.clone()


def values(log: Log) -> list[bytes]:
    return [value for _, value in read_all(log)]


WHOLE = [b"value-%02d" % n for n in range(20)]


def test_a_torn_tail_above_the_recovery_point_is_cut() -> None:
    fs = stopped()
    fs.cut(THIRD, 3 * BATCH_BYTES + 10)
    log = reopened(fs, 14)

    assert values(log) == WHOLE[:17]
    assert log.statistics().recovery_cut_bytes == 10
    assert fs.size(THIRD) == 3 * BATCH_BYTES
    assert values(reopened(fs.after_crash(), 14)) == WHOLE[:17], "the cut is durable"


def test_a_tear_in_an_older_segment_drops_what_follows_it() -> None:
    fs = stopped()
    fs.damage(SECOND, 2 * BATCH_BYTES + 40, 1)
    log = reopened(fs, 7)

    assert values(log) == WHOLE[:9]
    assert len(log.segments) == 2
    assert not fs.exists(THIRD)
    log.append.as_leader(batch(b"next"), 9, NOW_MS)
    assert read_all(log)[-1] == (9, b"next")


def test_what_was_flushed_stays_though_the_flush_behind_it_failed_and_the_checkpoint_is_old() -> None:
    """The page cache has a longer file than the disk; the disk's is cut behind its last whole batch, and not before."""
    fs = LosingFileSystem()
    log = new_log(fs)
    for n in range(4):
        log.append.as_leader(batch(b"value-%02d" % n, timestamp_ms=NOW_MS + n), 0, NOW_MS)
        log.flush()
    log.append.as_leader(batch(b"value-04"), 0, NOW_MS)
    fs.fail_on["fdatasync"] = errno.EIO
    with pytest.raises(KafkaStorageError):
        log.flush()
    assert values(reopened(fs.after_kill(), 1)) == WHOLE[:4]


def test_a_segment_that_does_not_follow_on_is_dropped() -> None:
    fs = stopped()
    fs.unlink(SECOND)
    log = reopened(fs, 7)

    assert values(log) == WHOLE[:7]
    assert not fs.exists(THIRD)


def test_a_bad_byte_below_the_recovery_point_is_rot_and_nothing_is_touched() -> None:
    fs = stopped()
    fs.damage(SECOND, 2 * BATCH_BYTES + 40, 1)
    before = {path: fs.read_file(path) for path in fs.files()}
    with pytest.raises(CorruptFileError, match=r"0007\.log: damaged at byte 15"):
        reopened(fs, 10)

    assert {path: fs.read_file(path) for path in fs.files()} == before


def test_a_log_that_ends_below_its_recovery_point_is_refused() -> None:
    fs = stopped()
    fs.cut(THIRD, BATCH_BYTES)

    with pytest.raises(CorruptFileError, match="ends at offset 15, but was flushed up to offset 20"):
        reopened(fs, 20)
    with pytest.raises(CorruptFileError, match="ends at offset 15, but was flushed up to offset 20"):
        reopened(fs, 20, clean=True)


def test_a_directory_without_segments_is_refused_when_it_had_records() -> None:
    fs = stopped()
    for path in (FIRST, SECOND, THIRD):
        fs.unlink(path)

    with pytest.raises(CorruptFileError, match="was flushed up to offset 20"):
        reopened(fs, 20)
    assert reopened(fs, 0).log_end_offset == 0


def test_an_empty_file_whose_records_were_flushed_is_refused() -> None:
    fs = stopped()
    fs.cut(SECOND, 0)

    with pytest.raises(CorruptFileError, match=r"0007\.log.*the file is empty"):
        reopened(fs, 20, clean=True)


def test_without_a_good_checkpoint_only_the_newest_segment_is_cut() -> None:
    torn = stopped()
    torn.cut(THIRD, BATCH_BYTES + 1)
    assert values(reopened(torn, None)) == WHOLE[:15]

    rotten = stopped()
    rotten.damage(SECOND, 40, 1)
    with pytest.raises(CorruptFileError, match=r"0007\.log: damaged at byte 0"):
        reopened(rotten, None)
    assert rotten.exists(THIRD)


def test_a_clean_stop_skips_the_check() -> None:
    class CountingFileSystem(LosingFileSystem):
        read_bytes = 0

        def pread(self, fd: int, size: int, at: int) -> bytes:
            self.read_bytes += size
            return super().pread(fd, size, at)

    fs = CountingFileSystem(stopped(200, records_per_epoch=1000).root)
    log = reopened(fs, 200, clean=True)

    assert log.log_end_offset == 200
    assert log.statistics().index_rebuilds == 0
    assert fs.read_bytes < log.size_bytes / 2


def test_after_a_clean_stop_the_index_of_the_active_segment_is_continued() -> None:
    fs = stopped(19)
    log = reopened(fs, 19, clean=True)
    log.append.as_leader(batch(b"value-19", timestamp_ms=NOW_MS + 19), 2, NOW_MS)
    log.close()

    again = reopened(fs, 20, clean=True)
    assert values(again) == WHOLE
    assert offset_for_timestamp(again, NOW_MS + 19).offset == 19  # type: ignore[union-attr]
    assert again.statistics().index_rebuilds == 0


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt(suffix: str) -> None:
    fs = stopped()
    whole = fs.read_file(SECOND.replace(".log", suffix))
    fs.unlink(SECOND.replace(".log", suffix))
    log = reopened(fs, 20, clean=True)

    assert values(log) == WHOLE
    assert offset_for_timestamp(log, NOW_MS + 9).offset == 9  # type: ignore[union-attr]
    log.close()
    assert fs.read_file(SECOND.replace(".log", suffix)) == whole


def test_leftovers_of_interrupted_operations_are_tidied() -> None:
    fs = stopped()
    for name in (
        "00000000000000000003.log.deleted",
        "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000099.index",
        "notes.txt",
    ):
        fs.close(fs.open(f"/d/orders-0/{name}", create=True))
    log = reopened(fs, 20)

    assert values(log) == WHOLE
    names = fs.listdir("/d/orders-0")
    assert "notes.txt" in names, "what is not ours stays"
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or "99" in name]


def test_a_swap_is_finished() -> None:
    fs = stopped()
    fd = fs.open("/d/orders-0/00000000000000000000.log.swap", create=True)
    fs.pwritev(fd, [fs.read_file(FIRST) + fs.read_file(SECOND)], 0)
    fs.close(fd)
    log = reopened(fs, 20, clean=True, config=LogConfig(segment_bytes=600, cleanup_policy="compact"))

    assert values(log) == WHOLE
    assert not fs.exists(SECOND)
    assert [segment.base_offset for segment in log.segments] == [0, 14]


def test_a_swap_that_ends_where_no_segment_begins_takes_the_place_of_none() -> None:
    fs = stopped()
    fd = fs.open("/d/orders-0/00000000000000000000.log.swap", create=True)
    fs.pwritev(fd, [fs.read_file(FIRST)[:-BATCH_BYTES]], 0)
    fs.close(fd)

    with pytest.raises(CorruptFileError, match=r"log.swap.*ends at offset 6, where no segment begins"):
        reopened(fs, 20, clean=True)
    assert fs.exists(SECOND)


def test_epochs_are_taken_from_the_log_when_their_checkpoint_is_missing_or_damaged() -> None:
    path = "/d/orders-0/leader-epoch-checkpoint"
    wanted = (EpochEntry(0, 0), EpochEntry(1, 8), EpochEntry(2, 16))
    for damage in (lambda fs: fs.unlink(path), lambda fs: fs.cut(path, 5), lambda fs: fs.damage(path, 6, 1)):
        fs = stopped()
        damage(fs)
        assert reopened(fs, 20, clean=True).epoch_entries == wanted
        assert read_epochs(fs, path) == wanted
