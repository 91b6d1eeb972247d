"""How `penstock produce` cuts standard input into lines, and lines into keys and values."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.console import produce
from penstock.cli.console.produce_lines import BadLineError, LineShape, parse_header, read_lines
from penstock.client.producer.producer_statistics import ProducerStatistics
from penstock.errors import (
    BootstrapError,
    ConfigError,
    InvalidRecordError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from penstock.record.reader import read_records
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster
from tests.support.stranger import stranger


class Dripping(io.BytesIO):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        super().__init__(data)
        self._step = step

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(self._step)


def lines_of(stream: Any, **limit: int) -> list[bytes]:
    return [line for lines in read_lines(stream, **limit) for line in lines]


@pytest.mark.parametrize("data", [b"", b"\n", b"a", b"a\n", b"a\nb", b"a\n\nb\n", b"\n\n", b"a\r\nb\n", b"ab\ncd\nef"])
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_lines_are_the_same_however_the_bytes_arrive(data: bytes, step: int) -> None:
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines_of(Dripping(data, step)) == expected


def test_a_line_without_end_is_refused_before_memory_ends() -> None:
    with pytest.raises(BadLineError, match="line 3 of standard input: a line is longer than 10 bytes"):
        lines_of(Dripping(b"a\nb\n" + b"x" * 11, 3), line_bytes_max=10)


def test_a_keyed_line_without_its_separator_is_named() -> None:
    sent = Sent()
    with pytest.raises(BadLineError, match="line 12 'no key here' has no key separator ':'"):
        list(LineShape(b":").send(sent, "orders", [b"a:1", b"b:2", b"no key here", b"c:3"], 10))  # type: ignore[arg-type]
    assert sent.calls == [([b"1", b"2"], [b"a", b"b"])], "what came before it is sent"


class Sent:
    """Takes what a producer would send."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def send_many(self, _topic: str, values: list[bytes | None], keys: list[bytes] | None, partition: Any) -> None:
        self.calls.append((values, keys) if partition is None else (values, keys, partition))

    def send(self, _topic: str, *record: Any) -> None:
        self.calls.append(record)


def send(shape: LineShape, sent: Sent, lines: list[bytes]) -> list[int]:
    """Sends, and returns of how many lines each future is."""
    return [line_count for _, line_count in shape.send(sent, "users", lines)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("marker", "values"),
    [(None, [b"1", b"NULL", b""]), (b"NULL", [b"1", None, b""]), (b"", [b"1", b"NULL", None])],
)
def test_a_value_equal_to_the_marker_is_null(marker: bytes | None, values: list[bytes | None]) -> None:
    sent = Sent()
    send(LineShape(b"=", marker), sent, [b"a=1", b"b=NULL", b"c="])
    send(LineShape(b"", marker), sent, [b"1", b"NULL", b""])
    assert sent.calls == [(values, [b"a", b"b", b"c"]), (values, None)]


def test_key_partition_and_headers_are_those_of_every_record() -> None:
    sent = Sent()
    assert send(LineShape(key=b"k", partition=3), sent, [b"1", b"2"]) == [2]
    assert send(LineShape(b"=", headers=(("h", b"x"),), partition=3), sent, [b"a=1", b"b=2"]) == [1, 1]
    assert send(LineShape(headers=(("h", b"x"),)), sent, [b"1"]) == [1]
    assert sent.calls == [
        ([b"1", b"2"], [b"k", b"k"], 3),
        (b"1", b"a", (("h", b"x"),), 3),
        (b"2", b"b", (("h", b"x"),), 3),
        (b"1", None, (("h", b"x"),), None),
    ]


@pytest.mark.parametrize("text", ["source", "=shop", ""])
def test_a_header_without_a_name_or_a_value_is_named(text: str) -> None:
    assert parse_header("a=b=c") == ("a", b"b=c")
    with pytest.raises(ConfigError, match=f"--header {text}: must be NAME=VALUE"):
        parse_header(text)


def test_a_key_is_given_in_one_way() -> None:
    with pytest.raises(ConfigError, match="--key and --key-separator: both give the key; keep one"):
        produce.produce("t", key="k", key_separator="=")


def test_what_is_asked_for_is_written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"1\n2\n")))
    with FakeCluster() as cluster:
        cluster.create_topic("t", 3)
        options: dict[str, Any] = {"key": "k", "header": ["a=1", "a=2"], "partition": 2, "acks": "1"}
        produce.produce("t", bootstrap=cluster.bootstrap, as_json=True, lines=True, **options)
        found = [r for _, _, data, _ in cluster.logs[TopicPartition("t", 2)].batches for r in read_records(data)]
    assert [(r.key, r.value, r.headers) for r in found] == [(b"k", v, (("a", b"1"), ("a", b"2"))) for v in (b"1", b"2")]
    assert capsys.readouterr().out == '{"topic": "t", "records": 2}\n'


class TypedByHand:
    """Gives one line, and ends only when somebody has been told something."""

    def __init__(self) -> None:
        self.is_shown = threading.Event()
        self._reads = 0

    def read1(self, _size: int) -> bytes:
        self._reads += 1
        if self._reads == 1:
            return b"the line\n"
        assert self.is_shown.wait(60), "nobody was told while the input was open"
        return b""

    read = read1


def test_a_line_that_fails_is_told_while_the_input_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    typed, notes = TypedByHand(), []

    def note(text: str) -> None:
        notes.append(text)
        typed.is_shown.set()

    monkeypatch.setattr(produce, "note", note)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=typed))
    with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.fail_produce("t", 0, InvalidRecordError("no key"))
        with pytest.raises(InvalidRecordError) as caught:
            produce.produce("t", bootstrap=cluster.bootstrap)
    assert caught.value.__notes__ == [
        "0 records were acked; the records after them may or may not be written",
        "a compacted topic needs a key in every record: give --key-separator SEP or --key TEXT",
    ]
    assert notes == ["penstock: line 1 failed: INVALID_RECORD: no key"]
    assert str(caught.value) == "not every line was written, as said above", "the error is told once"


def test_a_refusal_is_told_once_and_while_the_input_is_open_if_that_does_not_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    refusal = TopicAuthorizationFailedError("User:anna may not Write on topic 't'")
    with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.fail_produce("t", 0, refusal, refusal)
        monkeypatch.setattr(produce, "note", notes.append)
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"1\n2\n")))
        monkeypatch.setattr(produce, "REFUSAL_SHOWN_S", 60)
        with pytest.raises(TopicAuthorizationFailedError, match="may not Write") as caught:
            produce.produce("t", bootstrap=cluster.bootstrap)
        assert not notes and caught.value.__notes__ == ["0 records were acked"]

        typed = TypedByHand()
        monkeypatch.setattr(produce, "note", lambda text: (notes.append(text), typed.is_shown.set()))
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=typed))
        monkeypatch.setattr(produce, "REFUSAL_SHOWN_S", 0)
        with pytest.raises(TopicAuthorizationFailedError, match="as said above"):
            produce.produce("t", bootstrap=cluster.bootstrap)
        assert notes == ["penstock: TOPIC_AUTHORIZATION_FAILED: User:anna may not Write on topic 't'"]


def test_a_user_who_may_not_describe_the_topic_leaves_the_size_of_records_to_the_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, Any] = {}

    def write(bootstrap: str, topic: str, shape: LineShape, options: dict[str, Any]) -> int:
        made.update(options, shape=shape)
        return 0

    monkeypatch.setattr(produce, "_write", write)
    with FakeCluster() as cluster:
        cluster.create_topic("t", config={"max.message.bytes": "5000"})
        produce.produce("t", bootstrap=cluster.bootstrap)
        assert (made["max_request_size"], made["shape"].batch_bytes_max) == (5000, 5000)
        cluster.refused_configs.add("t")
        produce.produce("t", bootstrap=cluster.bootstrap)
        assert (made["max_request_size"], made["shape"].batch_bytes_max) == (produce.RECORD_BYTES_MAX, None)


class Interrupted:
    """Gives three lines, and then Ctrl-C."""

    def __init__(self) -> None:
        self._given = [b"1\n2\n3\n"]

    def read1(self, _size: int) -> bytes:
        if not self._given:
            raise KeyboardInterrupt
        return self._given.pop()

    read = read1


def test_ctrl_c_says_that_what_was_sent_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    def note(text: str) -> None:
        heard.append(text)
        cluster.silence(0, on=False)
        cluster.break_streams(0)  # the producer sends the records once more, and may close then

    monkeypatch.setattr(produce, "note", note)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Interrupted()))
    with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.silence(0)
        with pytest.raises(KeyboardInterrupt):
            produce.produce("t", bootstrap=cluster.bootstrap)
    assert heard == ["penstock: waiting for 3 records to be acked; Ctrl-C again to give up"]


def test_ctrl_c_says_nothing_where_nothing_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    produce.note_unacked(3, ProducerStatistics(records_acked=2, records_failed=1))
    assert capsys.readouterr().err == ""
    produce.note_unacked(3, ProducerStatistics(records_acked=2))
    assert capsys.readouterr().err == "penstock: waiting for 1 record to be acked; Ctrl-C again to give up\n"


def test_where_no_broker_took_a_record_nothing_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"the line\n")))
    with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address, pytest.raises(BootstrapError) as caught:
        produce.produce("t", bootstrap=address)
    assert caught.value.__notes__ == ["nothing was written"]


def test_an_unknown_topic_is_an_error_also_where_there_is_nothing_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO()))
    with FakeCluster() as cluster, pytest.raises(UnknownTopicOrPartitionError, match="nope") as caught:
        produce.produce("nope", bootstrap=cluster.bootstrap)
    assert caught.value.__notes__ == ["nothing was written"]


class Failed:
    """A future of records that have failed."""

    def add_done_callback(self, callback: Any) -> None:
        callback(self)

    def exception(self, _timeout: float) -> InvalidRecordError:
        return InvalidRecordError("no key")


def test_failures_are_told_by_their_lines_and_not_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    report = produce.FailureReport()
    for _ in range(1_000):
        report.watch(Failed(), 5)  # type: ignore[arg-type]
    printed = capsys.readouterr().err.splitlines()
    assert printed[1] == "penstock: some of the lines 6 to 10 failed: INVALID_RECORD: no key"
    assert len(printed) == produce.FAILURES_SHOWN_MAX + 1 and "more lines failed" in printed[-1]
