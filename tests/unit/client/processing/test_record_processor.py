"""Promises of a processor, plain and async: a record's outputs are committed with its offset, or it is processed again.

Not here: interruptions at any line (test_interrupted.py), whose fault an error is (test_verdicts.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock import AsyncRecordProcessor, Consumer, ConsumerRecord, Output, Producer, RecordProcessor, TopicPartition
from penstock.client.processing import record_processor as module
from penstock.client.processing.output import ERROR_CHARACTERS_MAX
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.errors import (
    ConfigError,
    HandlerError,
    ProcessingError,
    ProducerFencedError,
    RetryLater,
    TimedOutError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
    UnknownTopicOrPartitionError,
)
from tests.support.client_environment import still_environment
from tests.support.processing_world import AsyncFace, World, WorldConsumer, WorldProducer

PLACE = TopicPartition("in", 0)


@pytest.fixture(autouse=True)
def _any_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_check", lambda consumer, *others: module.note_polls(consumer))


class Runner:
    """A processor of one face over a world; `run` blocks for both."""

    def __init__(
        self, world: World, handler: Any = None, *, is_async: bool, records_max: int = 2, **options: Any
    ) -> None:
        self.world, self.is_async = world, is_async
        self.consumer, self.producer = WorldConsumer(world, records_max), WorldProducer(world)
        self.handler, self.options = handler or (lambda record: Output("out", record.value)), options
        self.made = self.make()

    def make(self) -> Any:
        """Another processor over the same clients."""
        environment = replace(still_environment(), clock=self.world.clock, random=random.Random(0))
        if self.is_async:
            clients: Any = AsyncFace(self.consumer), AsyncFace(self.producer)
            made: Any = AsyncRecordProcessor(*clients, self.handler, environment=environment, **self.options)
        else:
            clients = self.consumer, self.producer
            made = RecordProcessor(*clients, self.handler, environment=environment, **self.options)
        self.world.on_empty = made.stop
        return made

    def run(self) -> ProcessingStatistics:
        outcome: ProcessingStatistics = asyncio.run(self.made.run()) if self.is_async else self.made.run()
        return outcome


MakeRunner = Callable[..., Runner]


@pytest.fixture(params=[False, True], ids=["plain", "async"])
def runner(request: pytest.FixtureRequest) -> MakeRunner:
    def made(world: World, handler: Any = None, **options: Any) -> Runner:
        return Runner(world, handler, is_async=request.param, **options)

    return made


def world_of(*values: bytes) -> World:
    return World(list(values))


# -- a batch -----------------------------------------------------------------------------------------------------------


def test_what_the_handler_returns_is_committed_with_the_offsets(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2", b"3")

    def handler(record: ConsumerRecord) -> Any:
        return {b"1": None, b"2": Output("out", b"one"), b"3": [Output("a", b"x", b"key"), Output("b", b"y")]}[
            record.value or b""
        ]

    outcome = runner(world, handler).run()
    assert world.written == [Output("out", b"one"), Output("a", b"x", b"key"), Output("b", b"y")]
    assert world.committed == {PLACE: 3} and (outcome.records, outcome.outputs, outcome.committed, outcome.aborted) == (
        3,
        3,
        2,
        0,
    )


def test_records_without_an_output_are_committed_too(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2")
    assert runner(world, lambda record: None).run().records == 2
    assert world.committed == {PLACE: 2}


@pytest.mark.parametrize("call", ["begin", "send", "send_offsets", "commit"])
@pytest.mark.parametrize("error", [TransactionAbortedError("a record was refused"), TimedOutError("no broker answers")])
def test_a_batch_that_fails_for_now_is_processed_again(runner: MakeRunner, call: str, error: BaseException) -> None:
    world = world_of(b"1", b"2", b"3")
    world.fail(call, error, error)
    outcome = runner(world).run()
    world.once()
    assert outcome.records == 3
    assert call == "commit" or world.clock.now_ms() >= 100, "a repetition waits"


@pytest.mark.parametrize("call", ["send_offsets", "commit"])
def test_a_batch_that_may_not_be_written_ends_the_run_and_is_read_again(runner: MakeRunner, call: str) -> None:
    world = world_of(b"a", b"b")
    error = TransactionAbortedError("the transaction can only be aborted")
    error.__cause__ = TopicAuthorizationFailedError("User:app may not Write on topic 'out'")
    world.fail(call, error)
    started = runner(world)
    with pytest.raises(TopicAuthorizationFailedError, match="may not Write on topic 'out'"):
        started.run()
    assert started.run().aborted == 1
    world.once()


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_commit_that_nobody_answers_is_asked_for_until_it_is_known(runner: MakeRunner, is_carried_out: bool) -> None:
    world = world_of(b"1", b"2")
    world.fail("commit", TimedOutError("no answer"), TimedOutError("no answer"))
    runner(world).run()
    world.once()
    assert world.calls.count("commit") == 3


def test_a_consumer_that_has_nothing_to_read_is_told_so_at_once(runner: MakeRunner) -> None:
    world = world_of(b"1")
    started = runner(world)
    started.consumer.topics = []
    with pytest.raises(ConfigError, match=r"call consumer.subscribe\(\[TOPIC\]\) before"):
        started.run()
    assert not world.calls


def test_the_time_of_batches_counts_to_the_end_of_their_transactions(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2", b"3")
    started = runner(world, lambda record: world.clock.advance(500))
    world.fail("commit", TransactionAbortedError("a record was refused"))
    assert started.run().seconds == 0.5 * 5, "three records, and two of them twice"


def test_a_stop_ends_it_after_the_transaction_under_way(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2", b"3")
    started = runner(world, lambda record: started.made.stop())
    assert started.run().records == 2 and world.committed == {PLACE: 2}


def test_a_batch_is_committed_as_far_as_it_is_before_the_transaction_times_out(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2", b"3", b"4", b"5")

    def slow(record: ConsumerRecord) -> Output:
        world.clock.advance(20_000)
        return Output("out", record.value)

    outcome = runner(world, slow, records_max=5).run()
    world.once()
    assert outcome.committed == 3, "of 60 s half may pass: two records, two, and one"


def test_positions_behind_the_ends_of_transactions_are_committed(runner: MakeRunner) -> None:
    world = World([b"1", None, None])
    polls = iter(range(100))
    started = runner(world)
    world.on_empty = lambda: next(polls) >= 40 and started.made.stop()
    started.run()
    world.once()
    assert world.committed == {PLACE: 3}
    assert world.calls.count("commit_positions") <= 2, "not at each poll"


# -- positions ---------------------------------------------------------------------------------------------------------


def test_a_fenced_producer_ends_the_run_and_the_next_processor_goes_on_with_the_same_consumer(
    runner: MakeRunner,
) -> None:
    world = world_of(b"1", b"2", b"3")
    started = runner(world)
    world.fail("commit", ProducerFencedError("another one has the id"))
    with pytest.raises(ProducerFencedError):
        started.run()
    started.producer = WorldProducer(world)
    started.made = started.make()
    started.run()
    world.once()


def test_a_consumer_that_was_polled_by_hand_begins_where_the_group_has_committed(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2", b"3")
    started = runner(world)
    started.consumer.poll(0)
    started.made = started.make()
    started.run()
    world.once()


def test_a_consumer_that_the_user_has_sought_begins_there(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2", b"3")
    world.committed = {PLACE: 3}
    started = runner(world)
    started.consumer.poll(0)
    started.consumer.seek(PLACE, 1)
    started.made = started.make()
    started.run()
    assert world.values == [b"2", b"3"] and "seek_to_committed" not in world.calls


# -- whose fault -------------------------------------------------------------------------------------------------------


def test_a_record_at_fault_without_dead_letters_ends_the_run_and_nothing_of_the_batch_is_written(
    runner: MakeRunner,
) -> None:
    world = world_of(b"1", b"2")
    broken = True

    def handler(record: ConsumerRecord) -> Output:
        if broken and record.value == b"2":
            raise LookupError("no such customer")
        return Output("out", record.value)

    started = runner(world, handler)
    with pytest.raises(ProcessingError, match="in-0, offset 1: the handler has raised LookupError") as raised:
        started.run()
    assert isinstance(raised.value.__cause__, LookupError)
    assert world.values == [] and not world.committed and world.calls[-1] == "abort"
    broken = False
    started.run()
    world.once()


def test_a_record_that_cannot_be_processed_goes_to_the_dead_letters_whole(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2")

    def handler(record: ConsumerRecord) -> Output:
        if record.value == b"1":
            raise LookupError("x" * 5_000)
        return Output("out", record.value)

    outcome = runner(world, handler, dead_letters="dead").run()
    dead, good = world.written
    assert (dead.topic, dead.value, dead.key) == ("dead", b"1", b"k")
    headers: Any = dict(dead.headers or ())
    assert headers["penstock.dead.topic"] == b"in" and headers["penstock.dead.offset"] == b"0"
    assert len(headers["penstock.dead.error"] or b"") == ERROR_CHARACTERS_MAX
    assert good.value == b"2" and (outcome.dead_letters, outcome.outputs) == (1, 2)


class Outage:
    """A handler whose world is away until `until_ms`; `calls` counts those of each record."""

    def __init__(self, world: World, until_ms: int, error: Exception, only: bytes | None = None) -> None:
        self.world, self.until_ms, self.error, self.only = world, until_ms, error, only
        self.calls: dict[bytes | None, int] = {}

    def __call__(self, record: ConsumerRecord) -> Output:
        self.calls[record.value] = self.calls.get(record.value, 0) + 1
        if self.world.clock.now_ms() < self.until_ms and self.only in (None, record.value):
            raise self.error
        return Output("out", record.value)


@pytest.mark.parametrize("error", [ConnectionResetError("away"), TimeoutError("away"), RetryLater("away")])
def test_an_outage_buries_nothing_however_long_it_is(runner: MakeRunner, error: Exception) -> None:
    world = World([b"1", b"2", b"3"], [b"4"])
    outage = Outage(world, 3_600_000, error)
    outcome = runner(world, outage, dead_letters="dead").run()
    world.once()
    assert outcome.dead_letters == 0 and outcome.retries > 100
    assert outage.calls[b"1"] < 3_600_000 // 8_000 + 20, "the wait grows to 10 s, less a fifth"


def test_a_record_that_waits_holds_up_its_own_partition_alone_and_no_transaction(runner: MakeRunner) -> None:
    world = World([b"a", b"b", b"c"], [b"1", b"2", b"3"])
    outage = Outage(world, 60_000, ConnectionError("away"), only=b"b")
    seen: list[int] = []
    started = runner(world, outage, records_max=6)
    world.on_empty = lambda: None
    poll = started.consumer.poll

    def watched(timeout_ms: int, records_max: int | None = None) -> Any:
        assert not world.open, "a processor that waits has no transaction open"
        if 0 < world.clock.now_ms() < 60_000:
            seen.append(len(world.written))
        if len(world.written) == 6:
            started.made.stop()
        return poll(timeout_ms, records_max)

    started.consumer.poll = watched  # type: ignore[method-assign]
    started.run()
    world.once()
    assert set(seen) == {4}, "the record before it and the other partition are committed at once"
    assert outage.calls[b"a"] == outage.calls[b"1"] == 1
    assert len(seen) >= 60_000 // 200, "polls go on, each within 200 ms"


def test_a_stop_is_noticed_while_a_record_waits(runner: MakeRunner) -> None:
    world = world_of(b"1")

    def handler(record: ConsumerRecord) -> None:
        raise RetryLater("come back in an hour", after_ms=3_600_000)

    started = runner(world, handler)
    poll = started.consumer.poll

    def watched(timeout_ms: int, records_max: int | None = None) -> Any:
        if world.clock.now_ms() > 1_000:
            started.made.stop()
        return poll(timeout_ms, records_max)

    started.consumer.poll = watched  # type: ignore[method-assign]
    assert started.run().records == 0
    assert world.clock.now_ms() <= 1_500 and not world.committed
    assert not started.consumer.states[PLACE].paused, "the next processor reads it"


def test_an_error_that_nobody_has_classified_is_tried_again_so_often_and_then_ends_the_run(runner: MakeRunner) -> None:
    world = world_of(b"1", b"2")
    outage = Outage(world, 10**9, OSError("no route"), only=b"2")
    started = runner(world, outage, dead_letters="dead", retries=3)
    with pytest.raises(ProcessingError, match=r"in-0, offset 1: .*at each of 4 attempts"):
        started.run()
    assert world.values == [b"1"] and world.committed == {PLACE: 1} and outage.calls[b"2"] == 4


@pytest.mark.parametrize("error", [TypeError("+"), NameError("x"), AttributeError("y"), AssertionError()])
def test_a_mistake_of_the_program_ends_the_run_at_once_and_buries_nothing(runner: MakeRunner, error: Exception) -> None:
    world = world_of(b"1", b"2")
    outage = Outage(world, 10**9, error, only=b"2")
    with pytest.raises(HandlerError, match=r"in-0, offset 1: .*the program is wrong"):
        runner(world, outage, dead_letters="dead").run()
    assert not world.written and not world.committed and outage.calls[b"2"] == 1


@pytest.mark.parametrize("returned", ["text", b"bytes", 7, [Output("out"), "text"], {"topic": "out"}, ("out", b"v")])
def test_a_wrong_return_ends_the_run_at_once_and_buries_nothing(runner: MakeRunner, returned: object) -> None:
    world = world_of(b"1")
    with pytest.raises(HandlerError, match="a handler returns an Output") as raised:
        runner(world, lambda record: returned, dead_letters="dead").run()
    assert isinstance(raised.value, TypeError) and isinstance(raised.value, ProcessingError)
    assert "dead_letter_errors" not in str(raised.value), "to name HandlerError would bury what a mistake has returned"
    assert not world.written and not world.committed


@pytest.mark.parametrize("kind", [TopicAuthorizationFailedError, UnknownTopicOrPartitionError])
def test_an_output_that_is_refused_names_the_record_it_was_made_of(runner: MakeRunner, kind: type[Exception]) -> None:
    world = world_of(b"1")
    world.fail("send", kind("no"))
    with pytest.raises(kind) as raised:
        runner(world, dead_letters="dead").run()
    assert raised.value.__notes__ == ["in-0, offset 0: what was to be sent for this record to out is refused"]
    assert not world.written and not world.committed


def test_an_output_that_cannot_be_sent_is_a_mistake_of_the_program(runner: MakeRunner) -> None:
    world = world_of(b"1")
    world.fail("send", TypeError("value must be bytes, not str"))
    with pytest.raises(HandlerError, match="what the handler returned cannot be sent: value must be bytes"):
        runner(world, dead_letters="dead").run()
    assert not world.written and not world.committed


async def coroutine(record: ConsumerRecord) -> Output:
    await asyncio.sleep(0)
    return Output("out", record.value)


class CoroutineObject:
    async def __call__(self, record: ConsumerRecord) -> Output:
        return await coroutine(record)


@pytest.mark.parametrize("handler", [coroutine, CoroutineObject()])
def test_a_coroutine_function_is_served_by_the_async_face_and_refused_by_the_plain_one(handler: Any) -> None:
    world = world_of(b"1", b"2")
    with pytest.raises(HandlerError, match="use async_process"):
        Runner(world, handler, is_async=False)
    Runner(world, handler, is_async=True).run()
    world.once()


def test_a_coroutine_that_a_plain_function_returns_is_refused_at_the_first_record() -> None:
    world = world_of(b"1")
    with pytest.raises(HandlerError, match="which async_process takes"):
        Runner(world, lambda record: coroutine(record), is_async=False, dead_letters="dead").run()
    assert not world.written and not world.committed


def test_a_task_that_is_cancelled_leaves_the_consumer_where_the_last_transaction_has_ended() -> None:
    world = world_of(b"1", b"2", b"3")

    async def story() -> None:
        reached = asyncio.Event()

        async def handler(record: ConsumerRecord) -> Output:
            if record.value == b"3" and not reached.is_set():
                reached.set()
                await asyncio.sleep(3_600)
            return Output("out", record.value)

        started = Runner(world, handler, is_async=True)
        task = asyncio.create_task(started.made.run())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.values == [b"1", b"2"]
        await started.make().run()

    asyncio.run(story())
    world.once()


# -- records that wait for their time ----------------------------------------------------------------------------------


def test_a_delay_keeps_each_record_until_its_time_and_partitions_in_order(runner: MakeRunner) -> None:
    world = World([b"1", b"2"], [b"new"])
    begins: dict[bytes | None, int] = {}

    def handler(record: ConsumerRecord) -> Output:
        begins[record.value] = world.clock.now_ms()
        return Output("out", record.value)

    world.clock.advance(20_000)  # the records of the first partition are as old
    runner(world, handler, delay_ms=30_000).run()
    world.once()
    assert begins[b"1"] == begins[b"2"] == 30_000 and begins[b"new"] == 50_000


def test_a_timestamp_in_the_future_waits_for_the_delay_and_no_longer(runner: MakeRunner) -> None:
    world = world_of(b"1")
    world.clock.jump_wall(-(10**9))
    runner(world, delay_ms=30_000).run()
    world.once()
    assert 30_000 <= world.clock.now_ms() <= 31_000


# -- options -----------------------------------------------------------------------------------------------------------


def test_options_that_there_are_not_and_wrong_values_are_named(runner: MakeRunner) -> None:
    world = world_of(b"1")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"retry": 3}, TypeError, "process has no option retry; did you mean retries?"),
        ({"retries": -1}, ValueError, "retries=-1 must be from 0"),
        ({"batch_records": 0}, ValueError, "batch_records=0 must be from 1"),
        ({"backoff_ms": "1"}, TypeError, "write backoff_ms=1"),
        ({"dead_letter_errors": ValueError}, TypeError, "must be a tuple of exception classes"),
        ({"dead_letter_errors": (KeyboardInterrupt,)}, TypeError, "must be a tuple of exception classes"),
    ]
    for options, kind, text in wrong:
        with pytest.raises(kind, match=text):
            runner(world, **options)
    with pytest.raises(HandlerError, match="cannot be called"):
        runner(world, 7)


def test_clients_that_cannot_give_exactly_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    nowhere = "127.0.0.1:1"
    with Consumer(nowhere, group_id="g", isolation_level="read_uncommitted") as consumer, Producer(nowhere) as producer:
        with pytest.raises(ConfigError) as refused:
            RecordProcessor(consumer, producer, lambda record: None)
        for word in ("enable_auto_commit=False", "isolation_level='read_committed'", "transactional_id"):
            assert word in str(refused.value)
        nobody: Any = None
        with pytest.raises(TypeError):
            RecordProcessor(nobody, producer, lambda record: None)
        mixed: Any = consumer
        with pytest.raises(TypeError, match="async_process an AsyncConsumer"):
            AsyncRecordProcessor(mixed, mixed, lambda record: None)


def test_what_a_new_group_skips_is_warned_of_once(runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    one = runner(World([b"a", b"b", b"c"]))
    one.consumer.states[PLACE].skips_what_is_there = True
    assert one.run().committed > 1
    logged = [record.getMessage() for record in caplog.records if "auto_offset_reset" in record.getMessage()]
    assert len(logged) == 1 and logged[0].startswith("in-0: group ") and "auto_offset_reset='earliest'" in logged[0]
