"""One request of any broker: a question, or a change of the metadata, which it forwards to the active controller.

A change whose answer was lost is repeated. The answer to the repetition is then read as one to both attempts, as the
API's row says: what the first attempt may have done is no error of the second. Not here: the wait until every broker
has heard of the change (configs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import ANSWER_GRACE_MS, Connection
from penstock.errors import ApiError
from penstock.messages.api import Api

A = TypeVar("A")


async def ask(cluster: ClusterClient, api: Api[Any, A], request: Any, deadline_ms: int) -> A:
    """Any broker's answer to a question; it is put to the next one, too, when one is silent."""
    return await cluster.any_node.ask(lambda c, ms: c.call(api, request, ms), deadline_ms, read_only=True)


def unjudged(answer: Any) -> None:
    """Judges no answer: any answer ends the attempts."""


async def change(
    cluster: ClusterClient,
    api: Api[Any, A],
    request: Any,
    deadline_ms: int,
    judge: Callable[[A], None] = unjudged,
) -> A:
    """The answer to the request. `judge` raises the error of an answer that is to be asked for again, or is final."""
    maybe_done = False  # an attempt failed, and its outcome is unknown

    async def ask(connection: Connection, timeout_ms: int) -> A:
        nonlocal maybe_done
        try:
            wait_ms = timeout_ms - min(ANSWER_GRACE_MS, timeout_ms // 3)  # so that its reason comes before we give up
            answer = await connection.call(api, replace(request, timeout_ms=wait_ms), timeout_ms)
            answer = api.answer_to_both(request, answer) if maybe_done else answer
            judge(answer)
            return answer
        except ApiError as error:
            maybe_done = maybe_done or outcome_unknown(error)
            raise

    return await cluster.any_node.ask(ask, deadline_ms)
