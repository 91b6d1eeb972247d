"""The half of AsyncAdmin that asks about the cluster: its brokers, health, quorum, metadata and log dirs."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from penstock.client.admin.admin_types import (
    BrokerDescription,
)
from penstock.client.admin.brokers import describe_brokers, forget_broker
from penstock.client.admin.cluster_views import every_view, newest_view, quorum_view
from penstock.client.admin.health import ClusterHealth, judge
from penstock.client.admin.log_dirs import BrokerLogDirs, alter_replica_log_dirs, describe_log_dirs
from penstock.client.admin.metadata_content import MetadataContent, MetadataDigest, content_of_one, digests_of_all
from penstock.client.cluster.arguments import (
    MAX_INT32,
    checked_number,
    checked_topic,
)
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.wire.messages import ClusterInfo, QuorumInfo
from penstock.errors import ApiError, ConfigError
from penstock.types import TopicPartition


class ClusterCalls(ABC):
    """See the module; async_admin.py has the other half, and makes the connections."""

    _cluster: ClusterClient

    @abstractmethod
    async def _begin(self) -> int:
        """Reaches the cluster for a call; the deadline of that call."""

    async def describe_cluster(self) -> ClusterInfo:
        """Id, controller and every registered broker, fenced ones too, by the broker that has heard the latest."""
        deadline_ms = await self._begin()
        return await newest_view(self._cluster, deadline_ms)

    async def describe_brokers(self) -> tuple[BrokerDescription, ...]:
        """Every registered broker by its id, fenced ones too, with the numbers of its replicas and leaders."""
        deadline_ms = await self._begin()
        return await describe_brokers(self._cluster, deadline_ms)

    async def unregister_broker(self, broker_id: int) -> None:
        """Forgets a broker that is gone for good: stopped, and without any replica. Over when all others know it.

        PolicyViolationError while it runs or has replicas: move them away first. A process with its id that comes back
        later is a new broker. A voter of the quorum that has the id stays one.
        """
        checked_number("broker_id", broker_id, 0, MAX_INT32)
        deadline_ms = await self._begin()
        await forget_broker(self._cluster, broker_id, deadline_ms)

    async def cluster_health(self) -> ClusterHealth:
        """What is wrong with the cluster, by what every broker says of itself, and what to do about it."""
        deadline_ms = await self._begin()
        views, quorum = every_view(self._cluster, deadline_ms), quorum_view(self._cluster, deadline_ms)
        return judge(*await asyncio.gather(views, quorum))

    async def describe_quorum(self) -> QuorumInfo:
        """The quorum's leader, voters and observers; without a leader, what a broker knows by itself."""
        deadline_ms = await self._begin()
        return await quorum_view(self._cluster, deadline_ms)

    async def metadata_digests(self, at_offset: int | None = None) -> tuple[MetadataDigest, ...]:
        """A digest of the cluster's metadata by the files of each registered broker, at one offset of the metadata log.

        None: the newest offset that every broker that answers has. At equal offsets all digests are equal.
        """
        offset = None if at_offset is None else checked_number("at_offset", at_offset, 0)
        deadline_ms = await self._begin()
        return await digests_of_all(self._cluster, offset, deadline_ms)

    async def describe_metadata(self, at_offset: int | None = None, node_id: int | None = None) -> MetadataContent:
        """The records that make the metadata at an offset, by the files of this broker, or of any. None: the newest
        offset that it has."""
        offset = None if at_offset is None else checked_number("at_offset", at_offset, 0)
        node = None if node_id is None else checked_number("node_id", node_id, 0, MAX_INT32)
        deadline_ms = await self._begin()
        return await content_of_one(self._cluster, offset, node, deadline_ms)

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None, topics: Iterable[str] = ()
    ) -> dict[int, BrokerLogDirs]:
        """What brokers have in their log dirs: of these, or of all; of these topics, or of all."""
        wanted = None if broker_ids is None else {checked_number("broker_ids", i, 0, MAX_INT32) for i in broker_ids}
        named = [checked_topic(topic) for topic in topics]
        deadline_ms = await self._begin()
        return await describe_log_dirs(self._cluster, wanted, named, deadline_ms)

    async def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        """Has a broker move replicas that it has to other log dirs of its own, given by their paths there.

        Each replica's error, or None: its move has begun and goes on by itself, also after a restart of the broker.
        `describe_log_dirs` tells how far it is. A replica that is in that log dir stays; a move of it ends.
        """
        checked_number("broker_id", broker_id, 0, MAX_INT32)
        for tp, path in wanted.items():
            checked_topic(tp.topic)
            checked_number("partition", tp.partition, 0, MAX_INT32)
            if not path:
                raise ConfigError(f"{tp}: give the path of a log dir, as describe_log_dirs tells it")
        deadline_ms = await self._begin()
        return await alter_replica_log_dirs(self._cluster, broker_id, wanted, deadline_ms)
