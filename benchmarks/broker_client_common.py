"""The parts that the client processes of benchmarks/broker.py share: their values, their answer, and the open loop.

The open loop sends record i at its own time, whether or not earlier ones were acked, and measures from that time: a
system that falls behind is charged for the wait (no coordinated omission).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

DISTINCT_VALUES = 1_000
WARM_UP = 0.2
"""This part of the records comes first and is not counted."""


def values(size: int) -> list[bytes]:
    """The same values for every system; not compressible, not all alike."""
    rng = random.Random(size)
    return [rng.randbytes(size) for _ in range(DISTINCT_VALUES)]


def report(records: int, began: float, cpu_began: float) -> None:
    """One JSON line on stdout."""
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    answer = {"records": records, "seconds": round(seconds, 3), "records_per_s": round(records / seconds)}
    print(json.dumps(answer | {"client_cpu_s": round(cpu, 2)}))


class OpenLoop:
    """`records` sends at `rate` a second, each measured from when it was due."""

    def __init__(self, records: int, rate: int) -> None:
        self._due = [0.0] * records
        self._latency: list[float | None] = [None] * records
        self._rate = rate

    def run(self, send: Callable[[int], None]) -> None:
        """Calls `send(index)` at each time."""
        began = time.perf_counter() + 0.1
        for index in range(len(self._due)):
            due = self._due[index] = began + index / self._rate
            wait = due - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            send(index)

    def acked(self, index: int) -> None:
        """Any thread."""
        self._latency[index] = time.perf_counter() - self._due[index]

    def report(self) -> None:
        """One JSON line on stdout; no line, and an error, if a record was not acked."""
        if missing := self._latency.count(None):
            raise SystemExit(f"{missing} of {len(self._latency)} records were not acked")
        counted = self._latency[int(len(self._latency) * WARM_UP) :]
        found = sorted(latency for latency in counted if latency is not None)
        answer: dict[str, object] = {"acked": len(found), "records": len(counted), "rate": self._rate}
        for name, part in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
            answer[name] = round(1000 * found[min(int(part * len(found)), len(found) - 1)], 3) if found else None
        print(json.dumps(answer))
