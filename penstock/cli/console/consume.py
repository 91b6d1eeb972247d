"""`penstock consume TOPIC... > lines`: records of every partition, as they come, one a line.

Records are written and flushed once per poll, so that a reader of the pipe sees a record when it arrives. Records of
one partition are in order; records of different partitions have no order. `consume_ends.py` knows which partitions have
a leader and where the log ends, `consume_range.py` where to begin and stop, `record_format.py` what is printed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.console.consume_ends import Ends, Leaders
from penstock.cli.console.consume_group import Group, GroupReading, Isolation, Rack, refuse_beside_group
from penstock.cli.console.consume_poll import poll_once
from penstock.cli.console.consume_range import parse_range
from penstock.cli.console.record_format import compile_format, header_text
from penstock.cli.console.record_json import json_line
from penstock.cli.edge.places import parse_places
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, complete_topic
from penstock.cli.patience.waits import ConsumeWait
from penstock.cli.patience.watch import patience
from penstock.clock import SystemClock
from penstock.errors import ConfigError, UnknownTopicOrPartitionError
from penstock.lazy_dataclass import dataclass
from penstock.written.numbers import INT32_MAX, INT64_MAX
from penstock.written.times import MOMENT_FORMS

if TYPE_CHECKING:
    from penstock import Consumer
    from penstock.types import TopicPartition

KEY_SEPARATOR = b"\t"

Topics = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC[:P,…]...",
        help="The topics to read, or only some partitions of them: orders payments:0,2.",
        autocompletion=complete_topic,
    ),
]
FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Start at the first record, not at the end.")]
Offset = Annotated[
    str,
    typer.Option(
        "-o",
        "--offset",
        metavar="WHERE",
        help="Start at: beginning, end, an offset, or -N for the last N records of each partition.",
    ),
]
FromTime = Annotated[
    str, typer.Option(metavar="TIME", help=f"Start at the first record at or after TIME: {MOMENT_FORMS}.")
]
UntilTime = Annotated[
    str, typer.Option(metavar="TIME", help="Stop before the first record at or after TIME, or at the end of the log.")
]
OnlyPartitions = Annotated[
    list[int] | None,
    typer.Option("-p", "--partition", metavar="N", min=0, max=INT32_MAX, help="Only this partition; may be repeated."),
]
Count = Annotated[
    int, typer.Option("-n", "--count", min=0, max=INT64_MAX, help="Stop after this many records; 0: never.")
]
ExitAtEnd = Annotated[
    bool,
    typer.Option(
        "--exit-at-end",
        help="Stop at the end that the log had when the command began; in a group, at the ends that this member's"
        " partitions had when it got them.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "-f",
        "--format",
        metavar="TEXT",
        help="Print each record as TEXT: %t topic, %p partition, %o offset, %T timestamp, %k key, %s value, %h headers,"
        " %K and %S lengths of key and value; \\n, \\t, \\xHH. Without \\n there is no line end.",
    ),
]
PrintKey = Annotated[bool, typer.Option("--print-key", help="Print the key and a tab before the value.")]
PrintHeaders = Annotated[
    bool, typer.Option("--print-headers", help="Print name=value,... and a tab before key and value.")
]
NullMarker = Annotated[
    str, typer.Option(metavar="TEXT", help="Print TEXT for a null key or value; --json prints null.")
]
SkipUndecodable = Annotated[
    bool,
    typer.Option("--skip-undecodable", help="Report a batch that cannot be decoded on stderr, and go on after it."),
]


def consume(
    topics: Topics,
    from_beginning: FromBeginning = False,
    offset: Offset = "",
    from_time: FromTime = "",
    until_time: UntilTime = "",
    partition: OnlyPartitions = None,
    count: Count = 0,
    exit_at_end: ExitAtEnd = False,
    format: Format = "",
    print_key: PrintKey = False,
    print_headers: PrintHeaders = False,
    null_marker: NullMarker = "",
    skip_undecodable: SkipUndecodable = False,
    group: Group = None,
    isolation_level: Isolation = None,
    client_rack: Rack = "",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Print the records of topics as they come, one a line.

    With --group several of these commands, and other consumers of the group, share the partitions. Printed records are
    committed, and the next member goes on behind them; --from-beginning and the end count where nothing is committed.
    """
    clock = SystemClock()
    span = parse_range(offset, from_time, until_time, clock.wall_ms(), from_beginning=from_beginning)
    lines_of = _printer(format, os.fsencode(null_marker), Columns(as_json, print_key, print_headers))
    places = parse_places(topics)
    if partition and any(places.values()):
        raise ConfigError("--partition: the topics name partitions already, like orders:0; leave one out")
    if group is not None:
        named = partition or [number for numbers in places.values() for number in numbers]
        alone = {"--partition": named, "--offset": offset, "--from-time": from_time, "--until-time": until_time}
        refuse_beside_group(alone)
        names = tuple(places)
        reading = GroupReading(
            group, names, from_beginning, skip_undecodable, count, isolation_level, exit_at_end, client_rack
        )
        reading.print_to(lambda records: _print(lines_of(records)), bootstrap)
        return
    from penstock import Admin, Consumer

    reader = Consumer(
        bootstrap, auto_offset_reset=span.offset_reset, isolation_level=isolation_level, client_rack=client_rack
    )
    with reader as consumer, Admin(bootstrap) as admin:
        leaders = Leaders(lambda: [admin.describe_topic(topic) for topic in places], clock, partition, places)
        wait = ConsumeWait(consumer, bootstrap)
        with patience(wait.progress, wait.reason):
            partitions = leaders.look()
            consumer.assign(partitions)
            span.seek(consumer, partitions)
            limits = span.limits(consumer, partitions)
            stops = exit_at_end or bool(until_time)
            ends = Ends(consumer, partitions, leaders, clock, limits) if stops else None
            poll = _poller(consumer, leaders, skip_undecodable=skip_undecodable, follows=ends is None)
            for records in _polls(poll, ends, count):
                wait.is_printing = True
                _print(lines_of(records))
                wait.printed += len(records)
                wait.is_printing = False


def _print(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()


def _poller(
    consumer: Consumer, leaders: Leaders, *, skip_undecodable: bool, follows: bool
) -> Callable[[], Sequence[Any]]:
    """A function that returns the next records and checks the leaders on the way; `follows` has it read partitions that
    are added to the topics, too."""

    def poll() -> Sequence[Any]:
        found = leaders.maybe_look()
        if follows:
            _add_new(consumer, found)
        return poll_once(consumer, skip_undecodable)

    return poll


def _add_new(consumer: Consumer, found: Sequence[TopicPartition]) -> None:
    """Reads partitions that are not assigned yet, from their first record on: that came after the command began."""
    assigned = consumer.assignment()
    new = [tp for tp in found if tp not in assigned]
    if not new:
        return
    try:
        consumer.assign([*assigned, *new])
        consumer.seek_to_beginning(*new)
    except UnknownTopicOrPartitionError:
        return  # the broker that was asked has not heard of them: the next look finds them again


def _polls(poll: Callable[[], Sequence[Any]], ends: Ends | None, count: int) -> Iterator[Sequence[Any]]:
    """Lists of records until `count` of them, or until every partition has reached its end."""
    left = count
    while ends is None or not ends.is_reached():
        records = poll()
        if ends is not None:
            records = [record for record in records if ends.is_before(record)]
        if count:
            records = records[:left]
            left -= len(records)
        if records:
            yield records
        if count and left == 0:
            return


@dataclass(frozen=True, slots=True)
class Columns:
    """The parts of a record that are printed without a format: its value, and more before it."""

    as_json: bool = False
    key: bool = False
    headers: bool = False


def _printer(text: str, null_marker: bytes, columns: Columns) -> Callable[[Sequence[Any]], bytes]:
    """A function that turns many records into the bytes to print."""
    if not text:
        return lambda records: _lines(records, null_marker, columns)
    if columns != Columns():
        raise ConfigError("--format says everything about a record; leave --json, --print-key and --print-headers out")
    one = compile_format(text, null_marker)
    return lambda records: b"".join(map(one, records))


def _lines(records: Sequence[Any], null_marker: bytes, columns: Columns) -> bytes:
    if columns.as_json:
        return b"".join(json_line(record) for record in records)
    lines = [null_marker if record.value is None else record.value for record in records]
    if columns.key:
        keys = [null_marker if record.key is None else record.key for record in records]
        lines = [KEY_SEPARATOR.join(pair) for pair in zip(keys, lines, strict=True)]
    if columns.headers:
        headers = [header_text(record, null_marker) for record in records]
        lines = [KEY_SEPARATOR.join(pair) for pair in zip(headers, lines, strict=True)]
    return b"\n".join([*lines, b""])
