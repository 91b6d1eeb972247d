"""Judges one broker's answer to Metadata: one that is older than what was seen is refused, so that another is asked.

An answer of a broker that has not heard from a working quorum for METADATA_OLD_MS counts only when the other addresses
were asked as well: that broker is cut off, or the quorum is down. Not here: whom to ask (cluster.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from penstock.client.cluster.metadata_cache import METADATA_OLD_MS, MetadataCache
from penstock.client.wire.connection import Connection
from penstock.errors import ReplicaNotAvailableError
from penstock.messages.metadata import MetadataResponse

METADATA_ATTEMPT_MS = 3_000


def metadata_question(
    cache: MetadataCache, names: Sequence[str] | None, include_log_dirs: bool, count_addresses: Callable[[], int]
) -> Callable[[Connection, int], Awaitable[MetadataResponse]]:
    """The question about these topics (None: all) for `AnyNode.ask`: a retriable error makes that ask on."""
    asked = 0

    async def ask(connection: Connection, timeout_ms: int) -> MetadataResponse:
        nonlocal asked
        asked += 1
        is_last = asked >= count_addresses()
        snapshot = await connection.metadata(names, min(timeout_ms, METADATA_ATTEMPT_MS), include_log_dirs)
        if why := cache.why_stale(snapshot):
            raise ReplicaNotAvailableError(f"{connection.endpoint} is behind: it has {why}")
        if snapshot.metadata_age_ms >= METADATA_OLD_MS and not is_last:
            age = f"has not heard from the quorum for {snapshot.metadata_age_ms} ms"
            raise ReplicaNotAvailableError(f"{connection.endpoint} {age}")
        return snapshot

    return ask
