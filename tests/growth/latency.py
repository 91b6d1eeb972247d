"""How long acks take: a producer that sends one record at fixed times, and the times of its acks by phase."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from penstock import Producer
from penstock.client.producer.future import RecordFuture

TICK_S = 0.01
VALUE = b"x" * 1_000
CLOSE_TIMEOUT_S = 150.0


class PacedProducer:
    """acks=all, 100 records a second of 1,000 bytes, round the partitions; use it with `with`. A record's time counts
    from when it was due, so that a stall is not measured once but for every record behind it."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(bootstrap, acks="all", linger_ms=0)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._phase = "before"
        self._times: dict[str, list[float]] = defaultdict(list)
        self.failed: list[str] = []
        self._thread = threading.Thread(target=self._run, name="paced")

    def phase(self, name: str) -> None:
        """Records that are sent from now on count for it."""
        self._phase = name

    def quantiles(self) -> dict[str, dict[str, float]]:
        """By phase, in ms."""
        with self._lock:
            times = {name: sorted(found) for name, found in self._times.items()}
        return {
            name: {
                "records": len(found),
                "p50_ms": round(1000 * found[len(found) // 2], 1),
                "p99_ms": round(1000 * found[int(len(found) * 0.99)], 1),
                "max_ms": round(1000 * found[-1], 1),
            }
            for name, found in times.items()
        }

    def p99_ms(self, phases: Iterable[str]) -> float:
        """The percentile over these phases together; infinite if nothing was acked in them."""
        with self._lock:
            times = sorted(time for name in phases for time in self._times.get(name, ()))
        return 1000 * times[int(len(times) * 0.99)] if times else math.inf

    def __enter__(self) -> PacedProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.close(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._stopped.is_set():
            due = began + number * TICK_S
            time.sleep(max(0.0, due - time.monotonic()))
            done = partial(self._done, self._phase, due)
            self._producer.send(self._topic, VALUE, partition=number % self._partitions).add_done_callback(done)
            number += 1

    def _done(self, phase: str, due: float, future: RecordFuture) -> None:
        error = future.exception(0)
        with self._lock:
            if error is not None:
                self.failed.append(f"{phase}: {type(error).__name__}: {error}"[:300])
            else:
                self._times[phase].append(time.monotonic() - due)
