"""`penstock produce TOPIC < lines`: every line a record, acks=all, exit 0 only when every line is acked.

Standard input is read in bulk and sent in bulk; a typed line is sent at once. The number of chunks that wait for their
ack is bounded, so a file larger than memory is no problem. A failed chunk is reported on stderr at once, because a user
who types lines may not end the input for hours. The command ends when the next line is read.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from penstock.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Compression
from penstock.cli.output import note, print_json
from penstock.errors import ApiError, BootstrapError, ConfigError, PenstockError

if TYPE_CHECKING:
    from penstock import Producer
    from penstock.client.producer.future import BulkFuture

CHUNK_BYTES = 1024 * 1024
CHUNKS_IN_FLIGHT_MAX = 32
FAILURES_SHOWN_MAX = 10
"""In one run. All chunks in flight fail together, and the command ends with the first error."""
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A file with a longer line is no text; without this limit the line would be collected until memory ends."""


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")],
    key_separator: Annotated[
        str, typer.Option(metavar="SEP", help="Separates key and value in a line; without it records have no key.")
    ] = "",
    null_marker: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Write a value equal to TEXT as null; in a compacted topic that deletes the key."
        ),
    ] = None,
    compression: Compression = "none",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write the lines of standard input as records."""
    from penstock import Producer

    separator = key_separator.encode()
    marker = None if null_marker is None else os.fsencode(null_marker)
    acked, failures = 0, FailureReport()
    pending: deque[BulkFuture] = deque()
    with Producer(bootstrap, acks="all", compression_type=compression) as producer:
        try:
            producer.partitions_for(topic)  # fails for a missing topic even when the input has no line
            for lines in read_lines(sys.stdin.buffer):
                pending.append(_send(producer, topic, lines, separator, marker))
                failures.watch(pending[-1], len(lines))
                while len(pending) > CHUNKS_IN_FLIGHT_MAX or (pending and pending[0].done()):
                    acked += pending.popleft().result()
            while pending:
                acked += pending.popleft().result()
        except PenstockError as error:
            if failures.line_count == 0 and _has_written_nothing(error):
                error.add_note("nothing was written")
            else:
                error.add_note(f"{acked} records were acked; the records after them may or may not be written")
            raise
    if as_json:
        print_json({"topic": topic, "records": acked})
    elif sys.stderr.isatty():
        note(f"{acked} records acked")


class FailureReport:
    """Reports failed lines as they fail. The reading thread calls `watch`; the client's thread calls the rest."""

    def __init__(self) -> None:
        self.line_count = self._shown = 0

    def watch(self, future: BulkFuture, line_count: int) -> None:
        """`future` stands for the next `line_count` lines of the input."""
        first, last = self.line_count + 1, self.line_count + line_count
        self.line_count = last
        future.add_done_callback(lambda done: self._done(done, first, last))

    def _done(self, future: BulkFuture, first: int, last: int) -> None:
        error = future.exception(0)
        if error is None:
            return
        self._shown += 1
        if self._shown <= FAILURES_SHOWN_MAX:
            name = error.kafka_name if isinstance(error, ApiError) else type(error).__name__
            lines = f"line {first}" if first == last else f"some of the lines {first} to {last}"
            note(f"penstock: {lines} failed: {name}: {error}")
        elif self._shown == FAILURES_SHOWN_MAX + 1:
            note("penstock: more lines failed; only the first failures are shown")


def read_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The stream's lines without their ends, in large lists; the last line may lack its end."""
    rest: list[bytes] = []
    rest_bytes = 0
    read = getattr(stream, "read1", stream.read)  # read1 does not wait for a full chunk: a typed line is sent at once
    while chunk := read(CHUNK_BYTES):
        lines = chunk.split(b"\n")
        rest.append(lines[0])
        rest_bytes += len(lines[0])
        if rest_bytes > LINE_BYTES_MAX:
            raise ConfigError(f"standard input: a line is longer than {LINE_BYTES_MAX} bytes; give one record a line")
        if len(lines) > 1:
            lines[0] = b"".join(rest)
            rest = [lines.pop()]
            rest_bytes = len(rest[0])
            yield lines
    last = b"".join(rest)
    if last:
        yield [last]


def _has_written_nothing(error: PenstockError) -> bool:
    """Whether nothing was written, given that `error` ended the producer's first call."""
    return isinstance(error, BootstrapError) or (isinstance(error, ApiError) and error.nothing_written)


def _send(
    producer: Producer, topic: str, lines: list[bytes], separator: bytes, null_marker: bytes | None = None
) -> BulkFuture:
    if not separator:
        return producer.send_many(topic, _values(lines, null_marker))
    pairs = [line.partition(separator) for line in lines]
    for pair in pairs:
        if not pair[1]:
            line = pair[0][:60].decode("utf-8", "backslashreplace")
            raise ConfigError(f"line {line!r} has no key separator {separator.decode()!r}; add a key and the separator")
    values = _values([value for _, _, value in pairs], null_marker)
    return producer.send_many(topic, values, keys=[key for key, _, _ in pairs])


def _values(texts: list[bytes], null_marker: bytes | None) -> Sequence[bytes | None]:
    return texts if null_marker is None else [None if text == null_marker else text for text in texts]
