"""Repeats calls until a core has no more to ask: one call under way at a time, and a back-off after each that failed.

    woken ──► next_request() ──► call ──► answered() ──► next_request() ──► … ──► None: sleeps until it is woken
                    ▲             └─ ApiError ─► failed()
                    └── back-off ◄─────────────────┘   also after an answer that is no progress

A core decides what one request names, and how much at most. It keeps what it asked for until the answer is there, so
that nothing is lost when a call fails: the next request names it again. One queue serves one destination, the active
controller or another broker. Not here: finding the controller, and what is repeated within one call
(broker/quorum/controller_channel.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from penstock.backoff import Backoff
from penstock.errors import ApiError
from penstock.tasks import watch

Q = TypeVar("Q")
A = TypeVar("A")
Asked = TypeVar("Asked", covariant=True)
Answered = TypeVar("Answered", contravariant=True)


class CallCore(Protocol[Asked, Answered]):
    """The core of a queue. `attempt` counts the calls without progress in a row, this one included."""

    def next_request(self) -> Asked | None:
        """The request to send now; None if there is nothing to ask."""

    def answered(self, answer: Answered, attempt: int, /) -> bool:
        """Takes the answer to the last request; False if the next one must wait for the back-off."""

    def failed(self, error: ApiError, attempt: int, /) -> None:
        """The last request has no answer. It may have been carried out all the same."""


class CallQueue(Generic[Q, A]):
    """One task on the event loop, from `start` to `stop`; a core makes its own, and wakes it when it has work."""

    def __init__(
        self,
        name: str,
        core: CallCore[Q, A],
        call: Callable[[Q], Awaitable[A]],
        backoff: Backoff,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._name = name
        self._core = core
        self._call = call
        self._backoff = backoff
        self._on_fatal = on_fatal
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self._name)
        watch(self._task, self._on_fatal)

    async def stop(self) -> None:
        """A call under way is left; what it was to tell is told no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """The core may have something to ask; during a call or a back-off that is looked at afterwards."""
        self._has_work.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while (request := self._core.next_request()) is not None:
                failures = 0 if await self._progresses(request, failures + 1) else failures + 1
                if failures:
                    await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)

    async def _progresses(self, request: Q, attempt: int) -> bool:
        try:
            answer = await self._call(request)
        except ApiError as error:
            self._core.failed(error, attempt)
            return False
        return self._core.answered(answer, attempt)
