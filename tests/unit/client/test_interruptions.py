"""Ctrl-C in a caller, at any instruction, leaves the client's own thread at work, and nothing that nobody sends."""

from __future__ import annotations

import _weakrefset
import asyncio
import dis
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from types import FrameType
from typing import Any, cast

import pytest

from penstock.client.background import LoopThread
from penstock.client.environment import given_or_system
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.memory import MemoryPool
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.producer_core import ProducerCore
from penstock.messages.metadata import MetadataResponse, PartitionInfo, TopicInfo
from penstock.record.codecs import Codec
from penstock.threads import SystemThreads
from penstock.types import TopicPartition

PATIENCE_S = 60
SNAPSHOT = MetadataResponse("c", 1, (), (TopicInfo("t", "id", (PartitionInfo(0, 1, 0, 0, (1,), (1,)),)),), 1)


AT_SIGNALS = ("RESUME", "CALL", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")
"""Beginnings of the names of the instructions behind which CPython raises what a signal handler raised."""


def interrupted(work: Callable[[], object], moment: int, behind: tuple[str, ...] = ("",)) -> bool:
    """Does `work`, interrupted before its instruction of that number; False when it ends before.

    Counts the instructions that come `behind` one whose name begins so. In a thread of its own: an exception between
    any two instructions may stay the thread's current one.
    """
    instructions = count()
    met: list[bool] = []
    before: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename == _weakrefset.__file__:
            return None  # Python drops an interruption that comes while it calls a weak reference back
        frame.f_trace_opcodes = True
        if event == "opcode":
            last, before[frame] = before.get(frame, "RESUME"), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if last.startswith(behind) and next(instructions) == moment:
                raise KeyboardInterrupt
        return trace

    def traced() -> None:
        gc.disable()  # Python drops an interruption in a callback of it, too
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            met.append(True)
        finally:
            sys.settrace(None)
            gc.enable()
            before.clear()

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


def open_batches(core: ProducerCore) -> list[ProducerBatch]:
    return [b for queue in core.partitions.queues() for b in (queue.open, *queue.ready) if b is not None]


class WokenLoop:
    """Counts how often the sender was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def call_soon_threadsafe(self, _callback: Callable[[], None]) -> None:
        self.woken += 1


def producer_core(**options: Any) -> tuple[ProducerCore, WokenLoop]:
    """One that knows topic t, and sends nothing."""
    core, loop = ProducerCore("127.0.0.1:1", options, given_or_system(None)), WokenLoop()
    core.sender.start(cast(asyncio.AbstractEventLoop, loop))
    core.cluster.cache.update(SNAPSHOT, 0)
    return core, loop


def test_what_was_appended_before_an_interruption_is_sent_and_its_memory_is_given_back() -> None:
    for moment in count():
        core, loop = producer_core()
        record = core.pending(None, b"value", None, None)
        was_interrupted = interrupted(lambda: core.append("t", record, 0), moment, AT_SIGNALS)  # noqa: B023
        batches = open_batches(core)
        assert core.memory.used_bytes == sum(b.granted_bytes for b in batches), f"before instruction {moment}"
        assert loop.woken or not any(b.values for b in batches), f"before instruction {moment}"
        if not was_interrupted:
            assert moment > 20
            break


def test_what_a_bulk_closed_or_queued_before_an_interruption_is_sent() -> None:
    for moment in count():
        core, loop = producer_core()
        core.append("t", core.pending(None, b"ahead", None, None), 0)
        loop.woken, core.sender._woken = 0, False
        queue = core.partitions.queue(TopicPartition("t", 0))
        was_interrupted = interrupted(lambda: core.append_bulk(queue, b"encoded", 1), moment, AT_SIGNALS)  # noqa: B023
        batches = open_batches(core)
        assert core.memory.used_bytes == sum(b.granted_bytes for b in batches), f"before instruction {moment}"
        assert all(b.encoded for b in queue.ready) and len(queue.ready) in (0, 1, 2), f"before instruction {moment}"
        assert loop.woken or not queue.ready, f"before instruction {moment}"
        if not was_interrupted:
            assert moment > 20 and len(queue.ready) == 2
            break


@pytest.mark.parametrize("what", ["waiting", "flush"])
def test_a_wait_for_memory_and_a_flush_are_over_after_an_interruption(what: str) -> None:
    for moment in count():
        pool = MemoryPool(10, SystemThreads())
        accumulator = Accumulator(AccumulatorConfig(10, 5, Codec.NONE), pool, SystemThreads())
        under_way = {"waiting": pool.waiting, "flush": accumulator.flush}[what]

        def work(under_way: Callable[[], AbstractContextManager[None]] = under_way) -> None:
            with under_way():
                pass

        was_interrupted = interrupted(work, moment, AT_SIGNALS)
        assert not pool.is_short and not accumulator._flushing, f"interrupted before instruction {moment}"
        if not was_interrupted:
            assert moment > 5
            break
