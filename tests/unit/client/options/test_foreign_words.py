"""Words that users of other clients write by habit are refused with the line to write here; the docs page has every
word."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin, AsyncConsumer, AsyncProducer, Consumer, ConsumerRecord, Producer
from penstock.client.options.config import AdminConfig, ConsumerConfig, ProducerConfig, consumer_config, producer_config
from penstock.client.options.foreign_words import (
    ABSENT,
    ADMIN_METHODS,
    CONSUMER_METHODS,
    FUTURE_METHODS,
    PRODUCER_METHODS,
    RECORD_FIELDS,
    RENAMED,
    checked_timeout_ms,
)
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.errors import ConfigError

PAGE = Path(__file__).resolve().parents[4] / "docs" / "from-other-clients.md"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bootstrap_servers": "h:1"}, "; the addresses come first: Producer('h:1')"),
        ({"linger.ms": 5}, "; write linger_ms=5"),
        ({"message.timeout.ms": 9}, "; write delivery_timeout_ms=9"),
        ({"queue_buffering_max_ms": 7}, "; write linger_ms=7"),
        ({"value_serializer": str}, "; keys and values are bytes"),
        ({"transactional.id": "x"}, "; write transactional_id='x'"),
    ],
)
def test_an_option_of_another_client_is_answered_with_ours(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer_config(options)
    assert f"Producer has no option {next(iter(options))!r}{says}" in str(caught.value)


def test_a_time_out_of_a_group_is_refused_with_who_sets_it() -> None:
    with pytest.raises(ConfigError, match="no option 'session_timeout_ms'; the brokers set it for all members"):
        consumer_config({"group_id": "g", "session_timeout_ms": 6_000})


def test_a_dict_of_dotted_keys_is_answered_with_the_call() -> None:
    with pytest.raises(ConfigError) as caught:
        Producer({"bootstrap.servers": "a:1", "linger.ms": 5, "message.timeout.ms": 9})  # type: ignore[arg-type]
    assert "write Producer('a:1', linger_ms=5, delivery_timeout_ms=9)" in str(caught.value)
    with pytest.raises(
        ConfigError, match=r"write Consumer\('a:1', group_id='g'\); session.timeout.ms: the brokers set"
    ):
        Consumer({"bootstrap.servers": "a:1", "group.id": "g", "session.timeout.ms": 6_000})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (1.0, TypeError, r"write poll\(timeout_ms=1000\)"),
        (0.5, TypeError, r"write poll\(timeout_ms=500\)"),
        (None, TypeError, "whole number of milliseconds"),
        (True, TypeError, "whole number of milliseconds"),
        (-1, ValueError, "must not be negative"),
    ],
)
def test_a_time_limit_is_in_milliseconds(given: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        checked_timeout_ms(given)
    assert checked_timeout_ms(5) == 5


def test_a_method_of_another_client_is_answered_with_ours() -> None:
    producer, consumer = AsyncProducer("a:1"), AsyncConsumer("a:1")
    with pytest.raises(AttributeError, match="'AsyncProducer' object has no attribute 'produce'; "):
        producer.produce("t", b"v")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"write consumer.commit\(\{partition: record.position\}\)"):
        consumer.store_offsets([])  # type: ignore[attr-defined]
    assert not hasattr(consumer, "store_offsets")
    assert not hasattr(Admin, "nothing")


def test_a_future_and_a_record_answer_habits_too() -> None:
    record = ConsumerRecord("t", 0, 7, 1, 0, None, b"v", ())
    with pytest.raises(AttributeError, match=r"no attribute 'timestamp'; write record.timestamp_ms"):
        record.timestamp  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"'BulkFuture' object has no attribute 'get'; write future.result\("):
        BulkFuture([]).get(timeout=1)  # type: ignore[attr-defined]
    assert not hasattr(RecordFuture, "nothing") and not hasattr(record, "error")


def test_the_words_are_of_other_clients_only_and_what_they_name_is_there() -> None:
    ours = {field.name for config in (ProducerConfig, ConsumerConfig, AdminConfig) for field in fields(config)}
    assert not (set(RENAMED) | set(ABSENT)) & ours
    assert set(RENAMED.values()) <= ours


def test_the_page_has_every_word() -> None:
    text = PAGE.read_text(encoding="utf-8")
    words = [*RENAMED, *ABSENT, *PRODUCER_METHODS, *CONSUMER_METHODS, *ADMIN_METHODS]
    words += [*FUTURE_METHODS, *RECORD_FIELDS]
    assert [word for word in words if f"`{word}`" not in text] == []
