"""A connection that says nothing, says it slowly, or takes no answer, keeps nobody else out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.console.connections import (
    ANSWER_SECONDS,
    BODY_SECONDS,
    LOOK_SECONDS,
    REQUEST_SECONDS,
    BoundedConnection,
    ConnectionCount,
)


class FakeLoop:
    """Time that a test moves on, and the timers of it."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[tuple[float, Callable[[], object]]]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, then: Callable[[], object]) -> Any:
        timer = (self.now + seconds, then)
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer))

    def pass_seconds(self, seconds: float) -> None:
        until = self.now + seconds
        while due := sorted(timer for timer in self.timers if timer[0] <= until):
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = until


class FakeTransport:
    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host, self.is_aborted, self.left = host, False, 0

    def get_extra_info(self, name: str) -> Any:
        return (self.host, 1234) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return self.left

    def abort(self) -> None:
        self.is_aborted = True


class FakeInner:
    """A protocol whose state a test sets."""

    def __init__(self) -> None:
        self.cycle: Any = None
        self.flow = SimpleNamespace(write_paused=False)
        self.calls = list[str]()

    def connection_made(self, transport: object) -> None:
        self.calls.append("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")

    def data_received(self, data: bytes) -> None:
        self.calls.append(data.decode())

    def eof_received(self) -> None:
        self.calls.append("eof")

    def pause_writing(self) -> None:
        self.flow.write_paused = True

    def resume_writing(self) -> None:
        self.flow.write_paused = False


class Cycle:
    """One request; two of them are never equal."""

    def __init__(self, *, more_body: bool = False, response_complete: bool = False) -> None:
        self.more_body, self.response_complete = more_body, response_complete


class Stage:
    def __init__(self, count: ConnectionCount | None = None) -> None:
        self.loop, self.inner, self.transport = FakeLoop(), FakeInner(), FakeTransport()
        loop: Any = self.loop
        self.connection = BoundedConnection(self.inner, count or ConnectionCount(9, 9), loop)
        self.connection.connection_made(self.transport)


def test_a_request_that_comes_byte_by_byte_is_cut_off() -> None:
    stage = Stage()
    for _ in range(int(REQUEST_SECONDS) - 1):
        stage.loop.pass_seconds(1)
        stage.connection.data_received(b"x")
    assert not stage.transport.is_aborted
    stage.loop.pass_seconds(LOOK_SECONDS)
    assert stage.transport.is_aborted


def test_a_connection_is_idle_anew_after_each_answer() -> None:
    stage = Stage()
    for _ in range(5):
        stage.loop.pass_seconds(REQUEST_SECONDS - LOOK_SECONDS)
        stage.inner.cycle = Cycle(response_complete=True)
    assert not stage.transport.is_aborted
    stage.loop.pass_seconds(REQUEST_SECONDS + LOOK_SECONDS)
    assert stage.transport.is_aborted


@pytest.mark.parametrize("after", [False, True])
def test_a_body_has_its_time_and_a_stream_has_any(*, after: bool) -> None:
    stage = Stage()
    stage.inner.cycle = Cycle(more_body=not after)
    stage.loop.pass_seconds(BODY_SECONDS + 2 * LOOK_SECONDS)
    assert stage.transport.is_aborted is not after


def test_an_answer_that_nobody_takes_is_cut_off_and_a_slow_one_is_not() -> None:
    stage = Stage()
    stage.inner.cycle = Cycle()
    stage.connection.pause_writing()
    for left in range(1_000_000, 0, -100_000):
        stage.transport.left = left
        stage.loop.pass_seconds(LOOK_SECONDS)
    assert not stage.transport.is_aborted
    stage.loop.pass_seconds(ANSWER_SECONDS + LOOK_SECONDS)
    assert stage.transport.is_aborted


def test_too_many_of_all_or_of_one_network_are_closed_at_once() -> None:
    count = ConnectionCount(3, 2)
    assert [count.take("a") for _ in range(3)] == [True, True, False]
    assert [count.take("b") for _ in range(2)] == [True, False]
    stage = Stage(ConnectionCount(0, 0))
    stage.connection.data_received(b"x")
    stage.connection.connection_lost(None)
    assert stage.transport.is_aborted and stage.inner.calls == []


def test_a_connection_that_ends_makes_way_for_another_one() -> None:
    count = ConnectionCount(1, 1)
    stage = Stage(count)
    stage.connection.connection_lost(None)
    assert stage.inner.calls == ["made", "lost"] and stage.loop.timers == []
    assert count.take("10.0.0.1")


def test_uvicorns_protocol_says_what_a_connection_does() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Answers nothing."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        state = ServerState()
        connection = BoundedConnection(H11Protocol(uvicorn.Config(app), state, {}), ConnectionCount(1, 1), loop)
        transport: Any = FakeTransport()
        connection.connection_made(transport)
        assert connection.state == "idle"
        connection.data_received(b"POST / HTTP/1.1\r\nhost: a\r\n")
        assert connection.state == "idle"
        connection.data_received(b"content-length: 2\r\n\r\n1")
        assert connection.state == "body"
        connection.data_received(b"2")
        assert connection.state == "answering"
        connection.pause_writing()
        assert connection.state == "stuck"
        for task in state.tasks:
            task.cancel()
        connection.connection_lost(ConnectionError())

    asyncio.run(story())
