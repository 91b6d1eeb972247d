"""A compacted log against the set of what was written: the cleaner may take out what is superseded, and nothing else.

The model is the storage battery's history (`tests/battery/history.py`): of each key the newest record is there, after
any sequence of appends, cleanings, truncations, deletions from the beginning, crashes and restarts; a deletion is kept
for `delete.retention.ms`, and what it deleted does not come back when it goes; nothing is there that was never written.
"""

from __future__ import annotations

import contextlib
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage.log.log import Log
from tests.battery.history import LogHistory
from tests.battery.judge import judge_log, read_whole
from tests.battery.nodes import IDS, KEYED
from tests.battery.workload import Workload
from tests.support.amount import usually
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import log_named


class CompactedLogMachine(RuleBasedStateMachine):
    """One compacted log of a node, with its cleaner, on a losing file system."""

    def __init__(self) -> None:
        super().__init__()
        self.node = Workload(LosingFileSystem())
        self.node.open()
        self.node.create(KEYED, IDS[KEYED])
        self.node.flush(KEYED)
        self.epoch = 0

    @property
    def log(self) -> Log:
        assert self.node.manager is not None
        log = log_named(self.node.manager, KEYED)
        assert log is not None
        return log

    @property
    def history(self) -> LogHistory:
        return self.node.history.logs[KEYED]

    @rule(keys=st.text("abcdABCD", min_size=1, max_size=12), new_epoch=st.booleans())
    def append(self, keys: str, new_epoch: bool) -> None:
        """A batch each; an upper-case letter deletes."""
        self.epoch += new_epoch
        self.node.append_keys(KEYED, keys, self.epoch)

    @rule(count=st.integers(1, 9), key=st.sampled_from([b"a", b"b", b"e"]))
    def follow(self, count: int, key: bytes) -> None:
        self.node.follow(KEYED, count, self.epoch, key)

    @rule()
    def roll(self) -> None:
        self.node.roll(KEYED)

    @rule()
    def flush(self) -> None:
        self.node.flush(KEYED)

    @rule()
    def checkpoint(self) -> None:
        self.node.checkpoint()

    @rule()
    def clean(self) -> None:
        self.node.flush(KEYED)
        self.node.clean()

    @rule(ms=st.sampled_from([10, 900, 1_100]))
    def wait(self, ms: int) -> None:
        self.node.wait(ms)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.node.truncate(KEYED, data.draw(st.integers(self.log.log_start_offset, self.log.log_end_offset)))

    @rule(data=st.data())
    def advance_log_start(self, data: st.DataObject) -> None:
        flushed = max(self.log.flushed_offset, self.log.log_start_offset)
        self.node.advance_log_start(KEYED, data.draw(st.integers(self.log.log_start_offset, flushed)))

    @rule()
    def remove_oldest(self) -> None:
        if self.log.segments[0].next_offset <= self.log.flushed_offset:
            self.node.remove_oldest(KEYED, 1)

    @rule()
    def change_files(self) -> None:
        self.node.change_files(KEYED)

    @rule()
    def reopen(self) -> None:
        self.node.close(3)
        self.node.open()

    @rule(seed=st.integers(0, 2**32), lucky=st.booleans())
    def crash(self, seed: int, lucky: bool) -> None:
        self.node.restart(self.node.fs.after_crash(Random(seed) if lucky else None))

    @rule()
    def kill(self) -> None:
        self.node.restart(self.node.fs.after_kill())

    @invariant()
    def log_agrees_with_its_history(self) -> None:
        found = read_whole(self.log)
        judge_log(self.log, found, self.history)
        assert set(self.history.unflushed.values()) <= set(found)
        assert [record.offset for record in found] == sorted({record.offset for record in found})

    def teardown(self) -> None:
        with contextlib.suppress(Exception):
            self.node.close(3)


TestCompactedLogMachine = CompactedLogMachine.TestCase
TestCompactedLogMachine.settings = settings(
    max_examples=usually(15, long=40), stateful_step_count=30, derandomize=True, deadline=None
)
