"""Promises of the load figures: idle is capacity that is left, kinds add up, waiting for a processor is no rest."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Mapping

import pytest

from broker.load.busy_time import BusyTime, BusyTimes, WorkKind
from broker.load.load_sampler import LoadSampler
from broker.load.node_load import WINDOW_NS, NodeLoad
from broker.load.thread_times import ThreadTime, read_idle_processors, read_thread_times
from penstock.clock import SystemClock
from tests.support.machine import NOW_NS, THREADS

S = 1_000_000_000
LOOP, FLUSH, CONVERTER, CLEANER, GRPC, POLLER = range(1, 7)
NAMES = {
    LOOP: "MainThread",
    FLUSH: "flush-0",
    CONVERTER: "produce-conversion_0",
    CLEANER: "log-cleaner_0",
    POLLER: "Thread-1 (_poll_wrapper)",
}


class Stage:
    """Seconds of work in, second by second."""

    def __init__(self) -> None:
        self.load = NodeLoad(LOOP)
        self.now_ns = 0
        self.times = {thread: ThreadTime(0, 0) for thread in (*NAMES, GRPC)}
        self.processors = {0: 0, 1: 0}
        self.busy = dict.fromkeys((WorkKind.NETWORK, WorkKind.HANDLERS, WorkKind.FETCHERS, WorkKind.RAFT), 0)
        self.sample()

    def sample(self) -> None:
        self.load.sample(self.now_ns, dict(self.times), NAMES, dict(self.busy), dict(self.processors))

    def pass_seconds(
        self,
        seconds: int,
        runs: Mapping[int, float],
        claims: Mapping[WorkKind, float] | None = None,
        waits: Mapping[int, float] | None = None,
        free: float = 2.0,
    ) -> None:
        """`runs`, `waits`, `claims` and what is `free` of two processors are shares of each second."""
        for _ in range(seconds):
            self.now_ns += S
            self.processors = {processor: idle_ns + int(free * S / 2) for processor, idle_ns in self.processors.items()}
            for thread, (run_ns, wait_ns) in self.times.items():
                more = int(runs.get(thread, 0) * S), int((waits or {}).get(thread, 0) * S)
                self.times[thread] = ThreadTime(run_ns + more[0], wait_ns + more[1])
            for kind, share in (claims or {}).items():
                self.busy[kind] += int(share * S)
            self.sample()


def test_a_node_that_does_nothing_is_idle() -> None:
    at = Stage()
    assert at.load.statistics().handler_idle_ratio == 1.0, "before the first second has passed, too"
    at.pass_seconds(5, {})
    found = at.load.statistics()
    assert (found.handler_idle_ratio, found.processor_idle_ratio, found.loop_busy_ratio) == (1.0, 1.0, 0.0)


def test_idle_is_what_is_left_of_the_time_that_a_kind_had() -> None:
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.5}, {WorkKind.HANDLERS: 0.3, WorkKind.NETWORK: 0.1})
    found = at.load.statistics()
    assert found.handler_idle_ratio == pytest.approx(0.5 / 0.8)
    assert found.processor_idle_ratio == pytest.approx(0.5 / 0.6)
    assert found.loop_busy_ratio == pytest.approx(0.5)


def test_nothing_is_left_when_others_took_all_of_the_loop() -> None:
    at = Stage()
    at.pass_seconds(10, {LOOP: 1.0}, {WorkKind.FETCHERS: 1.0})
    found = at.load.statistics()
    assert (found.handler_idle_ratio, found.processor_idle_ratio, found.loop_busy_ratio) == (0.0, 0.0, 1.0)


def test_a_loop_that_waits_for_a_processor_is_not_idle() -> None:
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.4}, {WorkKind.HANDLERS: 0.2}, {LOOP: 0.6})
    assert at.load.statistics().handler_idle_ratio == 0.0


def test_a_loop_at_rest_is_not_idle_while_no_processor_is_free() -> None:
    """gRPC's threads may take the only one; so may a neighbour on the machine."""
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.3, GRPC: 0.7}, {WorkKind.HANDLERS: 0.2}, free=0.0)
    found = at.load.statistics()
    assert (found.handler_idle_ratio, found.processor_idle_ratio) == (0.0, 0.0)
    assert found.loop_busy_ratio == pytest.approx(0.3)


def test_idle_is_no_more_than_what_the_processors_have_left() -> None:
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.3, GRPC: 0.5}, {WorkKind.HANDLERS: 0.2}, free=0.2)
    assert at.load.statistics().handler_idle_ratio == pytest.approx(0.2 / 0.4)


def test_a_busy_machine_is_told_from_a_busy_node() -> None:
    """Both have no capacity left, and the second number says who took it."""
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.02}, {WorkKind.HANDLERS: 0.01}, free=0.0)
    found = at.load.statistics()
    assert found.handler_idle_ratio == 0.0 and found.neighbours_busy_ratio == pytest.approx(0.99)
    at = Stage()
    at.pass_seconds(10, {LOOP: 1.0, GRPC: 0.9}, {WorkKind.HANDLERS: 1.0}, free=0.1)
    found = at.load.statistics()
    assert found.handler_idle_ratio == 0.0 and found.neighbours_busy_ratio == pytest.approx(0.0)


def test_what_neighbours_take_is_unknown_where_nobody_says_what_the_processors_have_left() -> None:
    at = Stage()
    at.processors = {}
    at.sample()
    at.pass_seconds(10, {LOOP: 0.5})
    assert at.load.statistics().neighbours_busy_ratio == 0.0


def test_idle_is_that_of_the_loop_where_nobody_says_what_the_processors_have_left() -> None:
    at = Stage()
    at.processors = {}
    at.sample()
    at.pass_seconds(10, {LOOP: 0.5}, {WorkKind.HANDLERS: 0.5})
    assert at.load.statistics().handler_idle_ratio == pytest.approx(0.5)


def test_the_loops_waiting_for_a_processor_is_shared_among_the_kinds_by_their_work() -> None:
    """The machine is overloaded, with moments of rest: handlers take 0.05 and wait for 0.1."""
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.3}, {WorkKind.HANDLERS: 0.05, WorkKind.NETWORK: 0.2}, {LOOP: 0.6}, free=0.02)
    found = at.load.statistics()
    assert found.handler_idle_ratio == pytest.approx(0.02 / (0.02 + 0.15), abs=0.001)
    assert found.processor_idle_ratio == pytest.approx(0.02 / (0.02 + 0.6), abs=0.001)


def test_threads_count_for_the_kind_that_they_work_for() -> None:
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.2, CONVERTER: 0.8, GRPC: 0.3, POLLER: 0.1}, None, {GRPC: 0.4})
    found = at.load.statistics()
    assert found.handler_idle_ratio == pytest.approx(0.8 / 1.6)
    assert found.processor_idle_ratio == pytest.approx(0.8 / 1.6), "gRPC's threads, their waiting included"


def test_processor_time_by_kind_adds_up_to_that_of_all_threads() -> None:
    at = Stage()
    runs = {LOOP: 0.5, FLUSH: 0.1, CONVERTER: 0.2, CLEANER: 0.05, GRPC: 0.15, POLLER: 0.02}
    at.pass_seconds(30, runs, {WorkKind.HANDLERS: 0.6, WorkKind.NETWORK: 0.2}, {LOOP: 0.5})
    cpu = at.load.statistics().cpu_seconds
    assert sum(cpu.values()) == pytest.approx(30 * sum(runs.values()))
    assert cpu[WorkKind.FLUSH] == pytest.approx(3.0) and cpu[WorkKind.NATIVE] == pytest.approx(30 * 0.17)
    of_the_loop = 0.6 * 0.5  # which ran for half of the time
    assert cpu[WorkKind.HANDLERS] == pytest.approx(30 * (0.2 + of_the_loop))
    assert cpu[WorkKind.OTHER] == pytest.approx(30 * (0.05 + 0.1))


def test_kinds_that_claim_more_than_the_loop_ran_get_no_more_than_it_ran() -> None:
    """A thread that holds Python's lock stops the loop in the middle of a piece of work."""
    at = Stage()
    at.pass_seconds(10, {LOOP: 0.3}, {WorkKind.HANDLERS: 0.4, WorkKind.NETWORK: 0.2})
    cpu = at.load.statistics().cpu_seconds
    assert cpu[WorkKind.HANDLERS] == pytest.approx(2.0) and cpu[WorkKind.OTHER] == pytest.approx(0.0)


def test_what_is_longer_ago_than_a_minute_is_forgotten() -> None:
    at = Stage()
    at.pass_seconds(90, {LOOP: 1.0}, {WorkKind.HANDLERS: 1.0})
    at.pass_seconds(WINDOW_NS // S, {})
    assert at.load.statistics().handler_idle_ratio == 1.0
    assert at.load.statistics().cpu_seconds[WorkKind.HANDLERS] == pytest.approx(90.0)


def test_a_thread_with_the_id_of_one_that_ended_counts_from_its_own_start() -> None:
    at = Stage()
    at.pass_seconds(10, {CLEANER: 1.0})
    at.times[CLEANER] = ThreadTime(0, 0)
    at.pass_seconds(1, {CLEANER: 0.5})
    assert at.load.statistics().cpu_seconds[WorkKind.OTHER] == pytest.approx(10.5)


def test_a_timed_coroutine_counts_its_steps_and_not_its_waiting() -> None:
    busy = BusyTime(NOW_NS)

    async def work(access: asyncio.Event) -> str:
        _spin(0.02)
        await access.wait()
        _spin(0.02)
        return "done"

    async def main() -> str:
        access = asyncio.Event()
        task = asyncio.create_task(busy.timed(work(access)))
        await asyncio.sleep(0)
        first_ns = busy.total_ns
        assert first_ns >= 20_000_000
        _spin(0.05)
        assert busy.total_ns == first_ns, "somebody else's time"
        access.set()
        return await task

    assert asyncio.run(main()) == "done"
    assert busy.total_ns >= 40_000_000


def test_a_timed_coroutine_is_cancelled_and_fails_as_if_it_were_not_timed() -> None:
    seen: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def failing() -> None:
        await asyncio.sleep(0)
        raise OSError("no")

    async def main() -> None:
        busy = BusyTime(NOW_NS)
        task = asyncio.create_task(busy.timed(stubborn()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(OSError, match="no"):
            await busy.timed(failing())

    asyncio.run(main())
    assert seen == ["cancelled"]


def test_the_kernel_tells_of_threads_that_python_does_and_does_not_know() -> None:
    done = threading.Event()
    ready = threading.Event()

    def run() -> None:
        _spin(0.02)
        ready.set()
        done.wait()

    thread = threading.Thread(target=run, name="flush-7")
    thread.start()
    try:
        ready.wait()
        names = THREADS.names()
        (thread_id,) = [found for found, name in names.items() if name == "flush-7"]
        times = read_thread_times()
        assert times[thread_id].run_ns >= 10_000_000
        assert threading.get_native_id() in times
    finally:
        done.set()
        thread.join()
    assert set(read_idle_processors()) == os.sched_getaffinity(0) and not read_idle_processors("/nowhere")
    assert set(read_thread_times("/nowhere")) == {threading.get_native_id()}, "where there is no such file, this one"


def test_the_sampler_adds_up_to_the_time_of_the_process() -> None:
    async def main() -> None:
        load, busy, lags = NodeLoad(threading.get_native_id()), BusyTimes(NOW_NS), list[float]()
        sampler = LoadSampler(load, busy, lags.append, SystemClock(), THREADS, read_thread_times, read_idle_processors)
        sampler.sample()
        cpu_before, seconds_before = time.process_time(), sum(load.statistics().cpu_seconds.values())
        began_ns = time.monotonic_ns()
        _spin(0.2)
        busy.handlers.add_busy(began_ns, time.monotonic_ns())
        sampler.sample()
        used = time.process_time() - cpu_before
        found = load.statistics()
        assert sum(found.cpu_seconds.values()) - seconds_before == pytest.approx(used, rel=0.1, abs=0.02)
        assert found.handler_idle_ratio < 0.1 and found.loop_busy_ratio > 0.9

    asyncio.run(main())


def _spin(seconds: float) -> None:
    """Uses so much of a processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
