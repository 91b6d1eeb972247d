"""Decides what cleaning leaves of one transaction marker that no batch needs any more. Pure: bytes in, bytes out.

The first pass that finds it stamps it with a delete horizon: now + delete.retention.ms (KIP-534). A pass after the
horizon removes it, unless the index of aborted transactions still has an entry for it: that goes in this pass, and the
marker in the next. `cleaned_transactions.py` says why, and which markers are needed.
"""

from __future__ import annotations

from penstock.record.batch import BatchHeader
from penstock.record.rewrite import rewritten
from storage.cleaner.batch_filter import Filtered, TombstoneRule, rows_of_batch, tombstone_may_go


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
