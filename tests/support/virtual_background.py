"""Plain clients in virtual time: a caller that waits runs the loop itself, so one thread is all there is.

    loop = VirtualTimeLoop()
    producer = Producer(bootstrap, environment=plain_environment(loop, network))

`Background` and the events of `Threads` (penstock.client.environment) for callers outside the loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.client.environment import ClientEnvironment
from penstock.client.forgotten import begin_alone
from tests.support.fake_network import FakeNetwork
from tests.support.stepped_threads import SteppedThreads
from tests.support.virtual_time import VirtualTimeLoop

T = TypeVar("T")


class VirtualBackground:
    """The loop of plain clients; it goes on only while one of them waits."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.clients: list[Any] = []
        self._adopted: set[asyncio.Task[object]] = set()

    @property
    def alive(self) -> bool:
        return not self.loop.is_closed()

    @property
    def is_current(self) -> bool:
        return self.loop.is_running()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, timeout))

    def add(self, client: Any, close: Any = None) -> None:
        self.clients.append(client)

    def discard(self, client: Any) -> None:
        self.clients = [known for known in self.clients if known is not client]

    def adopt(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.loop.call_soon(begin_alone, work, self._adopted)


class _Event:
    """An event for callers outside the loop: a wait runs the loop."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(self._event.wait(), timeout))
        except TimeoutError:
            return False


class VirtualThreads(SteppedThreads):
    """Steps whose events run the loop while a caller waits for them."""

    def __init__(self, loop: VirtualTimeLoop, seed: int) -> None:
        super().__init__(random.Random(seed), loop.call_soon)
        self._loop = loop

    def event(self) -> Any:
        return _Event(self._loop)


def plain_environment(loop: VirtualTimeLoop, network: FakeNetwork, seed: int = 0) -> ClientEnvironment:
    background = VirtualBackground(loop)
    return ClientEnvironment(loop, network, random.Random(seed), VirtualThreads(loop, seed), lambda: background)
