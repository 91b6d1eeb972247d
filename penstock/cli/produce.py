"""`penstock produce TOPIC < lines`: every line a record, exit 0 only when every line is acked as --acks asks.

Standard input is read in bulk and sent in bulk; a typed line is sent at once. The number of chunks that wait for their
ack is bounded, so a file larger than memory is no problem. A failed chunk is reported on stderr at once, because a user
who types lines may not end the input for hours. The command ends when the next line is read. After Ctrl-C no more is
read, and what was sent is waited for, as the producer closes; a second Ctrl-C ends that.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from penstock.cli.edge.numbers import INT32_MAX
from penstock.cli.options import DEFAULT_BOOTSTRAP, Acks, AsJson, Bootstrap, Compression, complete_topic
from penstock.cli.output import note, print_json
from penstock.cli.patience.waits import ProduceWait
from penstock.cli.patience.watch import patience
from penstock.errors import ApiError, BootstrapError, ConfigError, InvalidRecordError, PenstockError

if TYPE_CHECKING:
    from penstock import Producer
    from penstock.client.producer.future import BulkFuture, RecordFuture
    from penstock.client.producer.sender import ProducerStatistics

CHUNK_BYTES = 1024 * 1024
CHUNKS_IN_FLIGHT_MAX = 32
RECORDS_IN_FLIGHT_MAX = 50_000
FAILURES_SHOWN_MAX = 10
"""In one run. All chunks in flight fail together, and the command ends with the first error."""
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A file with a longer line is no text; without this limit the line would be collected until memory ends."""


KeySeparator = Annotated[
    str, typer.Option(metavar="SEP", help="Separates key and value in a line; without it records have no key.")
]
Key = Annotated[str | None, typer.Option("-k", "--key", metavar="TEXT", help="The key of every record.")]
Header = Annotated[
    list[str] | None,
    typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of every record; may be repeated."),
]
Partition = Annotated[
    int | None,
    typer.Option(
        "-p",
        "--partition",
        metavar="N",
        min=0,
        max=INT32_MAX,
        help="Write to this partition; otherwise the key decides.",
    ),
]
NullMarker = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Write a value equal to TEXT as null; in a compacted topic that deletes the key."
    ),
]


def produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic to write to.", autocompletion=complete_topic)
    ],
    key_separator: KeySeparator = "",
    key: Key = None,
    header: Header = None,
    partition: Partition = None,
    null_marker: NullMarker = None,
    acks: Acks = "all",
    compression: Compression = "none",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Write the lines of standard input as records."""
    if key is not None and key_separator:
        raise ConfigError("--key and --key-separator: both give the key; keep one")
    shape = LineShape(
        os.fsencode(key_separator),
        None if null_marker is None else os.fsencode(null_marker),
        None if key is None else os.fsencode(key),
        tuple(map(parse_header, header or ())),
        partition,
    )
    from penstock import Producer
    from penstock.client.producer.stalled import stalls_not_logged

    acked, failures = 0, FailureReport()
    pending: deque[BulkFuture | RecordFuture] = deque()
    with Producer(bootstrap, acks=acks, compression_type=compression) as producer:
        wait = ProduceWait(producer, topic, bootstrap)
        try:
            with patience(wait.standing, wait.reason), stalls_not_logged():
                producer.partitions_for(topic)  # fails for a missing topic even when the input has no line
                wait.is_topic_known = True
                for lines in read_lines(sys.stdin.buffer):
                    for future, line_count in shape.send(producer, topic, lines):
                        pending.append(future)
                        failures.watch(future, line_count)
                        while len(pending) > shape.in_flight_max or (pending and pending[0].done()):
                            acked += _acked(pending.popleft())
                while pending:
                    acked += _acked(pending.popleft())
        except PenstockError as error:
            if failures.line_count == 0 and _has_written_nothing(error):
                error.add_note("nothing was written")
            else:
                error.add_note(f"{acked} records were acked; the records after them may or may not be written")
            if shape.has_no_key and isinstance(error, InvalidRecordError):
                error.add_note("a compacted topic needs a key in every record: give --key-separator SEP or --key TEXT")
            if error is failures.told:
                error.args = ("not every line was written, as said above",)
            raise
        except KeyboardInterrupt:
            note_unacked(failures.line_count, producer.statistics())
            raise  # AFTER the words: the producer closes, which waits
    if as_json:
        print_json({"topic": topic, "records": acked})
    elif sys.stderr.isatty():
        note(f"{acked:,} records {'sent; with acks=0 nobody acks them' if acks == '0' else 'acked'}")


def note_unacked(sent: int, counts: ProducerStatistics) -> None:
    """Say what the command waits for after Ctrl-C; nothing if every record that was sent is acked or has failed."""
    left = sent - counts.records_acked - counts.records_failed
    if left > 0:
        note(f"penstock: waiting for {left:,} record{'s' if left > 1 else ''} to be acked; Ctrl-C again to give up")


class FailureReport:
    """Reports failed lines as they fail. The reading thread calls `watch`; the client's thread calls the rest."""

    def __init__(self) -> None:
        self.line_count = self._shown = 0
        self.told: PenstockError | None = None  # the first failure, once it was reported

    def watch(self, future: BulkFuture | RecordFuture, line_count: int) -> None:
        """`future` stands for the next `line_count` lines of the input."""
        first, last = self.line_count + 1, self.line_count + line_count
        self.line_count = last
        future.add_done_callback(lambda done: self._done(done, first, last))

    def _done(self, future: BulkFuture | RecordFuture, first: int, last: int) -> None:
        error = future.exception(0)
        if error is None:
            return
        self._shown += 1
        if self._shown <= FAILURES_SHOWN_MAX:
            name = error.kafka_name if isinstance(error, ApiError) else type(error).__name__
            lines = f"line {first}" if first == last else f"some of the lines {first} to {last}"
            note(f"penstock: {lines} failed: {name}: {error}")
            self.told = self.told or error
        elif self._shown == FAILURES_SHOWN_MAX + 1:
            note("penstock: more lines failed; only the first failures are shown")


def read_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The stream's lines without their ends, in large lists; the last line may lack its end."""
    rest: list[bytes] = []
    rest_bytes = 0
    while chunk := _read(stream):
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


def _read(stream: BinaryIO) -> bytes:
    """What is there of the stream, at most a chunk: `read1` does not wait for more, so a typed line is sent at once."""
    try:
        return bytes(getattr(stream, "read1", stream.read)(CHUNK_BYTES))
    except OSError as error:
        raise PenstockError(f"standard input: {error.strerror or error}") from None


def _has_written_nothing(error: PenstockError) -> bool:
    """Whether nothing was written, given that `error` ended the producer's first call."""
    return isinstance(error, BootstrapError) or (isinstance(error, ApiError) and error.nothing_written)


@dataclass(frozen=True, slots=True)
class LineShape:
    """What a line becomes."""

    separator: bytes = b""
    null_marker: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None

    @property
    def has_no_key(self) -> bool:
        return self.key is None and not self.separator

    @property
    def in_flight_max(self) -> int:
        """How many futures may wait for their ack: of chunks, or of records, which go one by one with headers."""
        return RECORDS_IN_FLIGHT_MAX if self.headers else CHUNKS_IN_FLIGHT_MAX

    def send(
        self, producer: Producer, topic: str, lines: list[bytes]
    ) -> Iterator[tuple[BulkFuture | RecordFuture, int]]:
        """Queues the lines; each future with the number of lines for which it stands."""
        keys, values = self._columns(lines)
        if self.headers:
            for key, value in zip(keys or repeat(None), values, strict=False):
                yield producer.send(topic, value, key, self.headers, self.partition), 1
        else:
            yield producer.send_many(topic, values, keys, self.partition), len(lines)

    def _columns(self, lines: list[bytes]) -> tuple[list[bytes] | None, Sequence[bytes | None]]:
        """Keys (None: no record has one) and values."""
        if not self.separator:
            return None if self.key is None else [self.key] * len(lines), self._values(lines)
        pairs = [line.partition(self.separator) for line in lines]
        for pair in pairs:
            if not pair[1]:
                line = pair[0][:60].decode("utf-8", "backslashreplace")
                separator = self.separator.decode("utf-8", "backslashreplace")
                raise ConfigError(f"line {line!r} has no key separator {separator!r}; add a key and the separator")
        return [key for key, _, _ in pairs], self._values([value for _, _, value in pairs])

    def _values(self, texts: list[bytes]) -> Sequence[bytes | None]:
        marker = self.null_marker
        return texts if marker is None else [None if text == marker else text for text in texts]


def parse_header(text: str) -> tuple[str, bytes]:
    """NAME=VALUE; ConfigError for a text without '=' or without a name."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--header {text}: must be NAME=VALUE, like source=shop")
    return name, os.fsencode(value)


def _acked(future: BulkFuture | RecordFuture) -> int:
    """How many records the future has seen acked; raises what went wrong."""
    result = future.result()
    return result if isinstance(result, int) else 1
