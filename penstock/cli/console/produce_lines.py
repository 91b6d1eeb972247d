"""Standard input of `penstock produce`: cut into lines, and each line made a record, plain or of JSON.

A line that cannot be sent ends the input: BadLineError names it by its number, and is raised AFTER all lines before it
were handed to the producer. Not here: waiting for acks (produce.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, BinaryIO, Protocol

from penstock.cli.console.record_format import ESCAPES
from penstock.cli.console.record_json import JsonRecord, parse_record
from penstock.errors import (
    ConfigError,
    InvalidRecordError,
    MessageTooLargeError,
    PenstockError,
    UnknownTopicOrPartitionError,
)
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock import Producer
    from penstock.client.producer.future import BulkFuture, RecordFuture

CHUNK_BYTES = 1024 * 1024
CHUNKS_IN_FLIGHT_MAX = 32
RECORDS_IN_FLIGHT_MAX = 50_000
LINE_BYTES_MAX = 128 * 1024 * 1024
"""A file with a longer line is no text; without this limit the line would be collected until memory ends."""
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\([ntr0\\])")

Sent = tuple["BulkFuture | RecordFuture", int]


class BadLineError(PenstockError):
    """A line that cannot be sent; `error` says why, and names its number."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(str(error))
        self.error = error


class InputShape(Protocol):
    """Makes records of lines."""

    @property
    def in_flight_max(self) -> int:
        """How many futures may wait for their ack."""

    def send(self, producer: Producer, topic: str, lines: list[bytes], first: int) -> Iterator[Sent]:
        """Queues the lines, of which the first has the number `first`; each future with the number of its lines."""


def read_lines(stream: BinaryIO, line_bytes_max: int = LINE_BYTES_MAX) -> Iterator[list[bytes]]:
    """The stream's lines without their ends, in large lists; the last line may lack its end."""
    rest: list[bytes] = []
    rest_bytes = line_count = 0
    while chunk := _read(stream):
        lines = chunk.split(b"\n")
        rest.append(lines[0])
        rest_bytes += len(lines[0])
        if rest_bytes > line_bytes_max:
            why = f"a line is longer than {line_bytes_max} bytes; give one record a line"
            raise BadLineError(ConfigError(f"line {line_count + 1} of standard input: {why}"))
        if len(lines) > 1:
            lines[0] = b"".join(rest)
            rest = [lines.pop()]
            rest_bytes = len(rest[0])
            line_count += len(lines)
            yield lines
    last = b"".join(rest)
    if last:
        yield [last]


def _read(stream: BinaryIO) -> bytes:
    """The next bytes of the stream, at most a chunk: `read1` does not wait for more, so a typed line goes at once."""
    try:
        return bytes(getattr(stream, "read1", stream.read)(CHUNK_BYTES))
    except OSError as error:
        raise PenstockError(f"standard input: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class LineShape:
    """Each line is a value, or a key and a value."""

    separator: bytes = b""
    null_marker: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None
    batch_bytes_max: int | None = None
    """The topic's limit: a record whose batch is larger is refused here, by the number of its line."""

    @property
    def has_no_key(self) -> bool:
        return self.key is None and not self.separator

    @property
    def in_flight_max(self) -> int:
        """Futures of chunks, or of records, which go one by one with headers."""
        return RECORDS_IN_FLIGHT_MAX if self.headers else CHUNKS_IN_FLIGHT_MAX

    def send(self, producer: Producer, topic: str, lines: list[bytes], first: int = 1) -> Iterator[Sent]:
        """Sends the good lines, as InputShape says."""
        bad = self._first_bad(lines)
        good = lines if bad is None else lines[: bad[0]]
        if good:
            yield from self._send(producer, topic, good)
        if bad is not None:
            index, error = bad
            error.args = (f"line {first + index}{error.args[0]}",)
            raise BadLineError(error)

    def _send(self, producer: Producer, topic: str, lines: list[bytes]) -> Iterator[Sent]:
        keys, values = self._columns(lines)
        if self.headers:
            for key, value in zip(keys or repeat(None), values, strict=False):
                yield producer.send(topic, value, key, self.headers, self.partition), 1
        else:
            yield producer.send_many(topic, values, keys, self.partition), len(lines)

    def _first_bad(self, lines: list[bytes]) -> tuple[int, PenstockError] | None:
        """The first line that can be no record, by its index: without a separator, or too long."""
        found: tuple[int, PenstockError] | None = None
        if self.separator:
            for index, line in enumerate(lines):
                if self.separator not in line:
                    text = line[:60].decode("utf-8", "backslashreplace")
                    separator = self.separator.decode("utf-8", "backslashreplace")
                    why = f" {text!r} has no key separator {separator!r}; add a key and the separator"
                    found = index, ConfigError(why)
                    break
        return found if self.batch_bytes_max is None else self._first_large(lines, self.batch_bytes_max, found)

    def _first_large(
        self, lines: list[bytes], limit: int, found: tuple[int, PenstockError] | None
    ) -> tuple[int, PenstockError] | None:
        """The first line whose record does not fit the topic, if that is before the one found."""
        from penstock.record.lone_batch import LONE_OVERHEAD_BYTES, lone_batch_bytes

        near = limit - lone_batch_bytes(None, self.key, self.headers) - LONE_OVERHEAD_BYTES
        if max(map(len, lines), default=0) <= near:
            return found
        for index, line in enumerate(lines if found is None else lines[: found[0]]):
            if len(line) > near:
                keys, values = self._columns([line])
                size = lone_batch_bytes(values[0], None if keys is None else keys[0], self.headers)
                if size > limit:
                    why = f": a batch with this record alone has {size} bytes, and max.message.bytes of the topic is"
                    return index, MessageTooLargeError(f"{why} {limit}")
        return found

    def _columns(self, lines: list[bytes]) -> tuple[list[bytes] | None, Sequence[bytes | None]]:
        """Keys (None: no record has one) and values."""
        if not self.separator:
            return None if self.key is None else [self.key] * len(lines), self._values(lines)
        pairs = [line.partition(self.separator) for line in lines]
        return [key for key, _, _ in pairs], self._values([value for _, _, value in pairs])

    def _values(self, texts: list[bytes]) -> Sequence[bytes | None]:
        marker = self.null_marker
        return texts if marker is None else [None if text == marker else text for text in texts]


class JsonShape:
    """Each line is a record as `penstock consume --json` prints it. Its partition is kept, unless `partition` is given
    or the key is to decide."""

    in_flight_max = RECORDS_IN_FLIGHT_MAX

    def __init__(self, partition: int | None = None, *, by_key: bool = False) -> None:
        self._partition = partition
        self._keeps = partition is None and not by_key
        self._topic: str | None = None

    def send(self, producer: Producer, topic: str, lines: list[bytes], first: int) -> Iterator[Sent]:
        """Sends the records of the lines, as InputShape says."""
        for number, line in enumerate(lines, first):
            try:
                record = parse_record(line)
                self._check_topic(record)
                partition = record.partition if self._keeps else self._partition
                headers = record.headers
                sent = producer.send(topic, record.value, record.key, headers, partition, record.timestamp_ms)
            except UnknownTopicOrPartitionError as error:
                error.args = (f"line {number}: {error}; `--by-key` leaves the partition to the key",)
                raise BadLineError(error) from None
            except MessageTooLargeError as error:
                error.args = (f"line {number}: {error}, from max.message.bytes of the topic",)
                raise BadLineError(error) from None
            except (ConfigError, InvalidRecordError) as error:
                error.args = (f"line {number}: {error}",)
                raise BadLineError(error) from None
            except (ValueError, TypeError) as error:  # the client's words for a value that it does not take
                raise BadLineError(ConfigError(f"line {number}: {error}")) from None
            yield sent, 1

    def _check_topic(self, record: JsonRecord) -> None:
        """Refuses records of a second topic: they would be mixed up in one."""
        if record.topic is not None and self._topic not in (None, record.topic):
            raise ConfigError(f"is a record of {record.topic!r}, and those before it are of {self._topic!r}; sort them")
        self._topic = self._topic or record.topic


def parse_header(text: str) -> tuple[str, bytes]:
    """NAME=VALUE; ConfigError for a text without '=' or without a name."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--header {text}: must be NAME=VALUE, like source=shop")
    return name, os.fsencode(value)


def parse_separator(text: str) -> bytes:
    r"""A separator with kcat's escapes: \t \n \r \0 \\ \xHH; any other backslash stands for itself."""
    raw = os.fsencode(text)
    return re.sub(_ESCAPE.pattern.encode(), _unescaped, raw)


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode()) if found[1] is not None else ESCAPES[found[2].decode()]
