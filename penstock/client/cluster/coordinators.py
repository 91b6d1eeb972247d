"""Finds the brokers that coordinate groups, or transactional ids, and asks them: what Admin, the consumers of groups
and transactional producers share.

A coordinator is remembered until it no longer coordinates the id. Ids are put together by coordinator; what fails with
a retriable error (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, a broken connection) is asked again after a back-off,
within the deadline, so only what may be asked twice belongs here. A coordinator that is silent is left as soon as there
is another one. Belongs to one event loop. Not here: partitions' leaders (by_leader.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from penstock.client.cluster.any_node import SILENCE_MS
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import UNANSWERED, ServerErrors
from penstock.client.wire.connection import Connection
from penstock.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RequestTimedOutError,
    TimedOutError,
    UnknownServerError,
)
from penstock.messages.api import Api
from penstock.messages.groups.coordinators import CoordinatorType, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.messages.groups.group_apis import FIND_COORDINATOR
from penstock.types import Endpoint

IDS_PER_CALL_MAX = 100
"""Limit for one call; a coordinator is asked about more in several calls at the same time."""
KNOWN_MAX = 10_000
"""Coordinators that one client remembers; above it, all are forgotten and found again when they are needed."""

SOON = (CoordinatorLoadInProgressError, ConcurrentTransactionsError)
"""Errors of a coordinator that will answer soon, and so is not looked for again."""

A = TypeVar("A")
R = TypeVar("R")
_WORDS: Final = {
    CoordinatorType.GROUP: ("group", "group_id"),
    CoordinatorType.TRANSACTION: ("transactional id", "transactional_id"),
}
"""The word for an id, and the field of requests that has it."""

CoordinatorCall = Callable[[Connection, Sequence[str], int], Awaitable[Mapping[str, R | ApiError]]]
"""One call to one coordinator about these ids; the number is the time that is left, in ms."""


class Coordinators:
    """The coordinators of groups, or of transactional ids, as one client knows them."""

    def __init__(self, cluster: ClusterClient, kind: CoordinatorType = CoordinatorType.GROUP) -> None:
        self._cluster = cluster
        self._kind = kind
        self._what, self._field = _WORDS[kind]
        self._known: dict[str, int] = {}
        self._doubted: dict[str, int] = {}
        """The broker that was forgotten last, of ids whose coordinator has not answered since."""

    async def node_of(self, key: str, deadline_ms: int) -> int:
        """The broker that coordinates this id; raises its error if no broker does now."""
        found = (await self._nodes_of((key,), deadline_ms))[key]
        if isinstance(found, ApiError):
            raise found
        return found

    def forget(self, key: str) -> None:
        """The broker that coordinated it does so no more: it is looked for again before the next call. Another broker
        is asked first then: that one may be cut off from the others, and takes itself for the coordinator."""
        if (node := self._known.pop(key, None)) is not None:
            self._doubted[key] = node

    def known(self, key: str) -> int | None:
        """The broker that coordinated it when it was asked last; None where that is not known."""
        return self._known.get(key)

    def learn(self, key: str, node: int) -> None:
        """The broker that coordinates it, as another client has found."""
        self._known[key] = node
        self._doubted.pop(key, None)

    async def ask(self, api: Api[Any, A], request: Any, deadline_ms: int, *, attempts_max: int | None = None) -> A:
        """The answer of the coordinator of the request's id. Raises an error that retrying does not mend at once.
        Raises the last error that a broker returned at the deadline, or after `attempts_max` attempts; TimedOutError if
        nobody answered."""
        key: str = getattr(request, self._field)

        async def call(connection: Connection, ids: Sequence[str], left_ms: int) -> Mapping[str, A | ApiError]:
            return {key: await connection.call(api, request, left_ms)}

        answer = (await self.ask_each((key,), call, deadline_ms, attempts_max=attempts_max))[key]
        if isinstance(answer, UNANSWERED):
            raise TimedOutError(f"the coordinator of {self._what} {key!r} did not answer in time: {answer}") from answer
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def ask_each(
        self, ids: Iterable[str], call: CoordinatorCall[R], deadline_ms: int, *, attempts_max: int | None = None
    ) -> dict[str, R | ApiError]:
        """The answer about each id, in the order of the ids. In its place stands an error that retrying does not mend,
        or, at the deadline or after `attempts_max` attempts, the last error that a broker returned."""
        answers: dict[str, R | ApiError] = dict.fromkeys(ids, CoordinatorNotAvailableError())
        reported = ServerErrors[str]()
        missing, attempt = list(answers), 0
        while missing:
            attempt += 1
            answers |= await self._round(missing, call, deadline_ms)
            missing = [key for key in missing if self._is_to_be_asked_again(key, answers[key])]
            for key in missing:
                reported.note(key, answers[key])
            wait_ms = self._cluster.backoff.wait_ms(attempt)
            if self._cluster.clock.now_ms() + wait_ms >= deadline_ms or attempt == attempts_max:
                break
            if missing:
                await asyncio.sleep(max(wait_ms, 1) / 1000)
        return {
            key: reported.for_user(key, found) if isinstance(found, ApiError) else found
            for key, found in answers.items()
        }

    def _is_to_be_asked_again(self, key: str, answer: object) -> bool:
        if not isinstance(answer, ApiError) or not answer.retriable:
            self._doubted.pop(key, None)
            return False
        if not isinstance(answer, SOON):
            self.forget(key)
        return True

    async def _round(self, ids: Sequence[str], call: CoordinatorCall[R], deadline_ms: int) -> dict[str, R | ApiError]:
        """One attempt for each id, all coordinators at the same time."""
        answers: dict[str, R | ApiError] = {}
        by_node: dict[int, list[str]] = {}
        for key, node in (await self._nodes_of(ids, deadline_ms)).items():
            if isinstance(node, ApiError):
                answers[key] = node
            else:
                by_node.setdefault(node, []).append(key)
        parts = [
            (node, named[at : at + IDS_PER_CALL_MAX])
            for node, named in by_node.items()
            for at in range(0, len(named), IDS_PER_CALL_MAX)
        ]
        for answered in await asyncio.gather(*(self._ask_one(node, named, call, deadline_ms) for node, named in parts)):
            answers |= answered
        return answers

    async def _ask_one(
        self, node: int, ids: Sequence[str], call: CoordinatorCall[R], deadline_ms: int
    ) -> dict[str, R | ApiError]:
        """One call to one coordinator. A call that fails as a whole has failed for each id."""
        try:
            connection = await self._connection(node, deadline_ms)
            left_ms = min(self._left_ms(deadline_ms), self._cluster.config.request_timeout_ms)
            asked = asyncio.ensure_future(call(connection, ids, left_ms))
            answers = await self._answer_or_another(node, ids[0], asked, deadline_ms)
        except ApiError as error:
            return dict.fromkeys(ids, error)
        unsaid = UnknownServerError(f"node {node} was asked about a {self._what}, and says nothing of it")
        return {key: answers.get(key, unsaid) for key in ids}

    async def _answer_or_another(
        self, node: int, key: str, asked: asyncio.Future[Mapping[str, R | ApiError]], deadline_ms: int
    ) -> Mapping[str, R | ApiError]:
        """A coordinator that is silent may hang: it is left once another one is named."""
        try:
            while True:
                done, _ = await asyncio.wait((asked,), timeout=SILENCE_MS / 1000)
                if done:
                    return asked.result()
                found = await self._find((key,), min(deadline_ms, self._cluster.clock.now_ms() + SILENCE_MS))
                now = found[key]
                if isinstance(now, int) and now != node and not asked.done():
                    raise NotCoordinatorError(f"node {node} was silent, node {now} coordinates {self._what} {key!r}")
        finally:
            asked.cancel()

    async def _connection(self, node: int, deadline_ms: int) -> Connection:
        """The connection to a broker; what is known of the cluster may be older than that broker."""
        connection = self._cluster.connection(node)
        if connection is None:
            await self._cluster.refresh(deadline_ms=deadline_ms)
            connection = self._cluster.connection(node)
        if connection is None:
            raise CoordinatorNotAvailableError(f"node {node} coordinates the {self._what}, and has no known address")
        return connection

    async def _nodes_of(self, ids: Sequence[str], deadline_ms: int) -> dict[str, int | ApiError]:
        nodes: dict[str, int | ApiError] = {key: self._known[key] for key in ids if key in self._known}
        unknown = [key for key in ids if key not in nodes]
        found = await self._find(unknown, deadline_ms) if unknown else {}
        if len(self._known) + len(found) > KNOWN_MAX:
            self._known.clear()
            self._doubted.clear()
        self._known |= {key: node for key, node in found.items() if isinstance(node, int)}
        return nodes | found

    async def _find(self, ids: Sequence[str], deadline_ms: int) -> dict[str, int | ApiError]:
        """The coordinator of each id, as any broker says; an error for an id without one."""
        found: dict[str, int | ApiError] = dict.fromkeys(ids, CoordinatorNotAvailableError())
        doubted = (self._cluster.cache.endpoint(self._doubted[key]) for key in ids if key in self._doubted)
        avoid = {endpoint for endpoint in doubted if endpoint is not None}
        try:
            for at in range(0, len(ids), IDS_PER_CALL_MAX):
                request = FindCoordinatorRequest(tuple(ids[at : at + IDS_PER_CALL_MAX]), self._kind)
                answer = await self._ask_any(request, deadline_ms, avoid)
                found |= {one.key: one.node_id if one.error is None else one.error for one in answer.coordinators}
                if any(one.error is not None for one in answer.coordinators):
                    self._cluster.ask_another()
        except ApiError as error:
            return dict.fromkeys(ids, error)
        except TimedOutError as error:
            return dict.fromkeys(ids, RequestTimedOutError(str(error)))
        return found

    async def _ask_any(
        self, request: FindCoordinatorRequest, deadline_ms: int, avoid: Collection[Endpoint]
    ) -> FindCoordinatorResponse:
        return await self._cluster.any_node.ask(
            lambda connection, ms: connection.call(FIND_COORDINATOR, request, ms),
            deadline_ms,
            read_only=True,
            avoid=avoid,
        )

    def _left_ms(self, deadline_ms: int) -> int:
        return max(deadline_ms - self._cluster.clock.now_ms(), 1)

    def __repr__(self) -> str:
        return f"Coordinators({len(self._known)})"
