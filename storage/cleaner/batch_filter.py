"""Decides what compaction leaves of one batch, or of one marker. Pure: bytes in, bytes out.

A record stays if it has a key and the offset map has no higher offset for that key. A *tombstone* (null value) stays at
first like any other record. The pass that finds one in a batch without a delete horizon stamps the batch with one: now
+ delete.retention.ms (KIP-534). A consumer that reads the log from its start within that time reads the tombstone. A
pass after the horizon removes it.

A tombstone T of key k at offset t may be removed, because no crash can then bring an older value of k back:

- Every filtered batch is below the end of the pass's map, and the map holds the latest offset of each key from the
  first dirty offset d on. If t >= d, the map has k at t or above, so every record of k below t is superseded. Segments
  are cleaned from the oldest on, and each group's swap is durable BEFORE the next group is begun: records of k below T
  are removed before T, or, in the same segment, with it.
- If t < d, an earlier pass had T in its map, and all its groups were durable BEFORE the checkpoint was d. No record of
  k below t can have come since, because appends are above. Hence a truncation lowers the checkpoint BEFORE any record
  is cut (`cleaner_checkpoint.py`); otherwise new records below d would never be in any map.
- A pass begins at the log's first segment, even if the log start is above it: a crash may lose the log start.
- A superseding record is flushed (below the recovery point) and committed (below the high watermark), so no crash and
  no clean election takes it back after the superseded ones are gone.

Each replica cleans for itself. A replica that was away for longer than delete.retention.ms may have missed a tombstone
that is gone by then, and keeps the deleted value, as in Kafka (`docs/data-directory.md`).

A transaction marker that no batch needs any more is stamped with a delete horizon by the first pass that finds it. A
pass after the horizon removes it, unless the index of aborted transactions still has an entry for it: that goes in this
pass, and the marker in the next. `cleaned_transactions.py` says why, and which markers are needed.

`segment_cleaning.py` decides which batches are filtered, and handles control batches and empty ones.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, batch_body
from penstock.record.rewrite import rewritten
from penstock.record.row_scan import Rows, scan_rows
from storage.cleaner.offset_map import OffsetMap

MAX_TIMESTAMP_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TombstoneRule:
    """The rule of one pass for tombstones: the pass's wall time, and delete.retention.ms."""

    now_ms: int
    delete_retention_ms: int

    @property
    def new_horizon_ms(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, MAX_TIMESTAMP_MS)


class Filtered(NamedTuple):
    """The result of filtering one batch."""

    records: bytes | None
    """The batch to write; None: its own bytes, unchanged; empty: no record stays."""
    kept_records: int
    removed_tombstones: int = 0
    """Tombstones past their horizon; superseded ones are not counted."""
    horizon_ms: int | None = None
    """The time after which the remaining tombstones may be removed; None without remaining tombstones."""


def tombstone_may_go(horizon_ms: int | None, now_ms: int) -> bool:
    """True if the tombstones of a batch with this delete horizon may be removed. The only place that decides it."""
    return horizon_ms is not None and now_ms > horizon_ms


def rows_of_batch(data: bytes, at: int, header: BatchHeader) -> tuple[bytes, Rows]:
    """The batch's records, decompressed, and where they are in that."""
    body, start, end = batch_body(data, at, header, DEFAULT_MAX_DECOMPRESSED_BYTES)
    return body, scan_rows(body, start, end, header.record_count, header.last_offset_delta)


def offsets_of_rows(header: BatchHeader, rows: Rows) -> range | list[int]:
    deltas, base = rows.offset_deltas, header.base_offset
    if isinstance(deltas, range):
        return range(base + deltas.start, base + deltas.stop)
    return [base + delta for delta in deltas]


def filter_batch(data: bytes, at: int, header: BatchHeader, offset_map: OffsetMap, rule: TombstoneRule) -> Filtered:
    """Filters the data batch at `data[at:]`, which has records."""
    body, rows = rows_of_batch(data, at, header)
    keep = offset_map.latest(rows.keys, offsets_of_rows(header, rows))
    tombstones = [row for row in rows.tombstones if keep[row]]
    removed = 0
    if tombstones and tombstone_may_go(header.delete_horizon_ms, rule.now_ms):
        for row in tombstones:
            keep[row] = False
        removed, tombstones = len(tombstones), []
    horizon_ms = None
    if tombstones:
        horizon_ms = rule.new_horizon_ms if header.delete_horizon_ms is None else header.delete_horizon_ms
    kept = keep.count(True)
    if kept == len(keep) and (horizon_ms is None or horizon_ms == header.delete_horizon_ms):
        return Filtered(None, kept, 0, horizon_ms)
    records = rewritten(header, body, rows, keep, horizon_ms) if kept else b""
    return Filtered(records, kept, removed, horizon_ms)


def filter_marker(data: bytes, at: int, header: BatchHeader, rule: TombstoneRule, *, is_indexed: bool) -> Filtered:
    """Filters the marker at `data[at:]`; with `is_indexed` it counts as changed, so that the index is written anew."""
    horizon_ms = header.delete_horizon_ms
    if not header.record_count:  # Kafka's cleaner has such batches; they tell nothing
        return Filtered(b"", 0)
    if horizon_ms is None:
        body, rows = rows_of_batch(data, at, header)
        stamped = rewritten(header, body, rows, [True] * header.record_count, rule.new_horizon_ms)
        return Filtered(stamped, header.record_count, 0, rule.new_horizon_ms)
    if is_indexed:
        return Filtered(data[at : at + header.size_bytes], header.record_count, 0, horizon_ms)
    if tombstone_may_go(horizon_ms, rule.now_ms):
        return Filtered(b"", 0)
    return Filtered(None, header.record_count, 0, horizon_ms)
