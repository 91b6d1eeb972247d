"""`produce --json` takes back what `consume --json` prints, byte for byte."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.console.produce_lines import BadLineError, JsonShape, LineShape, parse_separator
from penstock.cli.console.record_json import json_line, parse_record
from penstock.errors import ConfigError, MessageTooLargeError

DATA = st.one_of(
    st.none(), st.binary(max_size=40), st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(DATA, DATA, st.lists(st.tuples(NAMES, DATA), max_size=4), st.integers(0, 2**62))
def test_every_record_comes_back_as_it_was(key: Any, value: Any, headers: Any, time_ms: int) -> None:
    record = SimpleNamespace(
        topic="t", partition=3, offset=9, timestamp_ms=time_ms, key=key, value=value, headers=tuple(headers)
    )
    line = json_line(record)
    assert line.count(b"\n") == 1
    found = parse_record(line.removesuffix(b"\n"))
    assert (found.key, found.value, found.headers) == (key, value, tuple(headers))
    assert (found.topic, found.partition, found.timestamp_ms) == ("t", 3, time_ms)


BAD = {
    "no JSON": (b"hello", "is no JSON"),
    "no object": (b"[1]", "is no JSON object"),
    "not UTF-8": (b'{"value": "\xff"}', "is no JSON"),
    "an event and no record": (b'{"user": 1}', "a record has no field 'user'; there are topic, partition"),
    "nothing": (b"{}", "has neither a key nor a value"),
    "a number as value": (b'{"value": 1}', "value must be a text or null, not 1"),
    "both": (b'{"value": "a", "value_base64": "YQ=="}', "value and value_base64: both say the bytes"),
    "no base64": (b'{"key_base64": "?"}', "key_base64 is no base64"),
    "half a letter": (b'{"value": "\\ud83d"}', "half a surrogate pair"),
    "a huge partition": (b'{"value": null, "partition": 2147483648}', "partition must be a whole number from 0"),
    "a negative partition": (b'{"value": null, "partition": -1}', "partition must be a whole number from 0"),
    "true": (b'{"value": null, "partition": true}', "partition must be a whole number from 0"),
    "a time of text": (b'{"value": null, "timestamp_ms": "now"}', "timestamp_ms must be a whole number"),
    "headers": (b'{"value": null, "headers": {"a": "b"}}', "headers must be a list"),
    "a header as a list": (b'{"value": null, "headers": [["a", "b"]]}', "headers must be a list of objects"),
    "a header without a name": (b'{"value": null, "headers": [{"value": "b"}]}', "a header needs a name"),
    "deep": (b"[" * 100_000, "is no JSON"),
}


@pytest.mark.parametrize("row", BAD)
def test_a_line_that_is_no_record_says_why(row: str) -> None:
    line, says = BAD[row]
    with pytest.raises(ConfigError, match=says):
        parse_record(line)


class Sent:
    """Takes what a producer would send."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def send(self, _topic: str, *record: Any) -> None:
        self.calls.append(record)

    send_many = send


def sent_by(shape: Any, lines: list[bytes]) -> list[Any]:
    sent = Sent()
    assert [count for _, count in shape.send(sent, "t", lines, 1)] == [1] * len(lines)
    return sent.calls


def test_a_record_goes_to_its_partition_unless_another_is_asked_for() -> None:
    line = b'{"partition": 3, "timestamp_ms": 5, "key": "k", "value": null}'
    assert sent_by(JsonShape(), [line]) == [(None, b"k", (), 3, 5)]
    assert sent_by(JsonShape(1), [line]) == [(None, b"k", (), 1, 5)]
    assert sent_by(JsonShape(by_key=True), [line]) == [(None, b"k", (), None, 5)]
    assert sent_by(JsonShape(), [b'{"timestamp_ms": -1, "value": "v"}']) == [(b"v", None, (), None, None)]


def test_what_came_before_a_bad_line_is_sent_and_the_line_is_named() -> None:
    sent = Sent()
    with pytest.raises(BadLineError, match="line 43: is no JSON"):
        list(JsonShape().send(sent, "t", [b'{"value": "1"}', b'{"value": "2"}', b"x", b'{"value": "3"}'], 41))  # type: ignore[arg-type]
    assert [call[0] for call in sent.calls] == [b"1", b"2"]


def test_records_of_two_topics_are_not_mixed() -> None:
    lines = [b'{"topic": "a", "value": "1"}', b'{"value": "2"}', b'{"topic": "b", "value": "3"}']
    with pytest.raises(BadLineError, match="line 3: is a record of 'b', and those before it are of 'a'"):
        list(JsonShape().send(Sent(), "t", lines, 1))  # type: ignore[arg-type]


def test_a_line_that_does_not_fit_the_topic_is_named_and_those_before_it_are_sent() -> None:
    many = Sent()
    shape = LineShape(batch_bytes_max=1_000)
    lines = [b"x" * 930, b"y", b"x" * 931, b"z"]
    with pytest.raises(MessageTooLargeError) as caught:
        try:
            list(shape.send(many, "t", lines, 1))  # type: ignore[arg-type]
        except BadLineError as bad:
            raise bad.error from None
    says = "line 3: a batch with this record alone has 1001 bytes, and max.message.bytes of the topic is 1000"
    assert str(caught.value) == says and many.calls == [(lines[:2], None, None)]


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        *[("\\t", b"\t"), ("\t", b"\t"), ("\\x1f", b"\x1f"), ("\\x1F|", b"\x1f|"), ("\\\\t", b"\\t")],
        *[("\\", b"\\"), ("=", b"="), ("\\0", b"\0"), ("\\q", b"\\q"), ("\\x1", b"\\x1"), ("", b"")],
    ],
)
def test_a_separator_has_the_escapes_of_kcat(text: str, separator: bytes) -> None:
    assert parse_separator(text) == separator


def test_json_text_of_a_record_is_one_document_a_line() -> None:
    record = SimpleNamespace(topic="t", partition=0, offset=0, timestamp_ms=1, key=None, value=b"\xff", headers=())
    assert json.loads(json_line(record)) == {
        "topic": "t", "partition": 0, "offset": 0, "timestamp_ms": 1, "key": None, "value_base64": "/w=="
    }  # fmt: skip
