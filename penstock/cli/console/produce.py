"""`penstock produce TOPIC < lines`: every line a record, exit 0 only when every line is acked as --acks asks.

Standard input is read in bulk and sent in bulk; a typed line is sent at once. The number of chunks that wait for their
ack is bounded, so a file larger than memory is no problem. A failed chunk is reported on stderr at once, because a user
who types lines may not end the input for hours. The command ends when the next line is read. After Ctrl-C no more is
read, and what was sent is waited for, as the producer closes; a second Ctrl-C ends that.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.console.produce_lines import (
    BadLineError,
    InputShape,
    JsonShape,
    LineShape,
    parse_header,
    parse_separator,
    read_lines,
)
from penstock.cli.options import DEFAULT_BOOTSTRAP, Acks, Bootstrap, Compression, complete_topic
from penstock.cli.output import note, print_json
from penstock.cli.patience.waits import ProduceWait
from penstock.cli.patience.watch import patience, patient_admin
from penstock.errors import (
    ApiError,
    AuthorizationFailedError,
    BootstrapError,
    ConfigError,
    InvalidRecordError,
    PenstockError,
)
from penstock.written.numbers import INT32_MAX

if TYPE_CHECKING:
    from penstock import Producer
    from penstock.client.producer.future import BulkFuture, RecordFuture
    from penstock.client.producer.producer_statistics import ProducerStatistics

DEFAULT_LIMIT = 1_048_588
RECORD_BYTES_MAX = 64 * 1024 * 1024
"""The largest max_request_size of a producer."""
BUFFER_BYTES = 64 * 1024 * 1024
FAILURES_SHOWN_MAX = 10
"""The most failures shown in one run. All chunks in flight fail together, and the command ends with the first error."""

REFUSAL_SHOWN_S = 0.5
"""The time after a refusal at which open input counts as typed by hand, or as coming from a program that runs on."""

KeySeparator = Annotated[
    str,
    typer.Option(
        metavar="SEP",
        help="Separates key and value in a line; \\t, \\xHH. Without it records have no key.",
    ),
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


Lines = Annotated[bool, typer.Option("--lines", help="With --json: the input is plain lines, the result JSON.")]
ByKey = Annotated[
    bool, typer.Option("--by-key", help="With --json: the key decides the partition, not the one that a record had.")
]
InJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Each line is a record as `penstock consume --json` prints it, with key, headers, time and partition. The"
        " result and errors are JSON, too.",
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
    as_json: InJson = False,
    lines: Lines = False,
    by_key: ByKey = False,
) -> None:
    """Write the lines of standard input as records.

    A line that cannot be a record ends the input: what came before it is written, and the error has its number.
    """
    if key is not None and key_separator:
        raise ConfigError("--key and --key-separator: both give the key; keep one")
    shape: InputShape = LineShape(
        parse_separator(key_separator),
        None if null_marker is None else os.fsencode(null_marker),
        None if key is None else os.fsencode(key),
        tuple(map(parse_header, header or ())),
        partition,
    )
    if as_json and not lines:
        if shape != LineShape(partition=partition):
            raise ConfigError("--json: each record says its key, value and headers; leave the options for them out")
        shape = JsonShape(partition, by_key=by_key)
    elif by_key:
        raise ConfigError("--by-key is for records that name their partition: it needs --json")
    topic_limit = _record_limit(bootstrap, topic)
    limit = topic_limit or RECORD_BYTES_MAX
    if isinstance(shape, LineShape):
        shape = replace(shape, batch_bytes_max=topic_limit)
    sizes = {"max_request_size": limit, "buffer_memory": max(BUFFER_BYTES, 2 * limit)}
    acked = _write(bootstrap, topic, shape, {"acks": acks, "compression_type": compression, **sizes})
    if as_json:
        print_json({"topic": topic, "records": acked})
    elif sys.stderr.isatty():
        note(f"{acked:,} records {'sent; with acks=0 nobody acks them' if acks == '0' else 'acked'}")


def _record_limit(bootstrap: str, topic: str) -> int | None:
    """The topic's max.message.bytes, as far as the producer can send; Kafka's default where the topic does not tell.
    None for a user who may not describe the topic's configuration: the broker refuses what is too large."""
    try:
        with patient_admin(bootstrap) as admin:
            value = admin.describe_topic_config(topic)["max.message.bytes"].value
            return max(1, min(int(value), RECORD_BYTES_MAX))
    except BootstrapError as error:
        error.add_note("nothing was written")
        raise
    except AuthorizationFailedError:
        return None
    except (PenstockError, KeyError, ValueError):  # such as a topic that is not there: the producer waits for it
        return DEFAULT_LIMIT


def _write(bootstrap: str, topic: str, shape: InputShape, options: dict[str, Any]) -> int:
    """Sends standard input; how many records were acked."""
    from penstock import Producer
    from penstock.client.producer.stalled import stalls_not_logged

    failures = FailureReport()
    flow = Flow(shape, failures)
    with Producer(bootstrap, **options) as producer:
        wait = ProduceWait(producer, topic, bootstrap)
        try:
            with patience(wait.progress, wait.reason), stalls_not_logged():
                producer.partitions_for(topic)  # fails for a missing topic even when the input has no line
                wait.is_topic_known = True
                flow.run(producer, topic)
        except BadLineError as bad:
            bad.error.add_note(f"{flow.acked} records were acked, of all lines before it")
            raise bad.error from None
        except PenstockError as error:
            failures.end()
            if failures.line_count == 0 and _has_written_nothing(error):
                error.add_note("nothing was written")
            elif isinstance(error, AuthorizationFailedError):
                error.add_note(f"{flow.acked} records were acked")
            else:
                error.add_note(f"{flow.acked} records were acked; the records after them may or may not be written")
            if isinstance(shape, LineShape) and shape.has_no_key and isinstance(error, InvalidRecordError):
                error.add_note("a compacted topic needs a key in every record: give --key-separator SEP or --key TEXT")
            if error is failures.shown:
                error.args = ("not every line was written, as said above",)
            raise
        except KeyboardInterrupt:
            note_unacked(failures.line_count, producer.statistics())
            raise  # AFTER the words: the producer closes, which waits
        finally:
            failures.end()
    return flow.acked


class Flow:
    """Standard input on its way: what waits for its ack is bounded."""

    def __init__(self, shape: InputShape, failures: FailureReport) -> None:
        self._shape = shape
        self._failures = failures
        self._pending: deque[BulkFuture | RecordFuture] = deque()
        self.acked = 0

    def run(self, producer: Producer, topic: str) -> None:
        """Sends records to the end of the input. BadLineError for a line that cannot be sent, AFTER those before it are
        acked."""
        pending, shape, failures = self._pending, self._shape, self._failures
        try:
            for lines in read_lines(sys.stdin.buffer):
                for future, line_count in shape.send(producer, topic, lines, failures.line_count + 1):
                    pending.append(future)
                    failures.watch(future, line_count)
                    while len(pending) > shape.in_flight_max or (pending and pending[0].done()):
                        self.acked += _acked(pending.popleft())
        except BadLineError:
            self._drain()
            raise
        self._drain()

    def _drain(self) -> None:
        while self._pending:
            self.acked += _acked(self._pending.popleft())


def note_unacked(sent: int, counts: ProducerStatistics) -> None:
    """Say what the command waits for after Ctrl-C; nothing if every record that was sent is acked or has failed."""
    left = sent - counts.records_acked - counts.records_failed
    if left > 0:
        note(f"penstock: waiting for {left:,} record{'s' if left > 1 else ''} to be acked; Ctrl-C again to give up")


class FailureReport:
    """Reports failed lines as they fail. The reading thread calls `watch`; the client's thread calls the rest."""

    def __init__(self) -> None:
        self.line_count = self._shown = 0
        self.shown: PenstockError | None = None  # the first failure, once it was reported
        self._refusal: threading.Timer | None = None

    def watch(self, future: BulkFuture | RecordFuture, line_count: int) -> None:
        """`future` stands for the next `line_count` lines of the input."""
        first, last = self.line_count + 1, self.line_count + line_count
        self.line_count = last
        future.add_done_callback(lambda done: self._done(done, first, last))

    def _done(self, future: BulkFuture | RecordFuture, first: int, last: int) -> None:
        error = future.exception(0)
        if error is None:
            return
        if isinstance(error, AuthorizationFailedError):
            self._show_refusal_later(error)
            return
        self._shown += 1
        if self._shown <= FAILURES_SHOWN_MAX:
            name = error.kafka_name if isinstance(error, ApiError) else type(error).__name__
            lines = f"line {first}" if first == last else f"some of the lines {first} to {last}"
            note(f"penstock: {lines} failed: {name}: {error}")
            self.shown = self.shown or error
        elif self._shown == FAILURES_SHOWN_MAX + 1:
            note("penstock: more lines failed; only the first failures are shown")

    def _show_refusal_later(self, error: PenstockError) -> None:
        """A refusal is of every line, and ends the command: it is told here only where the input stays open."""
        if self._refusal is None:
            self._refusal = threading.Timer(REFUSAL_SHOWN_S, self._show_refusal, (error,))
            self._refusal.daemon = True
            self._refusal.start()

    def _show_refusal(self, error: PenstockError) -> None:
        self.shown = error
        note(f"penstock: {error.kafka_name if isinstance(error, ApiError) else type(error).__name__}: {error}")

    def end(self) -> None:
        """The command ends, and tells its error itself."""
        if self._refusal is not None:
            self._refusal.cancel()


def _has_written_nothing(error: PenstockError) -> bool:
    """True if nothing was written, given that `error` ended the producer's first call."""
    return isinstance(error, BootstrapError) or (isinstance(error, ApiError) and error.nothing_written)


def _acked(future: BulkFuture | RecordFuture) -> int:
    """How many records the future has seen acked; raises what went wrong."""
    result = future.result()
    return result if isinstance(result, int) else 1
