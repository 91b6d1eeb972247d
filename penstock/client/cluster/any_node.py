"""Asks any node of the cluster: the first one that answers, one after the other, until a deadline.

A broker that hangs answers nothing and refuses nothing, so a question that changes nothing and is not answered within
SILENCE_MS is put to the next node too, and the first answer counts. Belongs to one event loop. Not here: the choice of
the node (node_choice.py), and questions to a partition's leader (by_leader.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from penstock.backoff import Backoff
from penstock.client.cluster.error_meaning import UNANSWERED, ServerErrors
from penstock.client.cluster.node_choice import NodeChoice
from penstock.client.wire.connection import Connection
from penstock.clock import Clock
from penstock.errors import ApiError, PenstockError, TimedOutError
from penstock.types import Endpoint

SILENCE_MS = 500
"""A node that has not answered for this long may hang: another one is asked too. Far above a healthy answer, and far
below the session time-out after which the cluster itself gives up a node."""

ATTEMPT_MS_MIN = 100
"""The time below which no further attempt is made."""

T = TypeVar("T")


class AnyNode:
    """Asks one node after the other, until one answers or the deadline is reached."""

    def __init__(
        self,
        connection_to: Callable[[Endpoint], Connection],
        live: Callable[[], tuple[Endpoint, ...]],
        choice: NodeChoice,
        clock: Clock,
        backoff: Backoff,
        request_timeout_ms: int,
    ) -> None:
        """`live`: the addresses of the brokers in service, as far as is known."""
        self._connection_to, self._live, self._choice = connection_to, live, choice
        self._clock, self._backoff, self._request_timeout_ms = clock, backoff, request_timeout_ms

    async def ask(
        self,
        ask: Callable[[Connection, int], Awaitable[T]],
        deadline_ms: int,
        *,
        read_only: bool = False,
        avoid: Collection[Endpoint] = (),
    ) -> T:
        """The answer of any node. After a retriable error the next node is asked, until the deadline.

        A `read_only` question is also put to the next node when one is silent for SILENCE_MS; a change may not be made
        twice. The nodes in `avoid` are asked only when the first other one failed: the others may be gone.
        """
        asked: dict[asyncio.Future[T], Endpoint] = {}
        reported = ServerErrors[Endpoint]()
        attempt = 0
        preferred: Endpoint | None = None
        try:
            while True:
                endpoint = preferred or self._choice.next(self._live(), asked.values(), () if attempt else avoid)
                if endpoint is not None:
                    attempt += 1
                    question = ask(self._connection_to(endpoint), self._left_ms(deadline_ms))
                    asked[asyncio.ensure_future(question)] = endpoint
                preferred = None
                answered = await _first_done(asked, SILENCE_MS if read_only and endpoint is not None else None)
                if answered is None:
                    if endpoint is not None:
                        self._choice.missed(endpoint, self._live())
                    continue
                endpoint = asked.pop(answered)
                error = answered.exception()
                if error is None:
                    self._choice.answered(endpoint)
                    return answered.result()
                preferred = self._next_after(error := _retriable(error), endpoint)
                reported.note(endpoint, error)
                if await self._is_over(attempt, preferred is not None, deadline_ms):
                    raise _for_user(reported.of_any(error), attempt)
        finally:
            for unanswered in asked:
                unanswered.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def _left_ms(self, deadline_ms: int) -> int:
        """How long one attempt may take."""
        return min(max(deadline_ms - self._clock.now_ms(), 1), self._request_timeout_ms)

    def _next_after(self, error: ApiError, endpoint: Endpoint) -> Endpoint | None:
        """The address that an error points to, if any."""
        self._choice.missed(endpoint, self._live())
        return error.leader.endpoint if error.leader is not None and error.leader.endpoint != endpoint else None

    async def _is_over(self, attempt: int, is_hinted: bool, deadline_ms: int) -> bool:
        """Backs off once every node was asked; True at the deadline, or when so little is left that one more attempt
        would end without an answer, and hide the reason that the last one gave."""
        nodes = len(self._choice.candidates(self._live()))
        wait_ms = self._backoff.wait_ms(1 + attempt // nodes) if attempt >= nodes else 0
        if self._clock.now_ms() + wait_ms + ATTEMPT_MS_MIN >= deadline_ms:
            return True
        if wait_ms and not is_hinted:
            await asyncio.sleep(wait_ms / 1000)
        return False

    def __repr__(self) -> str:
        return f"AnyNode({self._choice!r})"


async def _first_done(asked: Collection[asyncio.Future[T]], patience_ms: int | None) -> asyncio.Future[T] | None:
    """The first question, in the order of asking, that has an answer; None if no answer comes in time."""
    patience = None if patience_ms is None else patience_ms / 1000
    done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    return next((question for question in asked if question in done), None)


def _retriable(error: BaseException) -> ApiError:
    """The error if the next node may do better; raises any other."""
    if not isinstance(error, ApiError) or not error.retriable:
        raise error
    return error


def _for_user(error: ApiError, attempts: int) -> PenstockError:
    if isinstance(error, UNANSWERED):
        late = TimedOutError(f"no broker answered in time ({attempts} attempts); the last said: {error}")
        late.__cause__ = error
        return late
    return error
