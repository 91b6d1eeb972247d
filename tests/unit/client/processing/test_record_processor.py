"""Promises of a processor: each record's outputs are committed with its offset, or it is processed again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock import Consumer, ConsumerRecord, Output, Producer, RecordProcessor, TopicPartition
from penstock.client.processing import record_processor as module
from penstock.clock import ManualClock
from penstock.errors import (
    ConfigError,
    ProcessingError,
    ProducerFencedError,
    TimedOutError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
    TransactionStateError,
)
from tests.support.client_environment import still_environment

PLACE = TopicPartition("in", 0)


class Records:
    """A consumer of one partition with these values, and the producer beside it. `written` and `committed` are what a
    reader of committed records sees. `errors` are raised by the next calls of a name, each once."""

    def __init__(self, *values: bytes) -> None:
        self.values, self.position, self.committed = values, 0, 0
        self.written: list[Output] = []
        self.errors: dict[str, deque[BaseException]] = {}
        self.is_carried_out_all_the_same = False
        self.calls: list[str] = []
        self._open: tuple[list[Output], int] | None = None
        self._decided: str | None = None
        self.on_empty: Callable[[], object] = lambda: None
        self.topics = ["in"]

    def fail(self, call: str, *errors: BaseException) -> None:
        self.errors[call] = deque(errors)

    def _called(self, call: str) -> None:
        self.calls.append(call)
        if self.errors.get(call):
            raise self.errors[call].popleft()

    # -- the consumer --------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int, max_records: int | None) -> list[ConsumerRecord]:
        at, end = self.position, min(len(self.values), self.position + (max_records or 2))
        if at == end:
            self.on_empty()
        self.position = end
        return [ConsumerRecord("in", 0, n, 1_000 + n, 0, b"k", self.values[n], ()) for n in range(at, end)]

    def subscription(self) -> list[str]:
        return self.topics

    def assignment(self) -> list[TopicPartition]:
        return []

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition == PLACE
        self.position = offset

    # -- the producer --------------------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        self._called("begin")
        assert self._open is None
        self._open, self._decided = ([], self.committed), None

    def send(self, *output: Any) -> None:
        assert self._open is not None
        self._open[0].append(Output(*output))

    def send_offsets(self, consumer: object) -> None:
        self._called("send_offsets")
        assert self._open is not None
        self._open = self._open[0], self.position

    def commit_transaction(self) -> None:
        try:
            self._called("commit")
        except TimedOutError:
            if self.is_carried_out_all_the_same:
                self._commit()
            raise
        self._commit()

    def _commit(self) -> None:
        if self._open is not None:
            outputs, self.committed = self._open
            self.written += outputs
            self._open, self._decided = None, "committed"
        assert self._decided == "committed"

    def abort_transaction(self) -> None:
        self.calls.append("abort")
        if self._open is None:
            raise TransactionStateError("none is open")
        self._open = None


@pytest.fixture(autouse=True)
def _any_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_check", lambda consumer, producer: None)


def processor(world: Records, handler: Any = None, **options: Any) -> RecordProcessor:
    anything: Any = world
    made = RecordProcessor(anything, anything, handler or (lambda r: Output("out", r.value)), **options)
    world.on_empty = made.stop
    return made


def values(world: Records) -> list[bytes | None]:
    return [one.value for one in world.written]


def test_what_the_handler_returns_is_committed_with_the_offsets() -> None:
    world = Records(b"1", b"2", b"3")

    def handler(record: ConsumerRecord) -> Any:
        return {b"1": None, b"2": Output("out", b"one"), b"3": [Output("a", b"x", b"key"), Output("b", b"y")]}[
            record.value or b""
        ]

    told = processor(world, handler).run()
    assert world.written == [Output("out", b"one"), Output("a", b"x", b"key"), Output("b", b"y")]
    assert world.committed == 3 and (told.records, told.outputs, told.committed, told.aborted) == (3, 3, 2, 0)


@pytest.mark.parametrize("call", ["begin", "send_offsets", "commit"])
def test_an_aborted_batch_is_processed_again(call: str) -> None:
    world = Records(b"1", b"2", b"3")
    world.fail(call, TransactionAbortedError("a record was refused"))
    if call == "begin":
        world.fail(call)
        world.fail("send_offsets", TransactionAbortedError("a member no more"), TransactionAbortedError("again"))
    told = processor(world).run()
    assert values(world) == [b"1", b"2", b"3"] and world.committed == 3
    assert told.aborted == (2 if call == "begin" else 1) and told.records == 3


@pytest.mark.parametrize("call", ["send_offsets", "commit"])
def test_a_batch_that_may_not_be_written_ends_the_run_and_is_read_again_by_the_next(call: str) -> None:
    world = Records(b"a", b"b")
    error = TransactionAbortedError("the transaction can only be aborted")
    error.__cause__ = TopicAuthorizationFailedError("User:app may not Write on topic 'out'")
    world.fail(call, error)
    made = processor(world)
    with pytest.raises(TopicAuthorizationFailedError, match="may not Write on topic 'out'"):
        made.run()
    assert made.run().aborted == 1
    assert values(world) == [b"a", b"b"]


def test_a_handler_that_raises_ends_the_run_and_nothing_of_the_batch_is_written() -> None:
    world = Records(b"1", b"2")
    broken = True

    def handler(record: ConsumerRecord) -> Output:
        if broken and record.value == b"2":
            raise LookupError("no such customer")
        return Output("out", record.value)

    made = processor(world, handler)
    with pytest.raises(ProcessingError, match="in-0, offset 1: the handler has raised LookupError") as raised:
        made.run()
    assert isinstance(raised.value.__cause__, LookupError)
    assert values(world) == [] and world.committed == 0 and world.calls[-1] == "abort"
    broken = False
    made.run()
    assert values(world) == [b"1", b"2"] and world.committed == 2


def test_a_record_that_cannot_be_processed_goes_to_the_dead_letters_whole() -> None:
    world = Records(b"1", b"2")

    def handler(record: ConsumerRecord) -> Output:
        if record.value == b"1":
            raise LookupError("x" * 5_000)
        return Output("out", record.value)

    told = processor(world, handler, dead_letters="dead").run()
    dead, good = world.written
    assert (dead.topic, dead.value, dead.key, dead.timestamp_ms) == ("dead", b"1", b"k", 1_000)
    headers = dict(dead.headers or ())
    assert headers["penstock.dead.topic"] == b"in" and headers["penstock.dead.offset"] == b"0"
    assert len(headers["penstock.dead.error"] or b"") == module.ERROR_CHARACTERS_MAX
    assert good.value == b"2" and (told.dead_letters, told.outputs) == (1, 2)


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_commit_that_nobody_answers_is_asked_for_until_it_is_known(is_carried_out: bool) -> None:
    world = Records(b"1", b"2")
    world.is_carried_out_all_the_same = is_carried_out
    world.fail("commit", TimedOutError("no answer"), TimedOutError("no answer"))
    processor(world).run()
    assert values(world) == [b"1", b"2"] and world.calls.count("commit") == 3


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_interrupted_commit_is_settled_before_the_next_batch(is_carried_out: bool) -> None:
    world = Records(b"1", b"2", b"3")
    made = processor(world)
    world.fail("commit", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert world.calls[-1] == "commit", "an abort could undo what is decided"
    if not is_carried_out:
        world.fail("commit", TransactionAbortedError("it was aborted meanwhile"))
    made.run()
    assert values(world) == [b"1", b"2", b"3"] and world.committed == 3


def test_a_consumer_that_has_nothing_to_read_is_told_so_at_once() -> None:
    world = Records(b"1")
    world.topics = []
    with pytest.raises(ConfigError, match=r"call consumer.subscribe\(\[TOPIC\]\) before"):
        processor(world).run()
    assert not world.calls


def test_the_time_of_batches_counts_to_the_end_of_their_transactions() -> None:
    world, clock = Records(b"1", b"2", b"3"), ManualClock()
    environment = replace(still_environment(), clock=clock)
    made = processor(world, lambda record: clock.advance(500), environment=environment)
    world.fail("commit", TransactionAbortedError("a record was refused"))
    assert made.run().seconds == 0.5 * 5, "three records, and two of them twice"


def test_a_fenced_producer_ends_the_run() -> None:
    world = Records(b"1")
    world.fail("commit", ProducerFencedError("another one has the id"))
    with pytest.raises(ProducerFencedError):
        processor(world).run()


def test_a_stop_ends_it_after_the_transaction_under_way() -> None:
    world = Records(b"1", b"2", b"3")
    made = processor(world, lambda record: made.stop())
    assert made.run().records == 2 and world.committed == 2


@pytest.mark.parametrize("returned", ["text", b"bytes", 7, [Output("out"), "text"], {"topic": "out"}])
def test_anything_else_that_a_handler_returns_is_its_error(returned: object) -> None:
    with pytest.raises(ProcessingError, match="a handler returns an Output"):
        processor(Records(b"1"), lambda record: returned).run()


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
