"""How passes are chosen, driven, stopped and how they fail: no failure of a pass loses a record or hides."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from penstock.clock import ManualClock
from penstock.errors import InvariantViolation, KafkaStorageError
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.cleaner.blocking_step import in_thread
from storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from storage.cleaner.cleaner_log_view import Candidate
from storage.cleaner.cleaner_types import CleanerConfig, Reason
from storage.cleaner.log_cleaner import LogCleaner
from storage.log.log import Log
from storage.log.log_types import LogOptions
from tests.support.compaction import COMPACT, RETENTION_MS, CompactedLog, NoWait, state_of
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, batch, new_log

CHANGES = [(b"k%d" % (n % 5), b"value-%03d" % n) for n in range(40)]
STATE = state_of(CHANGES)
BACKOFF_MS = 15_000


def filled(**options: object) -> CompactedLog:
    compacted = CompactedLog(**options)  # type: ignore[arg-type]
    compacted.append_all(CHANGES)
    compacted.seal()
    return compacted


# -- choosing ----------------------------------------------------------------------------------------------------------


def test_a_log_that_is_not_compacted_is_not_looked_at() -> None:
    fs = LosingFileSystem()
    log = new_log(fs, replace(COMPACT, cleanup_policy="delete"))
    log.append.as_leader(batch(b"1"), 0, NOW_MS)
    log.roll()
    log.flush()
    cleaner = LogCleaner(
        fs, CleanerConfig(), lambda: [Candidate(log, 1, CleanerCheckpoint(fs, "/d", THREADS))], ManualClock(), THREADS
    )

    assert cleaner.choose(NOW_MS) is None


def cleaner_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.name == "storage.cleaner.log_cleaner"]


@pytest.mark.parametrize(
    ("committed", "flushed", "why"),
    [
        (40, False, "end at 40, and it is flushed up to 0 only"),
        (20, True, "end at 40, and it is committed up to 20 only"),
    ],
)
def test_what_cannot_be_cleaned_yet_counts_as_dirty_and_is_told_of_once_an_hour(
    committed: int, flushed: bool, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    compacted = CompactedLog()
    compacted.append_all(CHANGES)
    compacted.log.roll()
    if flushed:
        compacted.log.flush()
    compacted.high_watermark = committed
    compacted.checkpoint.put(compacted.log.topic_partition, 0, 0)
    for _ in range(3):
        compacted.cleaner.choose(NOW_MS)
    assert compacted.cleaner.statistics().max_dirty_ratio == 1.0
    assert cleaner_warnings(caplog) == []  # each roll is held up for a moment

    for _ in range(10):
        compacted.clock.advance(12 * 60_000)
        compacted.cleaner.choose(NOW_MS)
    lines = cleaner_warnings(caplog)
    assert len(lines) == 2 and all(line.endswith(why) for line in lines), lines

    compacted.high_watermark = 40
    compacted.log.flush()
    assert compacted.cleaner.choose(NOW_MS) is not None
    compacted.clock.advance(24 * 60 * 60_000)
    compacted.cleaner.choose(NOW_MS)
    assert len(cleaner_warnings(caplog)) == 2


def test_the_dirtiest_of_several_logs_goes_first() -> None:
    fs = LosingFileSystem()
    fs.mkdir("/d")
    checkpoint = CleanerCheckpoint(fs, "/d", THREADS)
    logs = []
    for number, dirty in enumerate((10, 30, 20)):
        topic_partition = TopicPartition("t", number)
        log = Log.create(fs, f"/d/t-{number}", topic_partition, COMPACT, LogOptions(THREADS))
        for offset in range(20 + dirty):
            log.append.as_leader(build_batch([b"x" * 30], keys=[b"k"], timestamps_ms=NOW_MS), 0, NOW_MS)
            if offset == 19:
                log.roll()
        log.roll()
        log.flush()
        checkpoint.put(topic_partition, 20, 0)
        logs.append(log)
    cleaner = LogCleaner(
        fs,
        CleanerConfig(),
        lambda: [Candidate(log, log.log_end_offset, checkpoint) for log in logs],
        ManualClock(),
        THREADS,
    )

    order = []
    while (chosen := cleaner.choose(NOW_MS)) is not None and chosen.plan.reason is Reason.DIRTY:
        order.append(chosen.log.topic_partition.partition)
        for step in cleaner.clean(chosen, NOW_MS):
            assert cleaner.statistics().running == (chosen.log.topic_partition,)
            other = cleaner.choose(NOW_MS)
            assert other is None or other.log is not chosen.log, "one pass over a log at a time"
            step()
    assert order == [1, 2, 0]


def test_a_damaged_index_costs_no_cleaning_and_damage_where_times_are_asked_is_reported() -> None:
    compacted = filled(config=replace(COMPACT, min_compaction_lag_ms=10, max_compaction_lag_ms=20))
    again = CompactedLog(compacted.fs.after_crash(), compacted.log.config, flushed=40)
    again.clock.advance(100)
    for segment in again.log.segments:
        segment.release()
    again.fs.cut("/d/orders-0/00000000000000000007.timeindex", 5)
    assert again.clean() == 1
    assert again.state() == STATE


# -- failing -----------------------------------------------------------------------------------------------------------


def test_an_abort_leaves_everything_as_it_was_and_the_log_waits() -> None:
    compacted = filled()

    def abort(step: int) -> None:
        if step == 4:
            compacted.cleaner.abort(compacted.log.topic_partition)

    assert compacted.clean_once(abort)
    statistics = compacted.cleaner.statistics()
    assert (statistics.aborted, statistics.passes, statistics.running) == (1, 0, ())
    assert compacted.state() == STATE
    assert not compacted.leftovers()
    assert compacted.checkpoint.get(compacted.log.topic_partition) is None
    assert not compacted.clean_once()
    compacted.clock.advance(BACKOFF_MS)
    assert compacted.clean() == 1
    assert compacted.state() == STATE


def test_nothing_is_begun_after_a_stop() -> None:
    compacted = filled()
    compacted.clean_once(lambda step: compacted.cleaner.stop() if step == 1 else None)

    compacted.clock.advance(BACKOFF_MS)
    assert not compacted.clean_once()
    assert compacted.cleaner.statistics().aborted == 1


def test_segments_that_retention_takes_during_a_pass_end_it() -> None:
    for at_step in range(1, 12):
        compacted = filled(config=replace(COMPACT, cleanup_policy="compact,delete"))

        def retention(step: int, compacted: CompactedLog = compacted, at_step: int = at_step) -> None:
            if step == at_step:
                compacted.log.full.remove_oldest(3)
                compacted.log.full.run_file_changes()

        compacted.clean_once(retention)
        start = compacted.log.log_start_offset
        assert start in (21, 40)
        assert compacted.state() == state_of([c for c in CHANGES if CHANGES.index(c) >= start])
        compacted.clock.advance(BACKOFF_MS)
        compacted.clean()
        assert compacted.state() == state_of([c for c in CHANGES if CHANGES.index(c) >= start])
        assert compacted.cleaner.statistics().uncleanable == ()


def test_a_truncation_during_a_pass_ends_it_and_nothing_counts_as_clean() -> None:
    for at_step in range(12):
        compacted = filled()

        def truncate(step: int, compacted: CompactedLog = compacted, at_step: int = at_step) -> None:
            if step == at_step:
                compacted.log.truncate_to(30)

        compacted.clean_once(truncate)
        checkpoint = compacted.checkpoint.get(compacted.log.topic_partition)
        assert checkpoint is None or checkpoint <= 30
        assert compacted.log.log_end_offset <= 30
        assert not compacted.leftovers()
        compacted.append((b"k0", b"after"))
        compacted.seal()
        compacted.clock.advance(BACKOFF_MS)
        compacted.clean()
        assert [r.value for r in compacted.records() if r.key == b"k0"] == [b"after"]


def test_records_that_come_after_a_truncation_below_the_checkpoint_are_dirty() -> None:
    compacted = filled()
    compacted.append((b"gone", b"old"))
    compacted.seal()
    compacted.clean()
    compacted.log.truncate_to(30)
    compacted.append_all([(b"gone", b"old"), (b"gone", None), *CHANGES])
    compacted.seal()
    for _ in range(4):
        compacted.clean()
        compacted.clock.advance(RETENTION_MS + 1)

    assert compacted.state() == STATE
    assert len(compacted.records()) == 5


def test_a_log_that_is_deleted_during_a_pass_is_no_failure() -> None:
    for at_step in range(1, 10):
        compacted = filled()

        def delete(step: int, compacted: CompactedLog = compacted, at_step: int = at_step) -> None:
            if step == at_step:
                compacted.log.abandon()
                compacted.fs.rename("/d/orders-0", "/d/orders-0.x-delete")

        compacted.clean_once(delete)
        statistics = compacted.cleaner.statistics()
        assert (statistics.passes + statistics.aborted, statistics.uncleanable) == (1, ())
        compacted.cleaner.forget(compacted.log.topic_partition)
        assert not compacted.clean_once(), "the log is closed"


def test_a_pass_that_ends_after_its_log_was_forgotten_leaves_nothing_to_the_next_log_of_that_name() -> None:
    for at_step in range(1, 20):
        compacted = filled()

        def forget(step: int, compacted: CompactedLog = compacted, at_step: int = at_step) -> None:
            if step == at_step:
                compacted.log.abandon()
                compacted.cleaner.forget(compacted.log.topic_partition)

        compacted.clean_once(forget)
        if compacted.log.closed:
            assert compacted.cleaner._horizons == {}


def test_a_log_that_goes_while_its_horizon_is_looked_for_leaves_none() -> None:
    compacted = filled()
    compacted.clean()
    again = CompactedLog(compacted.fs, flushed=40)
    chosen = again.cleaner.choose(NOW_MS)
    assert chosen is not None and chosen.plan.reason is Reason.UNKNOWN_HORIZON
    for step in again.cleaner.clean(chosen, NOW_MS):
        step()
        again.log.abandon()
        again.cleaner.forget(again.log.topic_partition)
    assert again.cleaner._horizons == {}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_shortage_at_any_point_defers_and_later_all_is_well(code: int) -> None:
    for at in range(1, count_operations() + 1):
        compacted = filled()
        number = compacted.fs.operations + at
        compacted.fs.fail_at[number] = code
        try:
            compacted.clean_once()
        except KafkaStorageError:
            assert "sync" in compacted.fs.trace[number - 1], "only a failed sync is final"
            continue
        may_stay = ".cleaned" if "unlink" in compacted.fs.trace[number - 1] else "nothing"
        statistics = compacted.cleaner.statistics()
        assert statistics.uncleanable == ()
        assert statistics.deferred + statistics.passes == 1, compacted.fs.trace[-1]
        assert compacted.state() == STATE
        assert compacted.log.full.has_file_changes or all(path.endswith(may_stay) for path in compacted.leftovers())
        compacted.clock.advance(BACKOFF_MS)
        compacted.clean()
        assert compacted.state() == STATE
        assert len(compacted.records()) == 5
        assert all(path.endswith(may_stay) for path in compacted.leftovers())


def count_operations() -> int:
    compacted = filled()
    before = compacted.fs.operations
    compacted.clean()
    return compacted.fs.operations - before


def test_a_disk_that_fails_at_any_point_is_reported_to_the_driver_and_loses_nothing() -> None:
    operations = count_operations()
    for at in range(1, operations + 1):
        compacted = filled()
        compacted.fs.fail_at[compacted.fs.operations + at] = errno.EIO
        try:
            compacted.clean_once()
        except KafkaStorageError as error:
            assert isinstance(error.__cause__, OSError)
        else:
            assert "unlink" in compacted.fs.trace[-1] or compacted.cleaner.statistics().passes
        assert compacted.cleaner.statistics().running == ()
        for survivor in (compacted.fs.after_crash(), compacted.fs.after_kill()):
            assert CompactedLog(survivor, flushed=40).state() == STATE


def test_short_writes_are_written_on() -> None:
    compacted = filled()
    compacted.fs.short_at = set(range(compacted.fs.operations + 1, compacted.fs.operations + 500, 2))
    compacted.clean()

    assert compacted.state() == STATE
    assert len(compacted.records()) == 5


def test_what_nobody_expected_makes_one_log_uncleanable_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    compacted = filled()
    monkeypatch.setattr("storage.cleaner.segment_cleaning.filter_batch", lambda *_: 1 // 0)
    assert compacted.clean() == 1

    ((topic_partition, why),) = compacted.cleaner.statistics().uncleanable
    assert (topic_partition, why.startswith("ZeroDivisionError")) == (compacted.log.topic_partition, True)
    assert compacted.state() == STATE
    assert not compacted.leftovers()
    compacted.cleaner.forget(compacted.log.topic_partition)
    monkeypatch.undo()
    assert compacted.clean() == 1


def test_a_driver_that_goes_away_frees_the_log() -> None:
    compacted = filled()
    chosen = compacted.cleaner.choose(NOW_MS)
    assert chosen is not None
    steps = compacted.cleaner.clean(chosen, NOW_MS)
    next(steps)()
    steps.close()

    assert compacted.cleaner.statistics().running == ()
    assert compacted.clean() == 1


def test_a_step_that_was_not_run_is_a_bug() -> None:
    steps = in_thread(lambda: 1)
    next(steps)
    with pytest.raises(InvariantViolation, match="was not run"):
        next(steps)


# -- pace and figures --------------------------------------------------------------------------------------------------


def test_traffic_is_held_below_the_limit_and_a_wait_can_be_ended() -> None:
    compacted = filled(cleaner=CleanerConfig(io_max_bytes_per_second=100_000))
    compacted.clean_once()
    statistics = compacted.cleaner.statistics()
    waited_s = max(compacted.signals[0].waits_s)

    assert waited_s == pytest.approx((statistics.bytes_read + statistics.bytes_written) / 100_000, abs=0.00001)
    assert statistics.throttled_ms > 0


def test_a_stop_during_a_wait_ends_the_pass_in_mid_file() -> None:
    class StopsAtThirdWait(NoWait):
        def wait(self, timeout: float) -> bool:
            return super().wait(timeout) or len(self.waits_s) > 10

    compacted = filled()
    compacted.threads.new_signal = StopsAtThirdWait
    compacted.clean_once()

    assert compacted.cleaner.statistics().aborted == 1
    assert compacted.state() == STATE
    assert not compacted.leftovers()


def test_the_figures_of_a_pass() -> None:
    compacted = filled()
    size_bytes = compacted.log.size_bytes
    compacted.clean()
    last = compacted.cleaner.statistics().last_pass

    assert last is not None
    assert (last.first_dirty_offset, last.end_offset, last.reason) == (0, 40, Reason.DIRTY)
    assert (last.bytes_read, last.records_read, last.records_kept, last.map_entries) == (2 * size_bytes, 40, 5, 5)
    assert last.bytes_written == 5 * 61, "five segments of which nothing stays; the sixth is left alone"
    assert (last.groups, last.replaced_segments, last.next_horizon_ms) == (5, 5, None)
    assert "1 passes" in repr(compacted.cleaner)


def test_each_thread_has_its_share_of_the_map() -> None:
    changes = [(b"k%02d" % n, b"") for n in range(40)]
    ends = []
    for threads in (1, 4):
        compacted = CompactedLog(cleaner=CleanerConfig(threads=threads, dedupe_buffer_bytes=8000))
        compacted.append_all(changes)
        compacted.seal()
        compacted.clean_once()
        last = compacted.cleaner.statistics().last_pass
        assert last is not None
        ends.append(last.end_offset)
    assert ends[0] == 40
    assert ends[1] < 20
