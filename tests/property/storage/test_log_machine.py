"""The log against a list of batches: whatever is done to both, both say the same, also after crashes.

The model is dumb on purpose: a list of (base offset, values, epoch), how much of it is flushed, and how much of its
beginning is deleted. A crash may lose any part of what was not flushed; what is left must be the beginning of the list,
at least up to the flushed offset. And it may bring back what was deleted but not durably so. Cleaning, which takes
records out of the middle, has a machine of its own (`test_compacted_log_machine.py`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.epochs import assign, epoch_for_offset, truncate_from_start
from penstock.record.reader import read_columns
from penstock.types import EpochEntry
from storage.log.log import Log
from tests.support.amount import usually
from tests.support.look_ups import max_timestamp, offset_for_timestamp
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager, read_all

LARGEST_INTERVAL, WIDE_BYTES = (1 << 31) - 1, 40_000
Batch = tuple[int, tuple[bytes, ...], int]


class LogMachine(RuleBasedStateMachine):
    """One partition's log in a log manager on a losing file system."""

    def __init__(self) -> None:
        super().__init__()
        self.fs = LosingFileSystem()
        self.batches: list[Batch] = []
        """From `bottom` on, or a little below."""
        self.bottom = 0
        """Nothing below it can come back."""
        self.start = 0
        self.flushed = 0
        self.epoch = 0
        self.counter = 0
        self.config = SMALL
        self.manager = open_manager(self.fs)
        self.log = self._open()
        self.log.flush()

    def _open(self) -> Log:
        return self.manager.get_or_create(TP, TOPIC_ID, self.config)

    @initialize(is_wide=st.booleans())
    def draw_config(self, is_wide: bool) -> None:
        if is_wide:
            self.change_config(LARGEST_INTERVAL, WIDE_BYTES)

    @rule(
        interval_bytes=st.sampled_from((0, 100, LARGEST_INTERVAL)),
        segment_bytes=st.sampled_from((SMALL.segment_bytes, WIDE_BYTES)),
    )
    def change_config(self, interval_bytes: int, segment_bytes: int) -> None:
        self.config = replace(SMALL, index_interval_bytes=interval_bytes, segment_bytes=segment_bytes)
        self.log.update_config(self.config)

    @property
    def end(self) -> int:
        if not self.batches:
            return self.start
        base, values, _ = self.batches[-1]
        return base + len(values)

    @property
    def readable(self) -> list[Batch]:
        return [kept for kept in self.batches if kept[0] + len(kept[1]) > self.start]

    def _values(self, count: int) -> tuple[bytes, ...]:
        self.counter += 1
        return tuple(b"%d/%d" % (self.counter, n) for n in range(count))

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=4), new_epoch=st.booleans())
    def append_as_leader(self, counts: list[int], new_epoch: bool) -> None:
        self.epoch += new_epoch
        records = b""
        for count in counts:
            values = self._values(count)
            records += batch(*values, timestamp_ms=NOW_MS + self.counter)
            self.batches.append((self.end, values, self.epoch))
        info = self.log.append.as_leader(records, self.epoch, NOW_MS)
        assert info.last_offset == self.end - 1
        assert info.record_count == sum(counts)

    @precondition(lambda self: self.config.segment_bytes == WIDE_BYTES and len(self.batches) < 300)
    @rule(count=st.integers(150, 250))
    def append_many_as_follower(self, count: int) -> None:
        """More than `INTERVAL_BATCHES_MAX`, or nearly as many."""
        self.append_as_follower(count, new_epoch=False)

    @rule(count=st.integers(1, 12), new_epoch=st.booleans())
    def append_as_follower(self, count: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        records = b""
        for _ in range(count):
            values = self._values(1)
            records += batch(*values, base_offset=self.end, leader_epoch=self.epoch, timestamp_ms=NOW_MS + self.counter)
            self.batches.append((self.end, values, self.epoch))
        self.log.append.as_follower(records)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.flushed = self.log.flush()
        assert self.flushed == self.end

    @rule()
    def assign_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.end)

    @rule()
    def checkpoint(self) -> None:
        self.manager.checkpoints.write_recovery_points()
        self.manager.checkpoints.write_log_starts()
        self._forget_below(self.start)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.batches = [kept for kept in self.batches if kept[0] + len(kept[1]) <= offset]
        before = self.log.log_end_offset
        self.log.truncate_to(offset)
        if offset < before:
            cut_at = self.log.log_end_offset
            assert cut_at == max((base + len(values) for base, values, _ in self.batches), default=cut_at) <= offset
            self.start, self.bottom = min(self.start, cut_at), min(self.bottom, cut_at)
            self.flushed = cut_at

    @rule(offset=st.integers(0, 60))
    def truncate_fully(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.batches, self.start, self.bottom, self.flushed = [], offset, offset, offset

    # -- deleting from the beginning -----------------------------------------------------------------------------------

    @rule(data=st.data())
    def advance_log_start(self, data: st.DataObject) -> None:
        """Never above the high watermark, and so never above what is flushed."""
        self.start = data.draw(st.integers(self.start, max(self.start, self.flushed)))
        self.log.advance_log_start(self.start)

    @rule(count=st.integers(1, 3))
    def remove_oldest(self, count: int) -> None:
        """Removes the oldest segments that are flushed, as retention does."""
        segments = self.log.segments
        count = sum(1 for segment in segments[: min(count, len(segments) - 1)] if segment.next_offset <= self.flushed)
        self.log.full.remove_oldest(count)
        assert self.log.segments == segments[count:]
        self.start = max(self.start, self.log.segments[0].base_offset)

    @rule()
    def run_file_changes(self) -> None:
        self.log.full.run_file_changes()
        assert not self.log.full.has_file_changes
        self._forget_below(min(self.start, self.log.segments[0].base_offset))

    @rule()
    def delete_expired_files(self) -> None:
        self.log.full.delete_expired_files(NOW_MS)
        self.log.full.delete_expired_files(NOW_MS + self.log.config.file_delete_delay_ms)
        assert not [name for name in self.fs.listdir(self.log.directory) if name.endswith(".deleted")]

    def _forget_below(self, offset: int) -> None:
        self.bottom = max(self.bottom, offset)
        self.batches = [kept for kept in self.batches if kept[0] + len(kept[1]) > offset]

    # -- looking -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data(), max_bytes=st.integers(1, 1500))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, self.end - 1))
        max_offset = data.draw(st.integers(offset, self.end + 2))
        fetched = self.log.reader.read(offset, max_bytes, max_offset=max_offset)
        columns = read_columns(fetched.records)
        below = [kept for kept in self.batches if kept[0] + len(kept[1]) <= max_offset]
        wanted = [kept for kept in below if kept[0] + len(kept[1]) > offset]
        values = [value for _, batch_values, _ in wanted for value in batch_values]
        assert list(columns.values) == values[: len(columns.values)]
        assert bool(columns.values) == bool(wanted)
        assert len(fetched.records) <= max_bytes or len(columns.values) == len(wanted[0][1])
        if wanted:
            assert list(columns.offsets) == list(range(wanted[0][0], fetched.next_offset))

    @rule(later_ms=st.integers(-1, 60))
    def look_up_time(self, later_ms: int) -> None:
        times = {(int(values[0].split(b"/")[0]), max(base, self.start)) for base, values, _ in self.readable}
        wanted = min((at for number, at in times if number >= self.counter - later_ms), default=None)
        found = offset_for_timestamp(self.log, NOW_MS + self.counter - later_ms)
        assert (found.offset if found else None) == wanted
        largest = max_timestamp(self.log)
        assert (largest.offset if largest else None) == max(times, default=(0, None))[1]

    # -- stopping ------------------------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        self.manager.close(True, 3)
        self.manager = open_manager(self.fs)
        assert self.manager.was_clean_shutdown
        assert self.manager.previous_broker_epoch == 3
        self.log = self._open()
        self.flushed = self.end
        self._forget_below(self.start)

    @rule(seed=st.integers(0, 2**32), lucky=st.booleans())
    def crash(self, seed: int, lucky: bool) -> None:
        self.fs = self.fs.after_crash(Random(seed) if lucky else None)
        self._restart()

    @rule()
    def kill(self) -> None:
        end = self.end
        self.fs = self.fs.after_kill()
        self._restart()
        assert self.log.log_end_offset == end

    def _restart(self) -> None:
        self.manager = open_manager(self.fs)
        assert not self.manager.was_clean_shutdown
        self.log = self._open()
        survived = self.log.log_end_offset
        assert survived >= self.flushed
        assert self.bottom <= self.log.log_start_offset <= self.start
        self.start = self.bottom = self.log.log_start_offset
        self.batches = [kept for kept in self.batches if self.start < kept[0] + len(kept[1]) <= survived]
        assert self.end == survived
        self.flushed = survived

    # -- what holds after every step -----------------------------------------------------------------------------------

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.flushed_offset == self.flushed

    @invariant()
    def records_agree(self) -> None:
        every = [(base + n, value) for base, values, _ in self.batches for n, value in enumerate(values)]
        assert read_all(self.log) == [record for record in every if record[0] >= self.start]

    @invariant()
    def epochs_agree_with_a_scan_of_the_batches(self) -> None:
        entries: tuple[EpochEntry, ...] = ()
        for base, _, epoch in self.batches:
            entries = assign(entries, epoch, base)
        cached = self.log.epoch_entries
        scanned = truncate_from_start(entries, self.start)
        assert [e for e in cached if e.start_offset < self.end] == [e for e in scanned if e.start_offset < self.end]
        for base, _, epoch in self.readable:
            assert epoch_for_offset(cached, max(base, self.start)) == epoch

    def teardown(self) -> None:
        with contextlib.suppress(Exception):
            self.manager.close(False)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=usually(15, long=60), stateful_step_count=40, derandomize=True, deadline=None
)
