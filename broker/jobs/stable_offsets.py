"""Looks every LOOK_MS which led partitions have undecided transactions, and for how long the oldest stands still.

A reader of committed records waits at the last stable offset. On a busy partition that is always a little below the
high watermark; one that does not move any more hangs on a transaction that nobody ends. Looks on the event loop, where
the logs are used; `statistics` may be called in any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from broker.jobs.scheduler import Scheduler
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.metric_fields import gauge, in_seconds, measured

LOOK_MS: Final = 10_000


@measured
class StableOffsetStatistics:
    """The figures of the last look."""

    partitions: int = gauge(
        "penstock_partitions_with_undecided_transactions",
        "Partitions led here whose last stable offset is below their high watermark.",
        default=0,
    )
    lag_max: int = gauge(
        "penstock_last_stable_offset_lag_max",
        "Records between the last stable offset and the high watermark, of the partition that has most.",
        default=0,
    )
    stuck_ms: int = gauge(
        "penstock_last_stable_offset_stuck_seconds",
        "So long the last stable offset has stood still below the high watermark, where it is longest.",
        in_seconds,
        default=0,
    )


class StableOffsets:
    """The stable offsets of a broker's led partitions. There is one per broker."""

    def __init__(self, hosted: Callable[[], Iterable[Partition]], clock: Clock) -> None:
        self._hosted, self._clock = hosted, clock
        self._lagging: dict[Partition, tuple[int, int]] = {}
        """The last stable offset, and when it was seen there first."""
        self._found = StableOffsetStatistics()

    def schedule(self, scheduler: Scheduler) -> None:
        scheduler.add("stable-offsets", LOOK_MS, self.look)

    async def look(self) -> None:
        now_ms, before, lagging, lag_max = self._clock.now_ms(), self._lagging, dict[Partition, tuple[int, int]](), 0
        for partition in self._hosted():
            if partition.leading is None or partition.offline is not None:
                continue
            stable = partition.last_stable_offset
            if stable < partition.high_watermark:
                lag_max = max(lag_max, partition.high_watermark - max(stable, partition.log.log_start_offset))
                known = before.get(partition)
                lagging[partition] = known if known is not None and known[0] == stable else (stable, now_ms)
        self._lagging = lagging
        stuck_ms = now_ms - min((since_ms for _, since_ms in lagging.values()), default=now_ms)
        self._found = StableOffsetStatistics(len(lagging), lag_max, stuck_ms)

    def held_up(self, ms: int) -> list[tuple[Partition, int]]:
        """The partitions that stand still for at least `ms`, as of the last look, with that time in ms; the longest
        first."""
        now_ms = self._clock.now_ms()
        found = [(each, now_ms - since_ms) for each, (_, since_ms) in self._lagging.items() if now_ms - since_ms >= ms]
        return sorted(found, key=lambda one: (-one[1], one[0].topic_partition))

    def statistics(self) -> StableOffsetStatistics:
        return self._found

    def __repr__(self) -> str:
        return f"StableOffsets({len(self._lagging)} lag)"
