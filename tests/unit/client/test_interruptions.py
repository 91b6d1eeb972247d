"""Ctrl-C in a caller that waits, between any two instructions of Python, leaves the client's own thread at work."""

from __future__ import annotations

import _weakrefset
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from types import FrameType
from typing import Any

import pytest

from penstock.client.background import LoopThread
from penstock.threads import SystemThreads

PATIENCE_S = 10


def interrupted(work: Callable[[], object], moment: int) -> bool:
    """Does `work`, interrupted before its instruction of that number; False when it ends before.

    In a thread of its own: an exception between any two instructions may stay the thread's current one.
    """
    instructions = count()
    met: list[bool] = []

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename == _weakrefset.__file__:
            return None  # Python drops an interruption that comes while it calls a weak reference back
        frame.f_trace_opcodes = True
        if event == "opcode" and next(instructions) == moment:
            raise KeyboardInterrupt
        return trace

    def traced() -> None:
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            met.append(True)
        finally:
            sys.settrace(None)

    caller = threading.Thread(target=traced)
    caller.start()
    caller.join()
    return bool(met)


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    found = LoopThread()
    yield found
    found.stop()


async def seven() -> int:
    return 7


def test_an_event_can_be_set_after_a_waiter_was_interrupted() -> None:
    for moment in count():
        event = SystemThreads().event()
        was_interrupted = interrupted(lambda event=event: event.wait(0), moment)  # type: ignore[misc]
        setting = threading.Thread(target=event.set, daemon=True)
        setting.start()
        setting.join(PATIENCE_S)
        assert not setting.is_alive() and event.wait(0), f"interrupted before instruction {moment}"
        if not was_interrupted:
            assert moment > 0
            break


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_the_clients_thread_goes_on_after_a_caller_was_interrupted(loop_thread: LoopThread) -> None:
    for moment in count():
        was_interrupted = interrupted(lambda: loop_thread.run(seven()), moment)
        assert loop_thread.run(seven(), PATIENCE_S) == 7, f"interrupted before instruction {moment}"
        if not was_interrupted:
            assert moment > 0
            break
