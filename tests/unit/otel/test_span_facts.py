"""Spans have the names and attributes of OpenTelemetry's conventions for messaging."""

from __future__ import annotations

import pytest

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.otel.span_facts import Broker, carried, placed, polling, processing, sending, with_context

HERE = Broker(3, "b3", 9192)


def record(key: bytes | None = b"k", value: bytes | None = b"value") -> ConsumerRecord:
    return ConsumerRecord("orders", 2, 7, 0, 0, key, value, ())


def test_a_send_names_its_topic_and_the_place_comes_with_the_ack() -> None:
    assert sending("orders", "till", b"k", b"value") == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "till",
        "messaging.message.body.size": 5,
        "messaging.kafka.message.key": "k",
    }
    assert sending("orders", "till", b"\xff", None)["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in sending("orders", "till", b"\xff", None)
    assert placed(2, 7, HERE) == {
        "messaging.destination.partition.id": "2",
        "messaging.kafka.offset": 7,
        "server.address": "b3",
        "server.port": 9192,
        "penstock.broker.id": 3,
    }
    assert placed(2, -1, None) == {"messaging.destination.partition.id": "2"}


def test_a_poll_of_one_topic_is_named_after_it() -> None:
    name, found = polling(["orders", "orders"], "shop", "till", 2)
    assert name == "poll orders" and found["messaging.destination.name"] == "orders"
    assert found["messaging.batch.message_count"] == 2 and found["messaging.consumer.group.name"] == "shop"
    name, found = polling(["orders", "payments"], None, "till", 2)
    assert name == "poll" and "messaging.destination.name" not in found and "messaging.consumer.group.name" not in found


def test_the_work_on_a_record_says_which_one() -> None:
    found = processing(record(), "shop", "till")
    assert found["messaging.kafka.offset"] == 7 and found["messaging.destination.partition.id"] == "2"
    assert processing(record(value=None), None, "till")["messaging.kafka.message.tombstone"] is True


def test_a_long_key_is_cut() -> None:
    assert len(str(processing(record(key=b"x" * 1_000), None, "till")["messaging.kafka.message.key"])) == 128


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ((), {}),
        ((("traceparent", b"00-a"), ("traceparent", b"00-b")), {"traceparent": "00-a"}),
        ((("traceparent", None), ("x", b"\xff"), ("y", b"1")), {"y": "1"}),
    ],
)
def test_headers_are_read_as_text_and_what_is_none_is_passed_over(
    headers: tuple[tuple[str, bytes | None], ...], found: dict[str, str]
) -> None:
    assert carried(headers) == found


def test_a_programs_own_headers_stay() -> None:
    assert with_context(None, {"traceparent": "00-a"}) == [("traceparent", b"00-a")]
    assert with_context({"a": b"1"}, {"traceparent": "00-a"}) == [("a", b"1"), ("traceparent", b"00-a")]
    assert with_context([("traceparent", b"mine")], {"traceparent": "00-a"}) == [("traceparent", b"mine")]
