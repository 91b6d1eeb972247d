"""A broker's way to the active controller: in this process if it is here, over the controller listener otherwise.

It follows the quorum's leader as the raft driver knows it, and retries while no leader is known, within a time limit. A
call to a node that hangs is repeated as soon as another node leads the quorum. Requests are records of
`penstock.messages`; each returns its answer, or raises the controller's typed error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Protocol

from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.errors import ApiError, NetworkError, NotControllerError, RequestTimedOutError
from penstock.messages.apis import BY_REQUEST
from penstock.types import NO_LEADER

RETRY_MS = 50
RETRY_MS_MAX = 200
"""Limits how often a controller that is known, and does not answer or is not ready, is asked again. An election takes
no longer because of it: the news of a leader ends the wait."""
CALL_TIMEOUT_MS = 10_000


class KnownLeader(Protocol):
    """The raft driver, as the channel uses it."""

    @property
    def leader_id(self) -> int: ...


class ControllerChannel:
    """Calls the active controller."""

    def __init__(
        self,
        node_id: int,
        quorum: KnownLeader,
        clock: Clock,
        remote: Callable[[int, Any, int], Awaitable[Any]],
        local: Callable[[Any], Awaitable[Any]] | None,
        random: Random,
    ) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._clock = clock
        self._remote = remote
        self._local = local
        self._backoff = Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._leader_news = asyncio.Event()
        self._under_way: dict[asyncio.Future[Any], int] = {}
        """Calls to other nodes, and to which one."""

    def leader_changed(self, leader_id: int) -> None:
        """The quorum has a leader: it is asked at once, and what waits for another node is left."""
        if leader_id == NO_LEADER:
            return
        self._leader_news.set()
        self._leader_news = asyncio.Event()
        for call, asked_id in self._under_way.items():
            if asked_id != leader_id:
                call.cancel()

    async def call(self, request: Any, timeout_ms: int = CALL_TIMEOUT_MS) -> Any:
        """The controller's answer. No leader, NOT_CONTROLLER and broken connections are retried in that time.

        An earlier attempt may have been carried out already: the answer of a later one is then read for both.
        """
        api = BY_REQUEST.get(type(request))
        deadline_ms = self._clock.now_ms() + timeout_ms
        last: ApiError = NotControllerError("the quorum has no leader")
        is_repetition, failures = False, 0
        while True:
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                raise RequestTimedOutError(f"no answer from the controller within {timeout_ms} ms: {last}")
            is_asked = self._quorum.leader_id != NO_LEADER
            try:
                answer = await self._once(request, left_ms)
                return api.answer_to_both(request, answer) if is_repetition and api is not None else answer
            except (NotControllerError, NetworkError) as error:
                last = error
                is_repetition |= is_asked  # NOT_CONTROLLER, too, may come after the records were proposed
            failures = 0 if await self._pause(failures + 1) else failures + 1

    async def _pause(self, failures: int) -> bool:
        """Waits before the next attempt; True when the news of a leader ended the wait."""
        news = self._leader_news
        try:
            async with asyncio.timeout(self._backoff.wait_ms(failures) / 1000):
                return await news.wait()
        except TimeoutError:
            return False

    async def _once(self, request: Any, timeout_ms: int) -> Any:
        leader_id = self._quorum.leader_id
        if leader_id == NO_LEADER:
            raise NotControllerError("the quorum has no leader")
        if leader_id == self._node_id and self._local is not None:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await self._local(request)
            except TimeoutError as error:  # a typed error, as from a remote controller: the callers know no other
                raise RequestTimedOutError(
                    f"the controller on this node did not answer within {timeout_ms} ms"
                ) from error
        return await self._ask(leader_id, request, timeout_ms)

    async def _ask(self, leader_id: int, request: Any, timeout_ms: int) -> Any:
        call = asyncio.ensure_future(self._remote(leader_id, request, timeout_ms))
        self._under_way[call] = leader_id
        try:
            await asyncio.wait((call,))
            if call.cancelled():
                raise NetworkError(f"controller {leader_id} did not answer, and does not lead any more")
            return call.result()
        finally:
            del self._under_way[call]
            call.cancel()
