"""Random histories of a compacted log against a dict: whatever is written, cleaned, cut and lost, both say the same.

The model is dumb: every record ever written that is still in the log's history, in order. At any time the log's state
(the last value of each key) is the model's, and every record in the log is one that was written at that offset, with
its time, its headers and its value. When all is clean, only latest records are left. A consumer reads along, now and
then: if it gets from the beginning to the end within delete.retention.ms, it knows the state as well.

`python -m tests.property.storage.test_cleaner_histories 2000` runs more of them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import Record
from storage.cleaner.cleaner_types import CleanerConfig
from tests.support.amount import usually
from tests.support.compaction import COMPACT, RETENTION_MS, CompactedLog, state_of
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS

KEYS = [None, b"", b"a", b"b", b"c", b"x" * 33, b"x" * 40, b"x" * 39 + b"y"]
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from([None, b"", b"1", b"22"]),
        st.integers(-50, 50),
        st.sampled_from([(), (("h", b"1"),), (("h", None), ("i", b""))]),
    ),
    min_size=1,
    max_size=6,
)
Drawn = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
BATCHES = st.lists(RECORDS, min_size=1, max_size=5)
MAPS = [CleanerConfig(dedupe_buffer_bytes=size) for size in (1, 2500, 4000, 1 << 20)]


class CleanerMachine(RuleBasedStateMachine):
    """One log, one consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Record] = []
        self.committed = 0
        self.compacted = CompactedLog()
        self._restart_consumer()

    @initialize(segment_bytes=st.sampled_from([450, 900, 2500]), bits=st.sampled_from(["CreateTime", "LogAppendTime"]))
    def configure(self, segment_bytes: int, bits: str) -> None:
        self.config = replace(COMPACT, segment_bytes=segment_bytes, message_timestamp_type=bits)  # type: ignore[arg-type]
        self.compacted = CompactedLog(config=self.config)
        self.compacted.log.flush()
        self._open(self.compacted.fs)

    def _open(self, fs: LosingFileSystem) -> None:
        clock = self.compacted.clock
        self.compacted = CompactedLog(fs, self.config, flushed=self.committed, clock=clock)
        self.compacted.high_watermark = self.committed
        end = self.compacted.log.log_end_offset
        assert end >= self.committed
        self.written = [record for record in self.written if record.offset < end]

    @rule(
        batches=st.lists(RECORDS, min_size=1, max_size=5), codec=st.sampled_from(Codec), consumer_is_here=st.booleans()
    )
    def append(self, batches: list[list[Drawn]], codec: Codec, consumer_is_here: bool) -> None:
        if consumer_is_here:
            self.consume()
        for records in batches:
            self._append(records, codec)

    def _append(self, records: list[Drawn], codec: Codec) -> None:
        log, wall_ms = self.compacted.log, self.compacted.clock.wall_ms()
        keys, values, times, headers = zip(*records, strict=True)
        batch = build_batch(
            values, keys=keys, timestamps_ms=[NOW_MS + time for time in times], headers=headers, codec=codec
        )
        info = self.compacted.append_records(batch, max(log.latest_epoch, 0) + len(records) % 2)
        is_append_time = self.config.message_timestamp_type == "LogAppendTime"
        for at, (key, value, time, header) in enumerate(records):
            time_ms = wall_ms if is_append_time else NOW_MS + time
            self.written.append(Record(info.first_offset + at, time_ms, int(is_append_time), key, value, header))

    @rule()
    def seal(self) -> None:
        self.compacted.seal()
        self.committed = self.compacted.high_watermark = self.compacted.log.log_end_offset

    @rule(ms=st.sampled_from([1, 400, RETENTION_MS + 1]))
    def wait(self, ms: int) -> None:
        self.compacted.clock.advance(ms)

    @rule(config=st.sampled_from(MAPS), after_seal=st.booleans())
    def clean_once(self, config: CleanerConfig, after_seal: bool) -> None:
        if after_seal:
            self.seal()
        self.compacted.cleaner.config = config
        self.compacted.clean_once()
        assert not self.compacted.leftovers()

    @rule(config=st.sampled_from(MAPS))
    def clean_all(self, config: CleanerConfig) -> None:
        self.seal()
        self.compacted.cleaner.config = config
        self.compacted.clean(limit=300)
        latest = {record.key: record.offset for record in self.written}
        for record in self.compacted.records():
            assert record.key is not None
            assert record.offset == latest[record.key]
        assert self.compacted.cleaner.statistics().uncleanable == ()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.committed, self.compacted.log.log_end_offset))
        self.compacted.log.truncate_to(offset)
        end = self.compacted.log.log_end_offset
        self.written = [record for record in self.written if record.offset < end]
        self._restart_consumer()

    @rule(seed=st.integers(0, 2**32), how=st.sampled_from(["kill", "lucky", "unlucky"]))
    def stop(self, seed: int, how: str) -> None:
        fs = self.compacted.fs
        end = self.compacted.log.log_end_offset
        self._open(fs.after_kill() if how == "kill" else fs.after_crash(Random(seed) if how == "lucky" else None))
        if self.compacted.log.log_end_offset < end:
            self._restart_consumer()

    def _restart_consumer(self) -> None:
        self.consumed: list[Record] = []
        self.position = 0
        self.consumer_began_ms = self.compacted.clock.wall_ms()

    @rule()
    def consume(self) -> None:
        """To the end: the consumer knows what there is to know, unless it is too slow; then it begins again."""
        if self.compacted.clock.wall_ms() - self.consumer_began_ms > RETENTION_MS:
            self._restart_consumer()
        self.consumed += [record for record in self.compacted.records() if record.offset >= self.position]
        self.position = self.compacted.log.log_end_offset
        assert known(self.consumed) == known(self.written)

    @invariant()
    def the_state_is_the_models(self) -> None:
        found = self.compacted.records()
        written = {record.offset: record for record in self.written}
        assert all(written.get(record.offset) == record for record in found)
        assert known(found) == known(self.written)


def known(records: list[Record]) -> dict[bytes | None, bytes]:
    """The state; records without a key are not part of it."""
    return state_of([(record.key, record.value) for record in records if record.key is not None])


TestCleanerMachine = CleanerMachine.TestCase
TestCleanerMachine.settings = settings(
    max_examples=usually(30, long=120), stateful_step_count=40, derandomize=True, deadline=None
)

if __name__ == "__main__":
    run_state_machine_as_test(
        CleanerMachine, settings=settings(max_examples=int(sys.argv[1]), stateful_step_count=60, deadline=None)
    )
