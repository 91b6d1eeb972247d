"""Asks brokers for their metadata, and waits until every broker in service has heard of a change.

The change is made before the wait begins, and the wait ends at the deadline of the whole call: the error says so. A
broker that does not answer is not waited for. It reads the whole metadata when it comes back. Not here: the changes
(async_admin.py, configs.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from penstock.client.cluster.cluster import METADATA_ATTEMPT_MS, ClusterClient
from penstock.client.wire.messages import ClusterSnapshot
from penstock.errors import ApiError, TimedOutError
from penstock.types import Endpoint

VISIBLE_POLL_MS = 20
"""How often brokers are asked whether they have heard of a change; it takes a few milliseconds on a healthy cluster."""


async def wait_heard(
    cluster: ClusterClient,
    topics: Sequence[str],
    deadline_ms: int,
    is_heard: Callable[[Sequence[ClusterSnapshot]], bool],
    late: str,
) -> list[ClusterSnapshot]:
    """The answers of the brokers in service, at least one, once `is_heard` says that they have the change.

    TimedOutError, at the deadline: `late`.
    """
    while True:
        try:
            await cluster.refresh(deadline_ms=deadline_ms)
        except (TimedOutError, ApiError) as error:
            if isinstance(error, ApiError) and not error.retriable:
                raise
            raise TimedOutError(late) from error
        in_service = [broker.endpoint for broker in cluster.cache.brokers if not broker.fenced]
        answers = await ask_brokers(cluster, in_service, topics, deadline_ms)
        if answers and is_heard(answers):
            return answers
        if cluster.clock.now_ms() >= deadline_ms:
            raise TimedOutError(late)
        await asyncio.sleep(VISIBLE_POLL_MS / 1000)


async def ask_brokers(
    cluster: ClusterClient, endpoints: Iterable[Endpoint], topics: Sequence[str], deadline_ms: int
) -> list[ClusterSnapshot]:
    """The metadata of each broker that answers, in the order given."""
    timeout_ms = min(max(deadline_ms - cluster.clock.now_ms(), 1), METADATA_ATTEMPT_MS)

    async def ask(endpoint: Endpoint) -> ClusterSnapshot | None:
        try:
            return await cluster.connection_to(endpoint).metadata(topics, timeout_ms)
        except ApiError:
            return None

    answers = await asyncio.gather(*map(ask, endpoints))
    return [answer for answer in answers if answer is not None]
