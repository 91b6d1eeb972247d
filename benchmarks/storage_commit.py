"""Group commit: how many appends a second are acked when 1, 16 and 256 wait, beside a bare write and fdatasync each.

A waiter appends one batch, asks for a flush, waits until the flushed offset has passed it, and begins again: what a
produce request with acks=1 does in a broker. The bare loop is one thread that writes the same bytes and calls
fdatasync, with nobody to share it with. Bare loop and waiters take turns; the median of the rounds counts, since a
disk's latency has tails in both directions.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterator

import uvloop

from benchmarks.storage_log import NOW_MS, batch_of, new_log
from benchmarks.storage_rows import Row, Scale
from penstock.clock import SystemClock
from penstock.threads import SystemThreads
from storage.disk.stop_wait import StopWait
from storage.log.group_commit import GroupCommit
from storage.log.log import Log

WAITERS = (1, 16, 256)
BATCH_RECORDS = 10
SPREAD = (256, 16)
"""Waiters and logs of the row with several logs: each log needs an fdatasync of its own."""


def commit_rows(root: str, scale: Scale) -> Iterator[Row]:
    batch = batch_of(BATCH_RECORDS)
    shapes = [(waiters, 1) for waiters in WAITERS] + [SPREAD]
    rates: dict[tuple[int, int], list[float]] = {shape: [] for shape in shapes}
    bare: list[float] = []
    for _ in range(scale.rounds):  # nothing is removed in between: the journal would make the next one pay for it
        for shape in shapes:
            bare.append(bare_rate(tempfile.mkdtemp(dir=root), batch, scale.seconds / 2))
            rates[shape].append(acked_rate(tempfile.mkdtemp(dir=root), batch, shape, scale.seconds))
    base = statistics.median(bare)
    for waiters, logs in shapes:
        rate = statistics.median(rates[waiters, logs])
        what = f"{waiters} waiting, {logs} log{'s' if logs > 1 else ''}"
        yield Row("group commit", what, round(rate), "acks/s", round(base), round(rate / base, 2))


def bare_rate(directory: str, batch: bytes, seconds: float) -> float:
    fd = os.open(f"{directory}/bare", os.O_WRONLY | os.O_CREAT)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        os.write(fd, batch)
        os.fdatasync(fd)
        count += 1
    os.close(fd)
    return count / (time.perf_counter() - began)


def acked_rate(directory: str, batch: bytes, shape: tuple[int, int], seconds: float) -> float:
    rate: float = uvloop.run(_acked_rate(directory, batch, shape, seconds))
    return rate


async def _acked_rate(directory: str, batch: bytes, shape: tuple[int, int], seconds: float) -> float:
    waiters, logs = shape
    group_commit = GroupCommit(_failed, SystemThreads())
    queues = [_Waiting(group_commit, new_log(directory, partition=number)) for number in range(logs)]
    began = time.perf_counter()
    counts = await asyncio.gather(*(queues[n % logs].keep_appending(batch, began + seconds) for n in range(waiters)))
    took = time.perf_counter() - began
    await group_commit.close(StopWait(SystemClock(), SystemThreads()))
    for queue in queues:
        queue.log.abandon()
    return sum(counts) / took


class _Waiting:
    """The waiters of one log, each with the offset that it waits for."""

    def __init__(self, group_commit: GroupCommit, log: Log) -> None:
        self.log = log
        self._group_commit = group_commit
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        group_commit.subscribe(log, self._flushed)

    def _flushed(self, offset: int) -> None:
        reached = [future for end, future in self._waiting if end <= offset]
        self._waiting = self._waiting[len(reached) :]  # ends rise: appends are in order
        for future in reached:
            future.set_result(None)

    async def keep_appending(self, batch: bytes, until: float) -> int:
        count, loop = 0, asyncio.get_running_loop()
        while time.perf_counter() < until:
            end = self.log.append.as_leader(batch, 0, NOW_MS).last_offset + 1
            acked: asyncio.Future[None] = loop.create_future()
            self._waiting.append((end, acked))
            self._group_commit.request(self.log)
            await acked
            count += 1
        return count


def _failed(log_dir: str, error: OSError) -> None:
    raise SystemExit(f"{log_dir}: {error}")
