"""A log may be closed at any moment of a change of its files: the change that runs elsewhere ends, and begins nothing.

The cancellation is made to come before every single instruction of `run` in turn, as another thread's may.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from storage.log import file_changes
from storage.log.file_changes import FileChanges
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, TP, batch, open_manager

SEGMENTS = 2


class CancelledAt:
    """Cancels the changes before the n-th instruction that the module executes in the block."""

    def __init__(self, changes: FileChanges, instruction: int) -> None:
        self._changes = changes
        self._left = instruction
        self.was_reached = False

    def __enter__(self) -> CancelledAt:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.was_reached or frame.f_code.co_filename != file_changes.__file__:
            return None
        if not frame.f_trace_opcodes:
            frame.f_trace_opcodes = True
            sys.settrace(self._trace)  # Python 3.12 asks only now which frames want their instructions
        if event == "opcode":
            self._left -= 1
            if self._left < 0:
                self.was_reached = True
                self._changes.cancel(wait=False)
        return self._trace


def test_a_cancellation_may_come_before_any_instruction_of_a_run(tmp_path: Path) -> None:
    fs, data = FaultyFileSystem(), str(tmp_path / "data")
    manager = open_manager(fs, (data,))
    log = manager.get_or_create(TP, TOPIC_ID, SMALL)
    for _ in range(SEGMENTS):
        log.append.as_leader(batch(b"value"), 1, NOW_MS)
        log.roll()
    oldest = log.segments[:SEGMENTS]
    instruction, begun = 0, set[int]()
    while True:
        changes = FileChanges(fs, log.directory, THREADS.lock())
        changes.remove(oldest)
        renames = fs.calls_of("rename", ".log.deleted")
        with CancelledAt(changes, instruction) as cancelled:
            changes.run()
        if not cancelled.was_reached:
            break
        assert len(changes) == 0
        begun.add(fs.calls_of("rename", ".log.deleted") - renames)
        instruction += 1
    assert instruction > SEGMENTS
    assert begun >= {0, 1, SEGMENTS}, "it came before the first removal, between two, and after the last"
    manager.close(clean=False)
