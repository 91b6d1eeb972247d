"""Turns a range of a partition into Arrow record batches in exactly the schema that Spark expects.

Raw batches are gathered up to a good size for one decode and one trip to the JVM (per-batch costs dominate below 8,000
rows), decoded by penstock.record.arrow, and given their constant columns. Spark compares the schema of the first batch
with its own, names, order, types and time zone included, and crashes later on anything that it did not check
(SPARK-55583); so the schema is Spark's own translation, and every column is built in it. Runs in executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import OffsetOutOfRangeError
from penstock.record.arrow import ArrowColumns, to_arrow_columns
from penstock.spark.log_client import LogClient
from penstock.spark.planning import OffsetRange, report_loss

GATHER_BYTES = 1024 * 1024
"""Fetched pieces are joined up to this size before they are decoded."""
ROWS_MAX = 65_536
"""Rows in one Arrow batch at most."""
TIMESTAMP_MAX_MS = (2**63 - 1) // 1000
"""Spark counts microseconds in 64 bits; times beyond are cut to the last that fits."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How a range is read; picklable."""

    schema: StructType
    fail_on_data_loss: bool = True
    check_crcs: bool = True

    @property
    def wants_headers(self) -> bool:
        return "headers" in self.schema.fieldNames()


def read_range(client: LogClient, span: OffsetRange, settings: ReadSettings) -> Iterator[Any]:
    """Every record of the range once, in order, as pyarrow.RecordBatch."""
    shape = BatchShape(span, to_arrow_schema(settings.schema, timezone="UTC"))
    for data in gather(_fetch(client, span, settings.fail_on_data_loss)):
        columns = to_arrow_columns(
            data,
            from_offset=span.lo,
            to_offset=span.hi,
            check_crc=settings.check_crcs,
            include_headers=settings.wants_headers,
        )
        yield from shape.record_batches(columns)


def _fetch(client: LogClient, span: OffsetRange, fail_on_data_loss: bool) -> Iterator[bytes]:
    """The range's raw batches; if retention has passed `lo` meanwhile, from the log start, where the user allows it."""
    while span.size:
        try:
            yield from client.fetch(span.topic_partition, span.lo, span.hi)
            return
        except OffsetOutOfRangeError as error:
            if error.log_start_offset <= span.lo:
                raise
            gone = f"[{span.lo}, {min(error.log_start_offset, span.hi)})"
            report_loss(f"{span.topic_partition}: offsets {gone} were deleted while they were read", fail_on_data_loss)
            span = replace(span, lo=min(error.log_start_offset, span.hi))


def gather(pieces: Iterator[bytes], wanted_bytes: int = GATHER_BYTES) -> Iterator[bytes]:
    """Joins small pieces; a large one passes uncopied."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= wanted_bytes:
            yield waiting[0] if len(waiting) == 1 else b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


@dataclass(slots=True)
class BatchShape:
    """Puts decoded columns into Spark's schema; keeps the columns that are the same for all rows."""

    span: OffsetRange
    schema: Any
    _constants: dict[str, Any] = field(default_factory=dict)

    def record_batches(self, columns: ArrowColumns) -> Iterator[Any]:
        """At most ROWS_MAX rows each; nothing for no rows."""
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
