"""Fetched bytes as one Arrow table, decoded in bulk; the columns are those of Kafka's Spark source.

Imports pyarrow and numpy, and therefore is imported only by `poll_arrow`, when it is called. Not here: decoding
(record/arrow.py), and what is taken next (reader.py).
"""

from __future__ import annotations

from typing import Any

from penstock.client.cluster.arguments import checked_number
from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.consumer.decode import PIECE_GROWTH_MAX, piece_bytes_max
from penstock.client.consumer.fetching.effects import Deliver
from penstock.errors import MissingDependencyError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition

try:
    import numpy as np
    import pyarrow as pa

    from penstock.record.arrow import HEADERS_TYPE, ArrowColumns, to_arrow_columns
    from penstock.record.arrow_buffers import fixed_width, repeated
except ImportError as error:
    raise MissingDependencyError("poll_arrow needs pyarrow and numpy: pip install 'penstock[arrow]'") from error

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

NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class ArrowOptions:
    """The arguments of a poll for a table."""

    max_records: int | None = None
    include_headers: bool = False

    @property
    def schema(self) -> Any:
        return SCHEMA.append(pa.field("headers", HEADERS_TYPE)) if self.include_headers else SCHEMA


def take_table(core: ConsumerCore, options: ArrowOptions) -> Any:
    """The buffer's records as a table, at most `fetch_max_bytes` of it, and PIECE_GROWTH_MAX times as many without
    compression; no rows when it is empty."""
    batches: list[Any] = []
    rows = size_bytes = 0
    rows_max = NO_LIMIT if options.max_records is None else checked_number("max_records", options.max_records, 0)
    with core.reader.turn():
        while size_bytes < core.config.fetch_max_bytes and rows < rows_max:
            piece = core.reader.next_piece()
            if piece is None:
                break
            batch = _take_batch(core, piece, options, rows_max - rows)
            if batch.num_rows:
                batches.append(batch)
                size_bytes += max(len(piece.records), batch.nbytes // PIECE_GROWTH_MAX)
                rows += batch.num_rows
        table = pa.Table.from_batches(batches, options.schema)
    if not rows:
        core.reader.raise_new()
    core.look()
    core.count(rows)
    return table


def _take_batch(core: ConsumerCore, piece: Deliver, options: ArrowOptions, count: int) -> Any:
    """The piece as one batch of at most `count` rows."""

    def decoder(records: bytes, from_offset: int) -> ArrowColumns:
        return to_arrow_columns(
            records,
            from_offset=from_offset,
            check_crc=core.config.check_crcs,
            include_headers=options.include_headers,
            max_unpacked_bytes=piece_bytes_max(records),
        )

    columns, piece = core.reader.decode(piece, decoder)
    batch = record_batch(piece.topic_partition, columns, options)
    if len(columns) <= count:
        core.reader.give(piece)
        return batch
    core.reader.give_part(piece, int(columns.offsets[count]))
    return batch.slice(0, count)


def record_batch(tp: TopicPartition, columns: ArrowColumns, options: ArrowOptions) -> Any:
    """One partition's columns with its name and number beside them."""
    count = len(columns)
    arrays = [
        columns.keys,
        columns.values,
        repeated(tp.topic, count),
        fixed_width(np.full(count, tp.partition, np.int32), pa.int32()),
        fixed_width(columns.offsets, pa.int64()),
        fixed_width(columns.timestamps_ms, pa.timestamp("ms", tz="UTC")),
        fixed_width(columns.timestamp_types, pa.int32()),
    ]
    if options.include_headers:
        arrays.append(columns.headers)
    return pa.RecordBatch.from_arrays(arrays, schema=options.schema)
