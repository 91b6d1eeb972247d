"""Turns a range of a partition into Arrow record batches in exactly the schema that Spark expects.

Raw batches are collected up to a good size for one decode and one transfer to the JVM (per-batch costs dominate below
8,000 rows), decoded by penstock.record.arrow, and given their constant columns. Spark compares the schema of the first
batch with its own: names, order, types and time zone. It does not check later batches, and crashes on a difference
(SPARK-55583). So the schema is Spark's own translation, and every column is built in it. Runs in executors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.client.consumer.decode import decode_good, piece_bytes_max
from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.errors import (
    LogTruncationError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicOrPartitionError,
)
from penstock.lazy_dataclass import dataclass
from penstock.record.arrow import ArrowColumns, to_arrow_columns
from penstock.record.batch import iter_headers
from penstock.spark.log_client import LogClient
from penstock.spark.planning import PlannedRange, report_loss

_log = logging.getLogger(__name__)

GATHER_BYTES = 1024 * 1024
"""Fetched pieces are joined up to this size before they are decoded."""
ROWS_MAX = 65_536
"""Rows in one Arrow batch at most."""
TIMESTAMP_MAX_MS = (2**63 - 1) // 1000
"""Spark counts microseconds in 64 bits; times beyond are cut to the last that fits."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How a range is read; picklable. The batches that begin at `skipped` offsets are passed over if they are bad."""

    schema: StructType
    fail_on_data_loss: bool = True
    check_crcs: bool = True
    skipped: frozenset[int] = frozenset()

    @property
    def wants_headers(self) -> bool:
        return "headers" in self.schema.fieldNames()


def read_range(client: LogClient, span: PlannedRange, settings: ReadSettings) -> Iterator[Any]:
    """Every record of the range once, in order, as pyarrow.RecordBatch."""
    shape = BatchShape(span, to_arrow_schema(settings.schema, timezone="UTC"))
    for buffer in gather(_fetch(client, span, settings)):
        for columns in _decode(buffer, span, settings):
            yield from shape.record_batches(columns)


def _decode(buffer: RawBuffer, span: PlannedRange, settings: ReadSettings) -> Iterator[ArrowColumns]:
    """All records of the buffer. A batch that cannot be decoded is an error, after the good records before it."""

    def decoder(records: bytes, from_offset: int) -> ArrowColumns:
        return to_arrow_columns(
            records,
            from_offset=from_offset,
            to_offset=span.hi,
            check_crc=settings.check_crcs,
            include_headers=settings.wants_headers,
            max_unpacked_bytes=piece_bytes_max(records),
        )

    while buffer.records:
        columns, next_offset, size_bytes, bad = decode_good(*buffer, decoder)
        yield columns
        if bad is not None:
            _pass_over(span, settings, (bad.offset, bad.next_offset), bad.why)
            next_offset, size_bytes = bad.next_offset, size_bytes + bad.size_bytes
        buffer = RawBuffer(buffer.records[size_bytes:], next_offset, buffer.next_offset)


def _pass_over(span: PlannedRange, settings: ReadSettings, bounds: tuple[int, int], why: str) -> None:
    """Logs a bad batch that the user has named; any other is an error."""
    tp, (offset, next_offset) = span.topic_partition, bounds
    if offset not in settings.skipped:
        remedy = f'name it in the option skipUndecodable={{"{tp.topic}": {{"{tp.partition}": [{offset}]}}}}'
        raise UndecodableBatchError(tp, bounds, why, remedy)
    _log.warning("%s: offsets [%d, %d) are skipped (skipUndecodable): %s", tp, offset, next_offset, why)


def _fetch(client: LogClient, span: PlannedRange, settings: ReadSettings) -> Iterator[RawBuffer]:
    """The range's raw batches; records that are gone meanwhile are left out if the user allows it."""
    while span.size:
        try:
            for buffer in client.fetch(span):
                yield buffer
                span = replace(span, lo=min(buffer.next_offset, span.hi))
            return
        except OffsetOutOfRangeError as error:
            if error.log_start_offset <= span.lo:
                raise
            gone = f"[{span.lo}, {min(error.log_start_offset, span.hi)})"
            what = f"{span.topic_partition}: offsets {gone} were deleted while they were read"
            report_loss(what, settings.fail_on_data_loss)
            span = replace(span, lo=min(error.log_start_offset, span.hi))
        except LogTruncationError as error:
            report_loss(f"{span}: {error}", settings.fail_on_data_loss)
            return
        except (TopicRecreatedError, UnknownTopicOrPartitionError) as error:
            report_loss(f"{span}: the topic was deleted while it was read: {error}", settings.fail_on_data_loss)
            return
        except UndecodableBatchError as error:
            _pass_over(span, settings, (error.offset, error.next_offset), error.why)
            span = replace(span, lo=min(error.next_offset, span.hi))


def gather(pieces: Iterator[RawBuffer], wanted_bytes: int = GATHER_BYTES) -> Iterator[RawBuffer]:
    """Joins small pieces; a large one passes uncopied. A piece that begins below its start offset (the cleaner has
    stretched its first batch meanwhile) is never joined to what is before it: it would bring records twice."""
    waiting: list[RawBuffer] = []
    size = 0
    for piece in pieces:
        if waiting and (
            piece.from_offset != waiting[-1].next_offset or _first_offset(piece.records) < piece.from_offset
        ):
            yield _joined(waiting)
            waiting, size = [], 0
        waiting.append(piece)
        size += len(piece.records)
        if size >= wanted_bytes:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _first_offset(records: bytes) -> int:
    return next((header.base_offset for _, header in iter_headers(records)), 0)


def _joined(pieces: list[RawBuffer]) -> RawBuffer:
    if len(pieces) == 1:
        return pieces[0]
    return RawBuffer(b"".join(p.records for p in pieces), pieces[0].from_offset, pieces[-1].next_offset)


@dataclass(slots=True)
class BatchShape:
    """Puts decoded columns into Spark's schema; keeps the columns that are the same for all rows."""

    span: PlannedRange
    schema: Any
    _constants: dict[str, Any] = field(default_factory=dict)

    def record_batches(self, columns: ArrowColumns) -> Iterator[Any]:
        """The batches of at most ROWS_MAX rows each; nothing for no rows."""
        count = len(columns)
        if not count:
            return
        arrays = [self._column(name, columns, count) for name in self.schema.names]
        if not arrays:
            raise ValueError("a read needs at least one column")
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for at in range(0, count, ROWS_MAX):
            yield batch.slice(at, ROWS_MAX) if count > ROWS_MAX else batch

    def _column(self, name: str, columns: ArrowColumns, count: int) -> Any:
        match name:
            case "key":
                array = columns.keys
            case "value":
                array = columns.values
            case "topic":
                array = self._constant(name, count, pa.string(), self.span.topic)
            case "partition":
                array = self._constant(name, count, pa.int32(), self.span.partition)
            case "offset":
                array = pa.array(columns.offsets)
            case "timestamp":
                array = timestamps_us(columns.timestamps_ms)
            case "timestampType":
                array = pa.array(columns.timestamp_types)
            case _:
                array = columns.headers
        wanted = self.schema.field(name).type
        return array if array.type == wanted else array.cast(wanted)

    def _constant(self, name: str, count: int, kind: Any, value: Any) -> Any:
        known = self._constants.get(name)
        if known is None or len(known) < count:
            known = self._constants[name] = pa.repeat(pa.scalar(value, kind), count)
        return known.slice(0, count)


def timestamps_us(timestamps_ms: Any) -> Any:
    """Spark's timestamp column from milliseconds."""
    micros = np.clip(timestamps_ms, -TIMESTAMP_MAX_MS, TIMESTAMP_MAX_MS) * 1000
    return pa.array(micros).view(pa.timestamp("us", tz="UTC"))
