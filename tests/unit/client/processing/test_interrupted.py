"""A processor that is interrupted at any line loses nothing and does nothing twice.

A story of two partitions runs with Ctrl-C at one moment after another: at each traced line of the processor's modules,
and before and after the effect of each call of its clients. Whoever catches it goes on in one of three ways: the same
processor, another one with the same clients, or another producer with the same consumer. The suite draws a part of the
moments from a seed; all of them:

    PENSTOCK_LONG_TESTS=1 python -m pytest tests/unit/client/processing/test_interrupted.py
"""

from __future__ import annotations

import gc
import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from penstock import ConsumerRecord, Output, RecordProcessor
from penstock.client.processing import record_processor as module
from penstock.errors import ProducerFencedError, RetryLater, TimedOutError, TransactionAbortedError
from tests.support.amount import usually
from tests.support.client_environment import still_environment
from tests.support.processing_world import World, WorldConsumer, WorldProducer

HERE = str(Path(module.__file__).parent)
LIVES_MAX = 20
SEED = 77


@pytest.fixture(autouse=True)
def _any_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_check", lambda consumer, *others: module.note_polls(consumer))


class Story:
    """Two partitions with ends of transactions in between; a record that waits, one at fault, a batch that is aborted,
    a commit that nobody answers, one whose producer is fenced, and one that is committed early."""

    def __init__(self, interrupt_at: int, way: str, *, is_long: bool) -> None:
        logs: list[list[bytes | None]] = [[b"1", b"2", None, b"3", b"bad"], [b"4", b"later", b"6", None]]
        if is_long:
            logs = [[*logs[0], b"slow", b"7", b"8"], [*logs[1], b"9"]]
        self.world, self.way = World(*logs), way
        self.world.interrupt_at = interrupt_at
        self.world.fail("send_offsets", TransactionAbortedError("a member no more"))
        self.world.fail("commit", TimedOutError("no answer"), ProducerFencedError("another one has the id"))
        self.consumer = WorldConsumer(self.world)
        self.producer = WorldProducer(self.world)
        self.made = self.make()

    def make(self) -> RecordProcessor:
        environment = replace(still_environment(), clock=self.world.clock, random=random.Random(0))
        clients: Any = self.consumer, self.producer
        made = RecordProcessor(*clients, self.handle, dead_letters="dead", environment=environment)
        self.world.on_empty = made.stop
        return made

    def handle(self, record: ConsumerRecord) -> Output:
        if record.value == b"later" and self.world.clock.now_ms() < 500:
            raise RetryLater
        if record.value == b"bad":
            raise ValueError("bad")
        if record.value == b"slow":
            self.world.clock.advance(40_000)
        return Output("out", record.value)

    def run(self) -> None:
        for _ in range(LIVES_MAX):
            is_fenced = False
            try:
                sys.settrace(self.trace)
                self.made.run()
                return
            except KeyboardInterrupt:
                pass
            except ProducerFencedError:
                is_fenced = True
            finally:
                sys.settrace(None)
            if is_fenced or self.way == "another producer":
                self.producer = WorldProducer(self.world)
            if is_fenced or self.way != "the same processor":
                self.made = self.make()
        raise AssertionError(f"it has not ended in {LIVES_MAX} lives: {self.world.calls[-20:]}")

    def trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            self.world.moment()
        return self.trace


WAYS = ("the same processor", "another processor", "another producer")


def moments(*, is_long: bool) -> int:
    story = Story(-1, "the same processor", is_long=is_long)
    story.run()
    story.world.once()
    return story.world.moments


@pytest.mark.parametrize("way", WAYS)
def test_an_interruption_at_any_line_loses_nothing_and_repeats_nothing(way: str) -> None:
    is_long = usually(False, long=True)
    count = moments(is_long=is_long)
    assert count > 800
    drawn = random.Random(f"{SEED} {way}").sample(range(1, count + 1), usually(100, long=count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a coroutine that was interrupted before its first line
        for at in drawn:
            story = Story(at, way, is_long=is_long)
            try:
                story.run()
                story.world.once()
            except AssertionError as error:
                message = f"interrupted at moment {at} of {count}, {way} goes on: {story.world.calls}"
                raise AssertionError(message) from error
        gc.collect()
