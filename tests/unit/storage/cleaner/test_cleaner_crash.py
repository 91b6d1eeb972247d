"""A machine that stops at any file operation of a cleaning: the latest of each key is there, and nothing that was gone.

The history has values, tombstones that stay, tombstones whose time comes, keys that live again after their deletion,
several groups, a map that is too small for one pass, a tombstone that comes with its time already over. At every
operation the machine stops; then without any unsynced byte, with some of them, or as a kill leaves it, the log must
open with the same state, must have no record that was not written at that offset, and cleaning it on must end where it
ends without a stop. `python -m tests.unit.storage.cleaner.test_cleaner_crash` takes every operation, with many choices
of what survives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

import storage.cleaner.batch_filter
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.record.reader import Record
from storage.cleaner.cleaner_types import CleanerConfig
from storage.disk.file_names import CLEANED_SUFFIX, SWAP_SUFFIX
from tests.support.compaction import COMPACT, DIRECTORY, RETENTION_MS, Change, CompactedLog, state_of
from tests.support.losing_fs import Crashed, LosingFileSystem
from tests.support.storage import NOW_MS

SMALL_MAP = CleanerConfig(dedupe_buffer_bytes=3000)
CONFIG = replace(COMPACT, segment_bytes=900)
STRIDE = 2
"""For the default suite."""
SEEDS = 20


def first_changes() -> list[Change]:
    found: list[Change] = [(b"key-%02d" % (n % 12), b"first-%03d" % n) for n in range(48)]
    found += [(b"key-%02d" % n, None) for n in (1, 3, 5)]
    return found


def later_changes() -> list[Change]:
    found: list[Change] = [(b"key-%02d" % (n % 4), b"later-%03d" % n) for n in range(20)]
    return [*found, (b"key-03", None), (b"key-11", None), (b"new", b"1")]


def prepare(fs: LosingFileSystem) -> CompactedLog:
    """Cleaned once; then the tombstones' time comes, and there is more to clean."""
    compacted = CompactedLog(fs, CONFIG, cleaner=SMALL_MAP)
    compacted.append_all(first_changes())
    compacted.seal()
    compacted.clean()
    compacted.clock.advance(RETENTION_MS + 1)
    compacted.append_all(later_changes())
    compacted.append_stamped_tombstone(b"key-09", NOW_MS)
    compacted.seal()
    return compacted


def finish(compacted: CompactedLog) -> None:
    compacted.clean()
    compacted.clock.advance(RETENTION_MS + 1)
    compacted.clean()


def plain_run() -> tuple[list[Record], list[Record], int, int]:
    """The records at the beginning and at the end, and the operations between."""
    compacted = prepare(LosingFileSystem())
    records, first = compacted.records(), compacted.fs.operations
    finish(compacted)
    return records, compacted.records(), first, compacted.fs.operations


def survivors(fs: LosingFileSystem, seeds: int) -> Iterator[LosingFileSystem]:
    yield fs.after_crash()
    for seed in range(seeds):
        yield fs.after_crash(Random(fs.operations * 1000 + seed))
    yield fs.after_kill()


def stop_at(number: int) -> tuple[LosingFileSystem, ManualClock]:
    compacted = prepare(LosingFileSystem())
    compacted.fs.crash_at = number
    with pytest.raises(Crashed):
        finish(compacted)
        compacted.fs.listdir("/")
    return compacted.fs, compacted.clock


def check(stride: int, seeds: int) -> int:
    """Stops at every `stride`th operation; how many cases there were."""
    before, after, first, last = plain_run()
    written = {record.offset: record for record in before}
    state = state_of([*first_changes(), *later_changes(), (b"key-09", None)])
    end, cases = len(first_changes()) + len(later_changes()) + 1, 0
    for number in range(first + 1, last + 1, stride):
        fs, clock = stop_at(number)
        for survivor in survivors(fs, seeds):
            wall = ManualClock(clock.now_ms(), clock.wall_ms())
            flushed = end if cases % 2 else 0
            again = CompactedLog(survivor, CONFIG, cleaner=SMALL_MAP, flushed=flushed, clock=wall)
            assert again.state() == state, f"after a stop at operation {number}"
            assert again.log.log_end_offset == end
            assert all(written[record.offset] == record for record in again.records())
            finish(again)
            again.clock.advance(RETENTION_MS + 1)
            finish(again)
            assert again.records() == after, f"after a stop at operation {number}"
            assert again.state() == state
            assert not again.leftovers()
            cases += 1
    return cases


def test_a_stop_at_any_operation_loses_nothing_and_brings_nothing_back() -> None:
    assert check(STRIDE, 1) > 200


@pytest.mark.parametrize("suffix", [CLEANED_SUFFIX, SWAP_SUFFIX])
def test_a_directory_in_the_place_of_a_cleaned_segment_is_refused_and_costs_no_record(suffix: str) -> None:
    """One that is made under a running node ends the cleaning; the next start refuses the log, and names it."""
    compacted = prepare(LosingFileSystem())
    state, oldest = compacted.state(), compacted.log.segments[0]
    in_the_way = oldest.log_path + suffix
    compacted.fs.mkdir(in_the_way)
    compacted.fs.fsync_dir(DIRECTORY)
    with pytest.raises(KafkaStorageError, match="cannot clean: Is a directory"):
        compacted.clean()
    for survivor in survivors(compacted.fs, 3):
        with pytest.raises(CorruptFileError, match=f"{in_the_way}: .*a directory where a file of the log should be"):
            CompactedLog(survivor, CONFIG)
        survivor.rmdir(in_the_way)
        again = CompactedLog(survivor, CONFIG, clock=compacted.clock)
        assert again.state() == state
        again.clean()
        assert again.state() == state


def what_a_slow_consumer_knows() -> dict[bytes | None, bytes]:
    """It has read a part when the log is cleaned, and reads the rest within delete.retention.ms after that."""
    compacted = CompactedLog(config=CONFIG)
    compacted.append_all(first_changes()[:30])
    known = compacted.changes()
    compacted.append_all(first_changes()[30:])
    compacted.seal()
    compacted.clean()
    compacted.clock.advance(RETENTION_MS)
    compacted.clean()
    return state_of([*known, *((r.key, r.value) for r in compacted.records() if r.offset >= 30)])


def test_a_consumer_in_the_middle_of_the_log_hears_of_every_deletion() -> None:
    assert what_a_slow_consumer_knows() == state_of(first_changes())


def test_a_tombstone_that_goes_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant that the test before has to kill."""
    monkeypatch.setattr(storage.cleaner.batch_filter, "tombstone_may_go", lambda horizon_ms, now_ms: True)

    assert what_a_slow_consumer_knows().keys() - state_of(first_changes()).keys() == {b"key-01", b"key-03", b"key-05"}


if __name__ == "__main__":
    print(f"{check(1, SEEDS)} cases, none wrong")
