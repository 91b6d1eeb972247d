"""Says of each subscribed topic that does not exist that it is waited for: a slip in a name would be silence else.

Once a topic, as long as the consumer lives, and not before a topic that was just created had time to be known
everywhere. A topic that comes later is read then. Works on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from penstock.client.cluster.cluster import UNKNOWN_TOPIC_GRACE_MS, ClusterClient
from penstock.errors import PenstockError, UnknownTopicOrPartitionError

_log = logging.getLogger(__name__)


class MissingTopics:
    """The missing topics of one consumer."""

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self._cluster, self._group_id = cluster, group_id
        self._told: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    def look(self, topics: Iterable[str]) -> None:
        """Looks for these in the background; a look that is under way ends."""
        if self._looking is not None:
            self._looking.cancel()
        wanted = {topic for topic in topics if topic not in self._told and self._cluster.cache.topic(topic) is None}
        self._looking = asyncio.ensure_future(self._look(wanted)) if wanted else None

    async def _look(self, wanted: set[str]) -> None:
        deadline_ms, attempt = self._cluster.clock.now_ms() + UNKNOWN_TOPIC_GRACE_MS, 0
        while wanted:
            attempt += 1
            try:
                answer = await self._cluster.refresh(wanted)
            except PenstockError:
                return  # whoever waits for records is told of what keeps the cluster from answering
            wanted = {t.name for t in answer.topics if isinstance(t.error, UnknownTopicOrPartitionError)} & wanted
            if self._cluster.clock.now_ms() >= deadline_ms:
                break
            await asyncio.sleep(max(self._cluster.backoff.wait_ms(attempt), 1) / 1000)
        for topic in sorted(wanted):
            self._told.add(topic)
            _log.warning(
                "group %s: topic %s does not exist: it is read once it does (penstock topics create %s)",
                self._group_id,
                topic,
                topic,
            )

    async def close(self) -> None:
        """Ends what is under way. Idempotent."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def __repr__(self) -> str:
        return f"MissingTopics({sorted(self._told)})"
