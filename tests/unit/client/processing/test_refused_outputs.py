"""Promises about outputs that are refused: a record's fault takes the record's path, and the worker goes on.

Not here: errors of the handler itself (test_record_processor.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from penstock import ConsumerRecord, Output, RecordProcessor, TopicPartition
from penstock.client.processing import record_processor as module
from penstock.client.processing.dead_letter_topic import size_doubt
from penstock.client.processing.processing_statistics import ProcessingStatistics
from penstock.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    PenstockError,
    ProcessingError,
    RecordListTooLargeError,
    TimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
)
from penstock.messages.metadata import TopicInfo
from tests.support.client_environment import still_environment
from tests.support.processing_world import WALL_MS, World, WorldConsumer, WorldProducer

RECORD_KINDS = [MessageTooLargeError, RecordListTooLargeError, InvalidRecordError, InvalidTimestampError]


@pytest.fixture(autouse=True)
def _any_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_check", lambda consumer, *others: module.note_polls(consumer))


class Worker:
    """A processor that copies, and how often it has handled each record."""

    def __init__(
        self,
        world: World,
        records_max: int,
        copies: int = 1,
        dead_letters: str | None = "dead",
        timestamp_ms: int | None = None,
    ) -> None:
        self.world, self.copies, self.handled = world, copies, Counter[bytes | None]()
        self.timestamp_ms = timestamp_ms
        self.producer = WorldProducer(world)
        clients: Any = WorldConsumer(world, records_max), self.producer
        environment = replace(still_environment(), clock=world.clock)
        self.processor = RecordProcessor(*clients, self.copy, environment=environment, dead_letters=dead_letters)
        world.on_empty = self.processor.stop

    def copy(self, record: ConsumerRecord) -> list[Output]:
        self.handled[record.value] += 1
        return [Output("out", record.value, timestamp_ms=self.timestamp_ms) for _ in range(self.copies)]

    def run(self) -> ProcessingStatistics:
        return self.processor.run()

    def written_to(self, topic: str) -> list[bytes | None]:
        return [output.value for output in self.world.written if output.topic == topic]


def refusing(world: World, error: PenstockError, *values: bytes, topic: str = "out") -> None:
    """The brokers take no record with one of these values, which the producer learns after it has sent it."""
    world.refusal = lambda output: error if output.topic == topic and output.value in values else None


@pytest.mark.parametrize("kind", RECORD_KINDS)
def test_a_record_whose_output_no_broker_takes_is_a_dead_letter_and_all_others_are_processed(
    kind: type[PenstockError],
) -> None:
    values = [b"%d" % number for number in range(100)]
    world = World(list(values))
    refusing(world, kind("no such record here"), b"37")
    worker = Worker(world, records_max=50, timestamp_ms=WALL_MS if kind is InvalidTimestampError else None)
    outcome = worker.run()
    world.once()
    assert worker.written_to("dead") == [b"37"] and outcome.dead_letters == 1
    dead = next(output for output in world.written if output.topic == "dead")
    headers: Any = dict(dead.headers or ())
    assert headers["penstock.dead.error"].endswith(b": no such record here")
    assert max(worker.handled.values()) <= 8, "halves find it"


def test_a_topic_all_of_whose_records_are_refused_costs_a_few_calls_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b"%d" % number for number in range(64)]
    world = World(list(values))
    refusing(world, MessageTooLargeError("too large"), *values)
    worker = Worker(world, records_max=32)
    assert worker.run().dead_letters == 64 and worker.written_to("dead") == values
    assert sum(worker.handled.values()) <= 64 * 6 and world.clock.now_ms() < 10_000, "and no back-off"


@pytest.mark.parametrize("records_max", [1, 3])
def test_clocks_that_are_apart_bury_nothing_and_everything_is_processed_once_they_agree(records_max: int) -> None:
    """The outputs have the time of this machine's clock, so that of their records is not at fault."""
    world = World([b"%d" % number for number in range(6)])
    agree_ms = world.clock.now_ms() + 60_000
    error = InvalidTimestampError("2 hours in the future")
    world.refusal = lambda output: error if output.topic == "out" and world.clock.now_ms() < agree_ms else None
    worker = Worker(world, records_max)
    outcome = worker.run()

    world.once()
    assert (outcome.dead_letters, len(worker.written_to("out"))) == (0, 6)
    assert max(worker.handled.values()) <= 20, "with a back-off"


def test_an_output_that_the_producer_does_not_take_is_a_dead_letter_in_the_same_transaction() -> None:
    world = World([b"1", b"2", b"3"])
    world.fail("send", MessageTooLargeError("the record has 2 MB"))
    worker = Worker(world, records_max=3)
    outcome = worker.run()
    world.once()
    assert worker.written_to("dead") == [b"1"] and (outcome.committed, outcome.aborted) == (1, 0)
    assert set(worker.handled.values()) == {1}


def test_of_a_record_with_several_outputs_nothing_is_written_where_one_is_refused() -> None:
    world = World([b"1", b"2"])
    worker = Worker(world, records_max=2, copies=2)
    sent, send = Counter[bytes | None](), worker.producer.send

    def limited(*output: Any) -> None:
        sent[output[1]] += 1
        if output[0] == "out" and output[1] == b"1" and sent[output[1]] == 2:
            raise MessageTooLargeError("the second one")
        send(*output)

    worker.producer.send = limited  # type: ignore[method-assign]
    assert worker.run().dead_letters == 1
    assert worker.written_to("out") == [b"2", b"2"] and worker.written_to("dead") == [b"1"]


@pytest.mark.parametrize("is_refused_late", [True, False])
def test_without_dead_letters_it_ends_the_call_as_any_fault_of_a_record_does(is_refused_late: bool) -> None:
    world = World([b"1", b"2"])
    error = MessageTooLargeError("2 MB")
    if is_refused_late:
        refusing(world, error, b"1")
    else:
        world.fail("send", error)
    with pytest.raises(ProcessingError, match=r"in-0, offset 0: what the handler has returned is refused .*2 MB"):
        Worker(world, records_max=2, dead_letters=None).run()
    assert not world.committed and not world.written and not world.open


@pytest.mark.parametrize("is_refused_late", [True, False])
def test_a_dead_letter_that_is_refused_itself_ends_the_call_and_its_record_is_the_next_one(
    is_refused_late: bool,
) -> None:
    world = World([b"1", b"2"])
    if is_refused_late:
        world.refusal = lambda output: MessageTooLargeError("too large") if output.value == b"2" else None
    else:
        world.fail("send", MessageTooLargeError("a"), MessageTooLargeError("b"))
    with pytest.raises(ProcessingError, match=r"its dead letter is refused, too.*Let topic 'dead' take"):
        Worker(world, records_max=2).run()
    assert not world.open and world.committed == ({TopicPartition("in", 0): 1} if is_refused_late else {})


def test_an_error_of_the_program_buries_nothing_and_is_not_repeated_for_ever() -> None:
    world = World([b"1", b"2"])
    refusing(world, UnsupportedCompressionTypeError("no zstd here"), b"1", b"2")
    with pytest.raises(UnsupportedCompressionTypeError, match="no zstd here"):
        Worker(world, records_max=2).run()
    assert not world.written and not world.committed and not world.open


# -- the start ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [UnknownTopicOrPartitionError("topic 'dead' does not exist"), TopicAuthorizationFailedError("no right")]
)
def test_a_dead_letter_topic_that_is_missing_ends_the_call_before_the_first_record(error: PenstockError) -> None:
    world = World([b"1"])
    world.fail("partitions_for", error)
    worker = Worker(world, records_max=1)
    with pytest.raises(type(error)) as raised:
        worker.run()
    assert not worker.handled and "dead_letters='dead': make the topic" in str(raised.value.__notes__)


def test_a_start_in_an_outage_does_not_ask_for_the_topic_for_ever() -> None:
    world = World([b"1"])
    world.fail("partitions_for", TimedOutError("no broker answers"))
    assert Worker(world, records_max=1).run().records == 1


def test_a_start_tells_of_a_dead_letter_topic_that_takes_less_than_what_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World([b"1"])
    world.topics["dead"] = TopicInfo("dead", config={"max.message.bytes": "1000"})
    Worker(world, records_max=1).run()
    assert "it takes 1000 bytes (max.message.bytes); topic 'in', which is read, takes 1048588" in caplog.text


def test_the_defaults_of_topics_and_producers_give_no_doubt() -> None:
    plain, wide = TopicInfo("in"), TopicInfo("wide", config={"max.message.bytes": "5000000"})
    assert size_doubt(plain, 1_048_576, [plain]) == "" and size_doubt(plain, 1_048_576, []) == ""
    doubt = size_doubt(wide, 1_048_576, [plain, wide])
    assert doubt == "the producer sends 1048576 (max_request_size); topic 'wide', which is read, takes 5000000"
