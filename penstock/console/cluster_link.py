"""A user's way to the cluster: clients that are that user, and the answers of the last moment.

A page that several browsers look at is asked for once: answers are kept for a moment, and askers who come while one is
on its way wait for the same. Each answer has a deadline, so that a page never hangs. Not here: how many questions of a
user may be on their way (page.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from penstock.client.admin.async_admin import AsyncAdmin
from penstock.client.consumer.async_consumer import AsyncConsumer
from penstock.client.producer.async_producer import AsyncProducer
from penstock.clock import Clock
from penstock.console.call_limits import CALL_MS, REQUEST_MS
from penstock.errors import AuthenticationFailedError, TimedOutError

CONTACT_MS: Final = 3_000
PAGE_SECONDS: Final = 10.0
ANSWERS_MAX: Final = 64
CLIENT_ID: Final = "penstock-console"

A = TypeVar("A")


class LogInEndedError(AuthenticationFailedError):
    """The user's session has ended while a question was on its way."""


class ClusterLink:
    """The clients of one user, made when they are needed."""

    def __init__(self, bootstrap: str, options: Mapping[str, Any], clock: Clock) -> None:
        self._bootstrap, self._clock = bootstrap, clock
        self._options: dict[str, Any] = {"client_id": CLIENT_ID, "bootstrap_timeout_ms": CONTACT_MS, **options}
        self._admin: AsyncAdmin | None = None
        self._answers: dict[object, tuple[int, asyncio.Task[Any]]] = {}

    @property
    def admin(self) -> AsyncAdmin:
        """The admin client."""
        if self._admin is None:
            self._admin = AsyncAdmin(
                self._bootstrap, **self._options, default_api_timeout_ms=CALL_MS, request_timeout_ms=REQUEST_MS
            )
        return self._admin

    async def reach(self) -> None:
        """Reaches the cluster as the user; AuthenticationFailedError where the cluster does not take the user."""
        await _within_deadline(self.admin.list_topics)

    def consumer(self, **options: Any) -> AsyncConsumer:
        """A consumer of its own for one page; whoever asks for it closes it."""
        return AsyncConsumer(self._bootstrap, **self._options, request_timeout_ms=REQUEST_MS, **options)

    def producer(self, **options: Any) -> AsyncProducer:
        """A producer of its own for one change."""
        limits = {"request_timeout_ms": CALL_MS, "delivery_timeout_ms": CALL_MS, "max_block_ms": CALL_MS}
        return AsyncProducer(self._bootstrap, **{**self._options, **limits, **options})

    async def answer(self, key: object, kept_ms: int, ask: Callable[[], Awaitable[A]]) -> A:
        """The answer to a question, asked now or at most `kept_ms` ago. TimedOutError after PAGE_SECONDS, and
        LogInEndedError for one that `close` has ended."""
        now_ms = self._clock.now_ms()
        self._forget(now_ms)
        found = self._answers.get(key)
        if found is None:
            found = now_ms + kept_ms, asyncio.create_task(_within_deadline(ask))
            self._answers[key] = found
        return await _shared_answer(found[1])

    async def once(self, ask: Callable[[], Awaitable[A]]) -> A:
        """The answer to what is asked for once, such as a change: never kept, with the same deadline."""
        return await _within_deadline(ask)

    def forget_answers(self) -> None:
        """Every page is asked for anew, because something was changed."""
        self._answers = {key: found for key, found in self._answers.items() if not found[1].done()}

    async def close(self) -> None:
        """Ends the questions and closes the clients. Idempotent."""
        tasks = [task for _, task in self._answers.values()]
        self._answers.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._admin is not None:
            await self._admin.close()

    def _forget(self, now_ms: int) -> None:
        old = [
            key for key, (until_ms, task) in self._answers.items() if task.done() and _is_old(task, until_ms, now_ms)
        ]
        for key in old:
            del self._answers[key]
        done = [key for key, (_, task) in self._answers.items() if task.done()]
        for key in done[: max(0, len(self._answers) - ANSWERS_MAX + 1)]:
            del self._answers[key]

    def __repr__(self) -> str:
        return f"ClusterLink({self._bootstrap}, {self._options.get('username', 'nobody')})"


def _is_old(task: asyncio.Task[Any], until_ms: int, now_ms: int) -> bool:
    """True for an error, too: that is asked again at once."""
    return now_ms >= until_ms or task.cancelled() or task.exception() is not None


async def _shared_answer(task: asyncio.Task[A]) -> A:
    """The answer for one of several that wait: a browser that is closed ends nobody else's question. A log-out in
    another tab has cancelled the question, and not the request that waits for it."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if task.cancelled() and (own is None or not own.cancelling()):
            raise LogInEndedError("your log-in has ended; log in again") from None
        raise


async def _within_deadline(ask: Callable[[], Awaitable[A]]) -> A:
    try:
        async with asyncio.timeout(PAGE_SECONDS):
            return await ask()
    except TimeoutError:
        raise TimedOutError(f"the cluster has not answered within {PAGE_SECONDS:.0f} s") from None
