"""Ctrl-C in a caller that waits, between any two instructions of Python, leaves the client's own thread at work."""

from __future__ import annotations

import _weakrefset
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from types import FrameType
from typing import Any

import pytest

from penstock.client.background import LoopThread
from penstock.client.producer.accumulator import Accumulator, AccumulatorConfig
from penstock.client.producer.memory import MemoryPool
from penstock.record.codecs import Codec
from penstock.threads import Lock, SystemThreads

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


class InterruptedLock:
    """Ctrl-C comes behind its first release."""

    def __init__(self) -> None:
        lock = threading.Lock()
        self.acquire, self.release, self.locked = lock.acquire, lock.release, lock.locked
        self._was_interrupted = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
        if not self._was_interrupted:
            self._was_interrupted = True
            raise KeyboardInterrupt


class InterruptedThreads(SystemThreads):
    def lock(self) -> Lock:
        return InterruptedLock()


def test_a_wait_for_memory_and_a_flush_are_over_after_an_interruption() -> None:
    pool = MemoryPool(10, InterruptedThreads())
    with suppress(KeyboardInterrupt), pool.waiting():
        assert pool.is_short
    assert not pool.is_short
    accumulator = Accumulator(AccumulatorConfig(10, 5, Codec.NONE), pool, InterruptedThreads())
    with suppress(KeyboardInterrupt), accumulator.flush():
        pass
    assert not accumulator._flushing
