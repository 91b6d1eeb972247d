"""Mistakes in the core of a processor, each switched on for the time of a story that must find it.

The stories: Ctrl-C at one moment after another (test_interrupted.py), an outage, and a mistake of the program.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock import ConsumerRecord, Output, RecordProcessor
from penstock.client.processing import record_processor as module
from penstock.client.processing.clients import Clients
from penstock.client.processing.processing_core import ProcessingCore
from penstock.client.processing.verdicts import Verdicts
from penstock.errors import HandlerError, PenstockError, ProcessingError, RetryLater
from tests.simulation.cluster.mutants.edit import Edit, code_of
from tests.support.amount import usually
from tests.support.client_environment import still_environment
from tests.support.processing_world import World, WorldConsumer, WorldProducer
from tests.unit.client.processing.test_interrupted import WAYS, Story, moments

STRIDE = 3
"""One moment of so many is tried."""


def interruptions() -> None:
    count = moments(is_long=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for at in range(1, count + 1, STRIDE):
            story = Story(at, WAYS[at // STRIDE % len(WAYS)], is_long=False)
            story.run()
            story.world.once()


def processed(world: World, handler: Callable[[ConsumerRecord], Any], **options: Any) -> RecordProcessor:
    clients: Any = WorldConsumer(world), WorldProducer(world)
    environment = replace(still_environment(), clock=world.clock, random=random.Random(0))
    made = RecordProcessor(*clients, handler, dead_letters="dead", environment=environment, **options)
    world.on_empty = made.stop
    return made


def outage() -> None:
    """A handler whose world is away for a minute, and for longer than a transaction has."""
    world, calls = World([b"1", b"2", b"3"], [b"4"]), 0

    def handler(record: ConsumerRecord) -> Output:
        nonlocal calls
        calls += 1
        assert calls < 200, "without a back-off"
        if world.clock.now_ms() < 60_000:
            raise ConnectionError("away") if record.value == b"1" else RetryLater("away")
        return Output("out", record.value)

    made = processed(world, handler)
    assert made.run().dead_letters == 0
    world.once()


def mistake() -> None:
    def handler(record: ConsumerRecord) -> Output:
        if record.value == b"2":
            raise AttributeError("a slip of the pen")
        return Output("out", record.value)

    world = World([b"1", b"2"])
    with pytest.raises(HandlerError):
        processed(world, handler).run()
    assert not world.written and not world.committed


def unknown_error() -> None:
    calls = 0

    def handler(record: ConsumerRecord) -> Output | None:
        nonlocal calls
        calls += 1
        if calls > 20:
            return None
        raise RuntimeError("nobody knows")

    world = World([b"1"])
    with pytest.raises(ProcessingError):
        processed(world, handler).run()
    assert not world.written and not world.committed


MUTANTS: list[tuple[str, Callable[[], None], Edit]] = [
    (
        "a poll leaves no mark on the consumer",
        interruptions,
        Edit(Clients.unsettle, "self._mark.is_unsettled = True", "pass"),
    ),
    (
        "the positions of a batch that is undone are not reset",
        interruptions,
        Edit(ProcessingCore._undo, "await self.clients.go_to(batch.first())", "pass"),
    ),
    (
        "what is left of a batch is passed over",
        interruptions,
        Edit(ProcessingCore._commit, "await self.clients.go_to(batch.left)", "pass"),
    ),
    (
        "a batch that is committed in part takes the positions of all",
        interruptions,
        Edit(ProcessingCore._fill, "batch.ends if batch.left else None", "None"),
    ),
    (
        "a batch whose commit may be carried out is undone",
        interruptions,
        Edit(ProcessingCore._settle, "if not batch.is_committing:", "if True:"),
    ),
    (
        "it is not noted that a commit was asked for",
        interruptions,
        Edit(ProcessingCore._commit, "batch.is_committing = True", "pass"),
    ),
    (
        "the group is not asked where to begin",
        interruptions,
        Edit(ProcessingCore._go_to_committed, "await clients.go_to_committed()", "pass"),
    ),
    (
        "a partition stays paused after the processor that paused it",
        interruptions,
        Edit(Clients.release, "tuple(self._mark.held) if partitions is None else partitions", "partitions or ()"),
    ),
    (
        "an outage makes dead letters",
        outage,
        Edit(Verdicts.fault, "return FAULTS[base]", "return Fault.RECORD"),
    ),
    (
        "an outage has a last attempt",
        outage,
        Edit(Verdicts.of, "if fault is Fault.UNKNOWN and attempts", "if attempts"),
    ),
    (
        "a record is tried again at once",
        outage,
        Edit(ProcessingCore._hold, "self.clients.hold(batch.due_ms)", "pass"),
    ),
    (
        "a mistake of the program makes dead letters",
        mistake,
        Edit(Verdicts.of, "if fault is Fault.RECORD:", "if fault in (Fault.RECORD, Fault.PROGRAM):"),
    ),
    (
        "an error that nobody knows makes dead letters",
        unknown_error,
        Edit(Verdicts.of, "if fault is Fault.RECORD:", "if fault in (Fault.RECORD, Fault.UNKNOWN):"),
    ),
    (
        "an error that nobody knows is tried again for ever",
        unknown_error,
        Edit(Verdicts.of, "attempts > config.retries", "attempts > 10**9"),
    ),
]  # fmt: skip


@contextmanager
def switched_on(edit: Edit) -> Iterator[None]:
    function = edit.function
    before, function.__code__ = function.__code__, code_of(function, [edit])
    try:
        yield
    finally:
        function.__code__ = before


@pytest.fixture(autouse=True)
def _any_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_check", lambda consumer, *others: module.note_polls(consumer))


HUNTED = usually([*{story: (name, story, edit) for name, story, edit in reversed(MUTANTS)}.values()], long=MUTANTS)
"""Before a merge the first mistake that each story must find."""


@pytest.mark.parametrize("story", [outage, mistake, unknown_error])
def test_a_core_without_a_mistake_passes(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("story, edit", [each[1:] for each in HUNTED], ids=[each[0] for each in HUNTED])
def test_a_mistake_is_found(story: Callable[[], None], edit: Edit) -> None:
    with switched_on(edit), pytest.raises((AssertionError, PenstockError, pytest.fail.Exception)):
        story()
