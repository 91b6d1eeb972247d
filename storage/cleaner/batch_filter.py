"""Decides what compaction leaves of one batch. Pure: bytes in, bytes out.

A record stays if it has a key and the offset map knows of none with the same key above it. A *tombstone* (null value)
stays at first like any other record, and the pass that finds one in a batch without a delete horizon stamps the batch
with one: now + delete.retention.ms (KIP-534). A consumer that reads the log from its start within that time hears of
the deletion. A pass after the horizon takes the tombstone out.

Why a tombstone T of key k at offset t may go without an older value of k coming back, whatever crash comes between:

- Every batch that is filtered is below the end of the pass's map, and the map holds the latest offset of each key from
  the first dirty offset d on. If t >= d, the map has k at t or above, so every record of k below t is superseded.
  Segments are cleaned from the oldest on, each group's swap durable BEFORE the next group is begun: what is below T is
  gone before T, or, in the same segment, with it.
- If t < d, an earlier pass had T in its map, and all its groups were durable BEFORE the checkpoint said d. No record of
  k below t can have come since: appends are above. Hence a truncation lowers the checkpoint BEFORE any record goes
  (`cleaner_checkpoint.py`), else new records below d would never be in any map.
- A pass begins at the first segment there is, also where the log's start is above it: the start may be lost in a crash.
- What supersedes is flushed (below the recovery point) and committed (below the high watermark), so no crash and no
  clean election takes it back after what it supersedes is gone.

Each replica cleans for itself. One that was away for longer than delete.retention.ms may have missed a tombstone that
is gone by then, and keeps what it deleted, as in Kafka (`docs/data-directory.md`).

Not here: which batches are filtered, control batches, empty ones (`cleaner.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.record.batch import BatchHeader
from penstock.record.reader import DEFAULT_MAX_DECOMPRESSED_BYTES, batch_body
from penstock.record.rewrite import rewritten
from penstock.record.row_scan import Rows, scan_rows
from storage.cleaner.offset_map import OffsetMap

MAX_TIMESTAMP_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TombstoneRule:
    """What a pass does with tombstones: its own time, which is wall time, and delete.retention.ms."""

    now_ms: int
    delete_retention_ms: int

    @property
    def new_horizon_ms(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, MAX_TIMESTAMP_MS)


class Filtered(NamedTuple):
    """What is left of a batch."""

    records: bytes | None
    """The batch as it is to be written; None: its own bytes, unchanged; empty: no record stays."""
    kept_records: int
    removed_tombstones: int = 0
    """Those whose time had come; superseded ones are not counted."""
    horizon_ms: int | None = None
    """From when on the tombstones that stay may go; None without any."""


def tombstone_may_go(horizon_ms: int | None, now_ms: int) -> bool:
    """Whether the tombstones of a batch with this delete horizon may be taken out. The one place that says so."""
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
    """What stays of the data batch at `data[at:]`, which has records."""
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
