"""The counts of a processor. Not here: their names in Prometheus (processing_metrics.py)."""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ProcessingStatistics:
    """Counts since the beginning. `records` are those of committed transactions, `outputs` what they have written,
    dead letters included. `retries` are failures of handlers after which the record is tried again. `seconds` is the
    time of all batches whose transaction has ended."""

    records: int = 0
    outputs: int = 0
    dead_letters: int = 0
    committed: int = 0
    aborted: int = 0
    seconds: float = 0.0
    retries: int = 0
