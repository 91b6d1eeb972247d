"""The figures of a memory budget, as metrics have them. Not here: the budget (memory_budget.py)."""

from __future__ import annotations

from penstock.metric_fields import counter, gauge, measured


@measured
class MemoryStatistics:
    """A budget now; `pauses` is since the node's start."""

    used_bytes: int = gauge("penstock_memory_used_bytes", "Bytes of requests, answers and fetch sessions in memory.")
    bytes_max: int = gauge("penstock_memory_max_bytes", "Bytes of them that there may be in memory.")
    waiting: int = gauge("penstock_memory_waiting_streams", "Streams that wait for room before they go on.")
    pauses: int = counter("penstock_memory_pauses", "How often a stream had to wait for room.")
