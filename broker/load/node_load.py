"""How loaded a node is: the idle share of each kind of work, the event loop's busy share, processor time by kind.

Everything a node decides runs on one event loop. So the capacity that a kind of work has left is idle time: the time in
which the loop had nothing to do and a processor was free to run more of it. Its idle share is idle / (idle + own busy
time), over the last minute. It is near 1 when there is nothing to do, and 0 when the loop or the processors have no
time left, no matter what took it: the node itself, gRPC's threads, another process. Own busy time is the time that the
kind took of the loop and of threads that work for it, with their waiting in the run queue. A loop that waits for a
processor has work of all kinds, so each kind's share of the waiting equals its share of the work. Kafka's
RequestHandlerAvgIdlePercent and NetworkProcessorAvgIdlePercent are read the same way. A second number tells a node
that is busy from a machine that is: the share of the processors that others than this node took.

Processor time by kind adds up to the process's own: loop time that no kind counted is OTHER.

Pure: a driver (load_sampler.py) gives it the threads' times about once a second.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import field

from broker.load.busy_time import WorkKind
from broker.load.thread_times import ThreadTime
from penstock.lazy_dataclass import dataclass
from penstock.metric_fields import gauge, measured

WINDOW_NS = 60_000_000_000
THREADS_BY_NAME = {
    "flush-": WorkKind.FLUSH,
    "io-": WorkKind.HANDLERS,
    "produce-conversion": WorkKind.HANDLERS,
    "raft-disk": WorkKind.RAFT,
}
"""How the names of our own threads begin; every other thread that Python made is OTHER."""
GRPC_POLLER = "_poll_wrapper"
"""A part of the name of the thread in which gRPC's asyncio layer waits for gRPC's own."""


@dataclass(frozen=True, slots=True)
class _Slice:
    until_ns: int
    length_ns: int
    rest_ns: int
    """The loop had nothing to do."""
    idle_ns: float
    """The loop had nothing to do, and a processor was free."""
    busy_ns: Mapping[WorkKind, float]
    processors_ns: int
    """The time of all processors together; 0 where that is not known."""
    others_ns: float
    """The part of it that neither was idle nor went to this node."""


@measured
class LoadStatistics:
    """Shares of the last minute, or since the start; processor seconds since the start."""

    handler_idle_ratio: float = 1.0
    processor_idle_ratio: float = 1.0
    loop_busy_ratio: float = gauge(
        "penstock_event_loop_busy_ratio",
        "Share of the last minute (0 to 1) in which the event loop ran or waited for a processor.",
        default=0.0,
    )
    neighbours_busy_ratio: float = gauge(
        "penstock_neighbours_busy_ratio",
        "Share of the last minute (0 to 1) of the node's processors that others than this node took.",
        default=0.0,
    )
    cpu_seconds: Mapping[WorkKind, float] = field(default_factory=lambda: dict.fromkeys(WorkKind, 0.0))


class NodeLoad:
    """Samples in, shares out. `loop_thread` is the kernel id of the event loop's thread."""

    def __init__(self, loop_thread: int) -> None:
        self._loop_thread = loop_thread
        self._sampled_ns: int | None = None
        self._times: Mapping[int, ThreadTime] = {}
        self._busy_ns: Mapping[WorkKind, int] = {}
        self._processors_ns: Mapping[int, int] = {}
        self._slices: deque[_Slice] = deque()
        self._cpu_ns = dict.fromkeys(WorkKind, 0.0)
        self._statistics = LoadStatistics()

    def sample(
        self,
        now_ns: int,
        times: Mapping[int, ThreadTime],
        names: Mapping[int, str],
        busy_ns: Mapping[WorkKind, int],
        processors_ns: Mapping[int, int],
    ) -> None:
        """Totals since the start: the times of each thread, the loop's time that each kind took, and the idle time of
        each processor (none where that is not known)."""
        before_ns, self._sampled_ns = self._sampled_ns, now_ns
        used = {thread: _since(self._times.get(thread), total) for thread, total in times.items()}
        claimed = {kind: total - self._busy_ns.get(kind, 0) for kind, total in busy_ns.items()}
        free_ns = _free_since(self._processors_ns, processors_ns)
        count = len(self._processors_ns.keys() & processors_ns.keys())
        own_ns = sum(time.run_ns for time in used.values())
        self._times, self._busy_ns, self._processors_ns = times, busy_ns, processors_ns
        loop = used.pop(self._loop_thread, ThreadTime(0, 0))
        by_kind = _threads_by_kind(used, names)
        self._count_cpu(loop, claimed, by_kind)
        if before_ns is not None and now_ns > before_ns:
            length_ns = now_ns - before_ns
            rest_ns = max(0, length_ns - sum(loop))
            with_waiting = max(1.0, sum(loop) / max(1, loop.run_ns, sum(claimed.values())))
            busy = {kind: claimed.get(kind, 0) * with_waiting + sum(by_kind[kind]) for kind in WorkKind}
            busy[WorkKind.NETWORK] += busy[WorkKind.NATIVE]
            others_ns = max(0.0, count * length_ns - free_ns - own_ns) if count else 0.0
            part = _Slice(now_ns, length_ns, rest_ns, min(rest_ns, free_ns), busy, count * length_ns, others_ns)
            self._add(part)
        self._statistics = self._summed_up()

    def statistics(self) -> LoadStatistics:
        """The statistics of the last sample; may be called in any thread."""
        return self._statistics

    def _count_cpu(
        self, loop: ThreadTime, claimed: Mapping[WorkKind, int], by_kind: Mapping[WorkKind, ThreadTime]
    ) -> None:
        """A kind's part of the loop's processor time is its part of the time that the loop was not idle."""
        share = loop.run_ns / max(1, loop.run_ns + loop.wait_ns, sum(claimed.values()))
        for kind, time in by_kind.items():
            self._cpu_ns[kind] += time.run_ns
        for kind, busy in claimed.items():
            self._cpu_ns[kind] += busy * share
        self._cpu_ns[WorkKind.OTHER] += loop.run_ns - sum(claimed.values()) * share

    def _add(self, part: _Slice) -> None:
        self._slices.append(part)
        while self._slices[0].until_ns <= part.until_ns - WINDOW_NS:
            self._slices.popleft()

    def _summed_up(self) -> LoadStatistics:
        idle_ns = sum(part.idle_ns for part in self._slices)
        rest_ns = sum(part.rest_ns for part in self._slices)
        length_ns = sum(part.length_ns for part in self._slices)
        processors_ns = sum(part.processors_ns for part in self._slices)
        others_ns = sum(part.others_ns for part in self._slices)
        return LoadStatistics(
            self._idle_ratio(WorkKind.HANDLERS, idle_ns),
            self._idle_ratio(WorkKind.NETWORK, idle_ns),
            1 - rest_ns / length_ns if length_ns else 0.0,
            others_ns / processors_ns if processors_ns else 0.0,
            {kind: cpu_ns / 1e9 for kind, cpu_ns in self._cpu_ns.items()},
        )

    def _idle_ratio(self, kind: WorkKind, idle_ns: float) -> float:
        if not self._slices:
            return 1.0
        busy_ns = sum(part.busy_ns[kind] for part in self._slices)
        return idle_ns / (idle_ns + busy_ns) if idle_ns else 0.0

    def __repr__(self) -> str:
        return f"NodeLoad(loop {self._statistics.loop_busy_ratio:.0%} busy)"


def _since(before: ThreadTime | None, now: ThreadTime) -> ThreadTime:
    """The time since the last sample; all of it for a new thread, or one with the id of an ended one."""
    if before is None or now.run_ns < before.run_ns:
        return now
    return ThreadTime(now.run_ns - before.run_ns, max(0, now.wait_ns - before.wait_ns))


def _free_since(before: Mapping[int, int], now: Mapping[int, int]) -> float:
    """How much processor time was idle; infinite where that is not known."""
    both = before.keys() & now.keys()
    return float(sum(now[processor] - before[processor] for processor in both)) if both else math.inf


def _threads_by_kind(used: Mapping[int, ThreadTime], names: Mapping[int, str]) -> dict[WorkKind, ThreadTime]:
    found = dict.fromkeys(WorkKind, ThreadTime(0, 0))
    for thread, time in used.items():
        kind = _kind_of(names.get(thread))
        before = found[kind]
        found[kind] = ThreadTime(before.run_ns + time.run_ns, before.wait_ns + time.wait_ns)
    return found


def _kind_of(name: str | None) -> WorkKind:
    """The kind of a thread by its name; None for a thread that Python does not know."""
    if name is None or GRPC_POLLER in name:
        return WorkKind.NATIVE
    return next((kind for start, kind in THREADS_BY_NAME.items() if name.startswith(start)), WorkKind.OTHER)
