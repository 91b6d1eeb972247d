"""How `penstock consume` prints records."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from penstock.cli.console import consume, consume_ends, consume_poll
from penstock.cli.console.consume_range import BEGINNING, END, ConsumeRange, parse_range
from penstock.cli.console.record_format import compile_format
from penstock.errors import ConfigError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from tests.support.fake_broker import FakeCluster


class Record(NamedTuple):
    """The parts of a record that can be printed."""

    key: bytes | None
    value: bytes | None
    topic: str = "users"
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()


RECORDS = [Record(b"a", b"1"), Record(b"a", None), Record(None, b"")]


@pytest.mark.parametrize(
    ("marker", "print_key", "expected"),
    [
        (b"", False, b"1\n\n\n"),
        (b"", True, b"a\t1\na\t\n\t\n"),
        (b"NULL", False, b"1\nNULL\n\n"),
        (b"NULL", True, b"a\t1\na\tNULL\nNULL\t\n"),
    ],
)
def test_the_marker_is_printed_for_null_and_for_nothing_else(marker: bytes, print_key: bool, expected: bytes) -> None:
    assert consume._lines(RECORDS, marker, consume.Columns(key=print_key)) == expected


def test_json_has_a_null_of_its_own() -> None:
    lines = consume._lines(RECORDS, b"NULL", consume.Columns(as_json=True)).splitlines()
    assert [(row["key"], row["value"]) for row in map(json.loads, lines)] == [("a", "1"), ("a", None), (None, "")]


def test_headers_come_before_key_and_value() -> None:
    record = Record(b"k", b"v", headers=(("a", b"1"), ("b", b"2")))
    assert consume._lines([record], b"", consume.Columns(key=True, headers=True)) == b"a=1,b=2\tk\tv\n"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t/%p@%o\t%k=%s\n", b"t/1@7\tk=v\n"),
        (r"%T %K %S %h%%\x41\\", b"9 1 1 a=1,b=NULL%A\\"),
        ("ü%s", "üv".encode()),
    ],
)
def test_a_format_says_what_is_printed(text: str, printed: bytes) -> None:
    record = Record(b"k", b"v", "t", 1, 7, 9, (("a", b"1"), ("b", None)))  # type: ignore[arg-type]
    assert compile_format(text, b"NULL")(record) == printed


def test_a_null_has_its_marker_and_the_length_minus_one() -> None:
    assert compile_format("%k %K %s %S", b"NULL")(Record(None, None)) == b"NULL -1 NULL -1"


@pytest.mark.parametrize(("text", "named"), [("%q", "'%q'"), ("%", "'%'"), (r"\q", r"\q"), ("a\\", r"\\")])
def test_a_letter_that_means_nothing_is_named(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match="means nothing; there are"):
        compile_format(text, b"")


NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("", "", ""), ConsumeRange(END)),
        (("beginning", "", ""), ConsumeRange(BEGINNING)),
        (("end", "", ""), ConsumeRange(END)),
        (("42", "", ""), ConsumeRange(42)),
        (("-5", "", ""), ConsumeRange(-5)),
        (("-0", "", ""), ConsumeRange(END)),
        (("", "-2h", "-90s"), ConsumeRange(END, NOW - 7_200_000, NOW - 90_000)),
        (("", "1600000000000", "2023-11-14T22:13:20Z"), ConsumeRange(END, 1_600_000_000_000, NOW)),
    ],
)
def test_a_range_is_by_offset_or_by_time(options: tuple[str, str, str], expected: ConsumeRange) -> None:
    assert parse_range(*options, NOW) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("soon", "", ""), "--offset soon: must be beginning, end, an offset, or -N"),
        (("", "yesterday", ""), "--from-time yesterday: must be ms since 1970"),
        (("", "", "-5y"), "--until-time -5y: must be"),
        (("5", "-1h", ""), "--offset and --from-time: each says where to begin; keep one"),
        (("", "-1h", "-2h"), "--until-time -2h: must be later than --from-time -1h"),
    ],
)
def test_a_range_that_means_nothing_is_refused(options: tuple[str, str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_range(*options, NOW)


def consumed(capture: Any, cluster: FakeCluster, *topics: str, **options: Any) -> list[bytes]:
    consume.consume(list(topics), bootstrap=cluster.bootstrap, **options)
    return sorted(capture.readouterr().out.splitlines())


def test_records_are_chosen_by_topic_partition_offset_and_time(capfdbinary: Any) -> None:
    with FakeCluster(1) as cluster:
        for topic in ("a", "b"):
            cluster.create_topic(topic, 2)
        for number in range(4):
            cluster.append("a", 0, build_batch([b"a%d" % number], timestamps_ms=NOW + number))
        cluster.append("a", 1, build_batch([b"x"], timestamps_ms=NOW))
        cluster.append("b", 0, build_batch([b"b0"], timestamps_ms=NOW + 1))
        ended = {"exit_at_end": True}
        assert consumed(capfdbinary, cluster, "a", "b", offset="-1", **ended) == [b"a3", b"b0", b"x"]
        assert consumed(capfdbinary, cluster, "a", offset="2", partition=[0], **ended) == [b"a2", b"a3"]
        times = {"from_time": f"{NOW + 1}", "until_time": f"{NOW + 3}"}
        assert consumed(capfdbinary, cluster, "a", "b", **times) == [b"a1", b"a2", b"b0"]
        assert consumed(capfdbinary, cluster, "a", from_time=f"{NOW + 9}", **ended) == []
        shown = consumed(capfdbinary, cluster, "a", "b", from_beginning=True, format=r"%t%p@%o\n", **ended)
        assert shown == [b"a0@0", b"a0@1", b"a0@2", b"a0@3", b"a1@0", b"b0@0"]
        with pytest.raises(OffsetOutOfRangeError):
            consume.consume(["a"], offset="9", partition=[0], bootstrap=cluster.bootstrap, count=1)
        assert consumed(capfdbinary, cluster, "a", offset="4", partition=[0], **ended) == []
        with pytest.raises(OffsetOutOfRangeError, match="offset 5 is out of range"):
            consumed(capfdbinary, cluster, "a", offset="5", partition=[0], **ended)


def test_a_format_goes_with_nothing_that_it_says_itself() -> None:
    with pytest.raises(ConfigError, match="--format says everything"):
        consume.consume(["a"], format="%s", print_key=True)


def test_partitions_that_are_added_while_the_command_follows_are_read_from_their_first_record(
    capfdbinary: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_ends, "LOOK_MS", 0)
    monkeypatch.setattr(consume_poll, "POLL_MS", 20)
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 1)
        polls: list[None] = []

        def poll(consumer: Any, skip_undecodable: bool) -> Any:
            polls.append(None)
            if len(polls) == 2:
                cluster.add_partition("t", 1, 1)
                cluster.append("t", 1, build_batch([b"new"], timestamps_ms=1))
            return _poll(consumer, skip_undecodable)

        _poll = consume.poll_once
        monkeypatch.setattr(consume, "poll_once", poll)
        consume.consume(["t"], count=1, bootstrap=cluster.bootstrap)
    assert capfdbinary.readouterr().out == b"new\n"


def test_a_partition_that_the_consumers_broker_has_not_heard_of_is_added_later() -> None:
    class Consumer:
        def __init__(self) -> None:
            self.known = [TopicPartition("t", 0)]
            self.assigned = [TopicPartition("t", 0)]
            self.begun: list[TopicPartition] = []

        def assignment(self) -> list[TopicPartition]:
            return self.assigned

        def assign(self, partitions: list[TopicPartition]) -> None:
            if set(partitions) - set(self.known):
                raise UnknownTopicOrPartitionError("topic 't' has partitions 0 to 0, not 1")
            self.assigned = partitions

        def seek_to_beginning(self, *partitions: TopicPartition) -> None:
            self.begun += partitions

    consumer: Any = Consumer()
    found = [TopicPartition("t", 0), TopicPartition("t", 1)]
    consume._add_new(consumer, found)
    assert consumer.assigned == found[:1] and not consumer.begun
    consumer.known = found
    consume._add_new(consumer, found)
    consume._add_new(consumer, [])
    assert consumer.assigned == found and consumer.begun == found[1:]
