"""`penstock consume TOPIC > lines`: records of every partition, as they come, one a line.

Records are written and flushed once per poll, so that a reader of the pipe sees a record when it arrives. Records of
one partition are in order; records of different partitions have no order. `consume_ends.py` knows which partitions have
a leader and where to stop.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.consume_ends import Ends, Leaders
from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap
from penstock.cli.output import bytes_fields
from penstock.clock import SystemClock
from penstock.errors import UndecodableBatchError

if TYPE_CHECKING:
    from penstock import Consumer

POLL_MS = 500
KEY_SEPARATOR = b"\t"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to read.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the first record, not at the end.")
    ] = False,
    count: Annotated[int, typer.Option("-n", "--count", min=0, help="Stop after this many records; 0: never.")] = 0,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", help="Stop at the end that the log had when the command began.")
    ] = False,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key and a tab before the value.")] = False,
    null_marker: Annotated[
        str, typer.Option(metavar="TEXT", help="Print TEXT for a null key or value; --json prints null.")
    ] = "",
    skip_undecodable: Annotated[
        bool,
        typer.Option("--skip-undecodable", help="Report a batch that cannot be decoded on stderr, and go on after it."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Print a topic's records, one a line."""
    from penstock import Admin, Consumer

    marker, clock = os.fsencode(null_marker), SystemClock()
    with Admin(bootstrap) as admin, Consumer(bootstrap) as consumer:
        leaders = Leaders(lambda: admin.describe_topic(topic), clock)
        partitions = leaders.look()
        consumer.assign(partitions)
        if from_beginning:
            consumer.seek_to_beginning()
        else:
            consumer.seek_to_end()
        ends = Ends(consumer, partitions, leaders, clock) if exit_at_end else None
        for records in _polls(_poller(consumer, leaders, skip_undecodable), ends, count):
            sys.stdout.buffer.write(_lines(records, marker, print_key=print_key, as_json=as_json))
            sys.stdout.buffer.flush()


def _poller(consumer: Consumer, leaders: Leaders, skip_undecodable: bool) -> Callable[[], Sequence[Any]]:
    """A function that returns the next records and checks the leaders on the way."""

    def poll() -> Sequence[Any]:
        leaders.maybe_look()
        return _poll(consumer, skip_undecodable)

    return poll


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


def _poll(consumer: Consumer, skip_undecodable: bool) -> Sequence[Any]:
    try:
        return consumer.poll(timeout_ms=POLL_MS)
    except UndecodableBatchError as error:
        bounds = (error.offset, error.next_offset)
        if not skip_undecodable:
            raise UndecodableBatchError(error.topic_partition, bounds, error.why, "add --skip-undecodable") from error
        print(f"{error.topic_partition}: offsets [{bounds[0]}, {bounds[1]}) are skipped: {error.why}", file=sys.stderr)
        consumer.seek(error.topic_partition, error.next_offset)
        return ()


def _lines(records: Sequence[Any], null_marker: bytes, *, print_key: bool, as_json: bool) -> bytes:
    if as_json:
        return b"".join(_json_line(record) for record in records)
    lines = [null_marker if record.value is None else record.value for record in records]
    if print_key:
        keys = [null_marker if record.key is None else record.key for record in records]
        lines = [KEY_SEPARATOR.join(pair) for pair in zip(keys, lines, strict=True)]
    return b"\n".join([*lines, b""])


def _json_line(record: Any) -> bytes:
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **bytes_fields("key", record.key),
        **bytes_fields("value", record.value),
    }
    if record.headers:
        fields["headers"] = [{"name": name, **bytes_fields("value", value)} for name, value in record.headers]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
