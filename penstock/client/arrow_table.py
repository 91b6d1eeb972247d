"""Fetched bytes as one Arrow table, decoded in bulk; the columns are those of Kafka's Spark source.

Imports pyarrow and numpy, and therefore is imported only by poll_arrow and Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.client.consumer_core import ConsumerCore
from penstock.errors import MissingDependencyError
from penstock.types import TopicPartition

try:
    import pyarrow as pa

    from penstock.record.arrow import ArrowColumns, to_arrow_columns
except ImportError as error:
    raise MissingDependencyError("poll_arrow needs pyarrow and numpy: pip install 'penstock[arrow]'") from error

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class ArrowOptions:
    """What a poll for a table is asked for."""

    max_records: int | None = None
    include_headers: bool = False

    @property
    def schema(self) -> Any:
        return SCHEMA.append(pa.field("headers", HEADER_TYPE)) if self.include_headers else SCHEMA


def take_table(core: ConsumerCore, options: ArrowOptions) -> Any:
    """What the buffer holds as a table, at most `fetch_max_bytes` of it; no rows when it is empty."""
    batches: list[Any] = []
    rows = size_bytes = 0
    while size_bytes < core.config.fetch_max_bytes and (options.max_records is None or rows < options.max_records):
        item = core.next_item(bool(batches))
        if item is None:
            break
        state = core.positions.states[item.topic_partition]
        columns = to_arrow_columns(
            item.records,
            from_offset=state.position,
            check_crc=core.config.check_crcs,
            include_headers=options.include_headers,
        )
        batch = record_batch(item.topic_partition, columns, options)
        left = len(columns) if options.max_records is None else options.max_records - rows
        if len(columns) > left:
            state.position = int(columns.offsets[left])
            core.leave(item)
            batch = batch.slice(0, left)
        else:
            state.position = item.next_offset
        if batch.num_rows:
            batches.append(batch)
            size_bytes += len(item.records)
            rows += batch.num_rows
    return pa.Table.from_batches(batches, options.schema)


def record_batch(tp: TopicPartition, columns: ArrowColumns, options: ArrowOptions) -> Any:
    """One partition's columns with its name and number beside them."""
    count = len(columns)
    arrays = [
        columns.keys,
        columns.values,
        pa.repeat(pa.scalar(tp.topic, pa.string()), count),
        pa.repeat(pa.scalar(tp.partition, pa.int32()), count),
        pa.array(columns.offsets, pa.int64()),
        pa.array(columns.timestamps_ms, pa.int64()).cast(pa.timestamp("ms", tz="UTC")),
        pa.array(columns.timestamp_types, pa.int32()),
    ]
    if options.include_headers:
        arrays.append(
            columns.headers.cast(HEADER_TYPE) if columns.headers is not None else pa.nulls(count, HEADER_TYPE)
        )
    return pa.RecordBatch.from_arrays(arrays, schema=options.schema)
