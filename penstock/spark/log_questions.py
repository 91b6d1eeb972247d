"""The Spark source's questions to a cluster: topics, offsets, where epochs end; on one event loop.

An answer that is older than a checkpoint is no answer. So what a checkpoint has seen is told to the client first
(`remember`): from then on a broker that has heard less of the metadata, or leads in an older epoch, is passed over
until the time is up. That a topic was deleted is believed only of a broker that has heard from a working quorum just
now, and no less than any other that answers (`newest_topics`). Loads gRPC: imported in functions (log_client.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.client.admin.cluster_views import every_view
from penstock.client.admin.groups.committed import commit_offsets, offsets_of
from penstock.client.cluster.arguments import checked_topic
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import Coordinators
from penstock.client.cluster.metadata_cache import METADATA_OLD_MS
from penstock.client.cluster.offsets import epoch_ends, list_offsets
from penstock.errors import ReplicaNotAvailableError, UnknownTopicOrPartitionError
from penstock.messages.metadata import TopicInfo
from penstock.spark.planning import BrokerBehindError, OffsetAt, PlannedTopic
from penstock.spark.positions import SourcePositions
from penstock.types import LATEST_TIMESTAMP, CommittedOffset, EpochEndOffset, MetadataOffset, TopicPartition

COMMIT_MS = 5_000
"""A commit that tools look at holds up a micro-batch no longer."""


class LogQuestions:
    """The questions of one process; each takes `timeout_ms` at most. `read_committed`: logs end at their last stable
    offsets."""

    def __init__(self, cluster: ClusterClient, timeout_ms: int, *, read_committed: bool = True) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._timeout_ms = timeout_ms
        self._coordinators = Coordinators(cluster)

    def _deadline_ms(self) -> int:
        return self._cluster.clock.now_ms() + self._timeout_ms

    async def remember(self, positions: SourcePositions) -> None:
        """No answer counts from now on that is older than these positions."""
        cache = self._cluster.cache
        cache.note_offset(*positions.metadata)
        for tp, position in positions.items():
            cache.note_epoch(tp, positions.topic_id(tp.topic), position.leader_epoch)

    async def seen(self) -> MetadataOffset:
        """How far the newest answer had heard."""
        return self._cluster.cache.seen

    async def list_topics(self) -> list[str]:
        return sorted(topic.name for topic in await self._topics(None) if topic.error is None)

    async def describe(self, names: Iterable[str]) -> dict[str, PlannedTopic]:
        """The topics that exist."""
        wanted = sorted({checked_topic(name) for name in names})
        found = {}
        for topic in await self._topics(wanted) if wanted else ():
            if topic.error is None:
                found[topic.name] = PlannedTopic(topic.name, topic.topic_id, len(topic.partitions))
            elif not isinstance(topic.error, UnknownTopicOrPartitionError):
                raise topic.error
        return found

    async def _topics(self, names: Sequence[str] | None) -> tuple[TopicInfo, ...]:
        with _behind():
            return await self._cluster.list_topics(self._deadline_ms(), names)

    async def newest_topics(self, names: Iterable[str]) -> dict[str, PlannedTopic]:
        """The topics that exist, as a broker has them that hears from a working quorum, and no less than any other."""
        deadline_ms, attempt = self._deadline_ms(), 0
        await self._cluster.wait_ready()
        while True:
            attempt += 1
            views = await every_view(self._cluster, deadline_ms)  # from now on an older answer is stale
            age_ms = min(status.metadata_age_ms for status in views.statuses)
            if age_ms < METADATA_OLD_MS:
                return await self.describe(names)
            wait_ms = self._cluster.backoff.wait_ms(attempt)
            if self._cluster.clock.now_ms() + wait_ms >= deadline_ms:
                asked = ", ".join(f"node {status.node_id}" for status in views.statuses)
                raise BrokerBehindError(
                    f"whether topic {', '.join(names)} was deleted cannot be told: {asked} answered, and none has heard"
                    f" from the metadata quorum for {age_ms} ms. Nothing was skipped: start the other nodes, or mend"
                    " the network between them, and start the query again"
                )
            await asyncio.sleep(max(wait_ms, 1) / 1000)

    async def list_offsets(self, at_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        with _behind():
            answers = await list_offsets(self._cluster, at_ms, self._timeout_ms, read_committed=self._read_committed)
        return {tp: OffsetAt(answer.offset, answer.leader_epoch) for tp, answer in answers.items()}

    async def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of the logs for a reader of uncommitted records."""
        wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        with _behind():
            answers = await list_offsets(self._cluster, wanted, self._timeout_ms, read_committed=False)
        return {tp: answer.offset for tp, answer in answers.items()}

    async def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
        """The offsets that a group has committed; partitions without one are left out."""
        found = await offsets_of(self._coordinators, group_id, self._deadline_ms())
        return {tp: OffsetAt(found[tp].offset, found[tp].leader_epoch) for tp in partitions if tp in found}

    async def commit(self, group_id: str, positions: SourcePositions) -> None:
        """Commits them to a group without members. A topic that is gone is left out."""
        deadline_ms = self._cluster.clock.now_ms() + min(COMMIT_MS, self._timeout_ms)
        places = {tp: CommittedOffset(place.offset, place.leader_epoch) for tp, place in positions.items()}
        errors = await commit_offsets(self._coordinators, group_id, places, deadline_ms)
        for error in errors.values():
            if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
                raise error

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEndOffset]:
        with _behind():
            return await epoch_ends(self._cluster, epochs, self._timeout_ms, topic_ids)


@contextmanager
def _behind() -> Iterator[None]:
    """Every broker that answered until the deadline was behind: an error of its own, never a loss."""
    try:
        yield
    except ReplicaNotAvailableError as error:
        raise BrokerBehindError(
            f"no broker that answers is as new as the checkpoint: {error}. Nothing was skipped: start the other brokers"
            " or mend the network between them, and start the query again. If the cluster's metadata was put back from"
            " an older copy, begin with a new checkpointLocation"
        ) from error
