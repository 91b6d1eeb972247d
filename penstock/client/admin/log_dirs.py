"""Asks brokers what they have in their log dirs (KIP-113), has them move replicas between these, and says how far the
replicas are that move to other brokers.

Each broker knows only its own; one that does not answer has an error in its place. Not here: which replicas move (the
metadata says that).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.client.admin.cluster_views import every_view, not_here
from penstock.client.admin.log_dir_info import LogDirInfo, log_dir_info
from penstock.client.cluster.arguments import MAX_INT32, checked_number, checked_topic
from penstock.client.cluster.cluster import ClusterClient
from penstock.errors import ApiError, BrokerIdNotRegisteredError, ConfigError, NetworkError, UnknownServerError
from penstock.lazy_dataclass import dataclass
from penstock.messages.admin_apis import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS
from penstock.messages.elections import NamedPartitions
from penstock.messages.log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from penstock.messages.metadata import BrokerInfo, PartitionInfo
from penstock.types import TopicPartition

TOPICS_NAMED_MAX = 1_000
"""A broker takes this many names; above it, every topic is asked for."""
REPLICAS_MAX = 100
"""Limit for one request to move replicas: each costs the broker's disk some syncs before the answer."""


@dataclass(frozen=True, slots=True)
class BrokerLogDirs:
    """The log dirs of one broker, or why it does not say."""

    node_id: int
    log_dirs: tuple[LogDirInfo, ...] = ()
    error: ApiError | None = None

    def size_of(self, partition: TopicPartition, topic_id: str) -> int | None:
        """The size of the broker's replica, in bytes: 0 where it has none, None where it does not say."""
        found = (log_dir.replicas.get(partition) for log_dir in self.log_dirs)
        sizes = [replica.size_bytes for replica in found if replica is not None and replica.topic_id == topic_id]
        return None if self.error is not None else sum(sizes)


@dataclass(frozen=True, slots=True)
class ReassignmentProgress:
    """How far one reassignment is. `left` has, for each replica that is coming and not in sync, the bytes that its copy
    is smaller than the leader's; None where a broker does not say."""

    partition: PartitionInfo
    size_bytes: int | None
    """The size of the leader's log."""
    left: Mapping[int, int | None]

    @property
    def left_bytes(self) -> int | None:
        """The bytes that all copies lack; None if one of them is not known."""
        known = [size for size in self.left.values() if size is not None]
        return sum(known) if len(known) == len(self.left) else None


def checked_choice(broker_ids: Iterable[int] | None, topics: Iterable[str]) -> tuple[set[int] | None, list[str]]:
    """The brokers and the topics that a user asks for; TypeError or ValueError if they cannot be."""
    named = [checked_topic(topic) for topic in topics]
    if broker_ids is None:
        return None, named
    return {checked_number("broker_ids", broker_id, 0, MAX_INT32) for broker_id in broker_ids}, named


async def describe_log_dirs(
    cluster: ClusterClient, broker_ids: Collection[int] | None, topics: Sequence[str], deadline_ms: int
) -> dict[int, BrokerLogDirs]:
    """The log dirs by broker id; None: of every registered broker. BrokerIdNotRegisteredError for an id that no broker
    has."""
    views = await every_view(cluster, deadline_ms)
    brokers = {broker.node_id: broker for broker in views.newest.brokers}
    for broker_id in broker_ids or ():
        _registered(views.newest.brokers, broker_id)
    named = topics if len(topics) <= TOPICS_NAMED_MAX else ()

    async def ask(broker: BrokerInfo) -> BrokerLogDirs:
        if broker.node_id in views.silent:
            return BrokerLogDirs(broker.node_id, error=NetworkError(views.silent[broker.node_id]))
        if not broker.host:
            return BrokerLogDirs(broker.node_id, error=not_here(broker.node_id))
        left_ms = min(max(deadline_ms - cluster.clock.now_ms(), 1), cluster.config.request_timeout_ms)
        try:
            request = DescribeLogDirsRequest(tuple(named))
            answer = await cluster.connection_to(broker.endpoint).call(DESCRIBE_LOG_DIRS, request, left_ms)
        except ApiError as error:
            return BrokerLogDirs(broker.node_id, error=error)
        if answer.node_id != broker.node_id:
            other = f"{broker.endpoint}: node {answer.node_id} answers in place of {broker.node_id}"
            return BrokerLogDirs(broker.node_id, error=UnknownServerError(other))
        return BrokerLogDirs(broker.node_id, tuple(map(log_dir_info, answer.log_dirs)))

    asked = sorted(brokers) if broker_ids is None else sorted(set(broker_ids))
    return {found.node_id: found for found in await asyncio.gather(*(ask(brokers[i]) for i in asked))}


def checked_moves(broker_id: int, wanted: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, str]:
    """The moves that a user wants; TypeError, ValueError or ConfigError if they cannot be."""
    checked_number("broker_id", broker_id, 0, MAX_INT32)
    for tp, path in wanted.items():
        checked_topic(tp.topic)
        checked_number("partition", tp.partition, 0, MAX_INT32)
        if not path:
            raise ConfigError(f"{tp}: give the path of a log dir, as describe_log_dirs tells it")
    return wanted


async def alter_replica_log_dirs(
    cluster: ClusterClient, broker_id: int, wanted: Mapping[TopicPartition, str], deadline_ms: int
) -> dict[TopicPartition, ApiError | None]:
    """The error of each replica, None: its move has begun, or it is there. BrokerIdNotRegisteredError; NetworkError."""
    views = await every_view(cluster, deadline_ms)
    broker = _registered(views.newest.brokers, broker_id)
    if broker_id in views.silent:
        raise NetworkError(views.silent[broker_id])
    if not broker.host:
        raise not_here(broker_id)
    answers: dict[TopicPartition, ApiError | None] = {}
    names = sorted(wanted)
    for at in range(0, len(names), REPLICAS_MAX):
        part = {tp: wanted[tp] for tp in names[at : at + REPLICAS_MAX]}
        left_ms = min(max(deadline_ms - cluster.clock.now_ms(), 1), cluster.config.request_timeout_ms)
        request = AlterReplicaLogDirsRequest(_by_dir(part))
        answer = await cluster.connection_to(broker.endpoint).call(ALTER_REPLICA_LOG_DIRS, request, left_ms)
        if answer.node_id != broker_id:
            raise UnknownServerError(f"{broker.endpoint}: node {answer.node_id} answers in place of {broker_id}")
        unsaid = UnknownServerError(f"broker {broker_id} says nothing of it")
        errors = {result.partition: result.error for result in answer.results}
        answers |= {tp: errors.get(tp, unsaid) for tp in part}
    return answers


def _by_dir(wanted: Mapping[TopicPartition, str]) -> tuple[AlterReplicaLogDir, ...]:
    """The log dirs, each with the replicas that are to move there."""
    dirs: dict[str, dict[str, list[int]]] = {}
    for tp, path in wanted.items():
        dirs.setdefault(path, {}).setdefault(tp.topic, []).append(tp.partition)
    return tuple(
        AlterReplicaLogDir(path, tuple(NamedPartitions(topic, tuple(found)) for topic, found in topics.items()))
        for path, topics in dirs.items()
    )


def _registered(brokers: Iterable[BrokerInfo], broker_id: int) -> BrokerInfo:
    by_id = {broker.node_id: broker for broker in brokers}
    if broker_id not in by_id:
        known = ", ".join(map(str, sorted(by_id)))
        raise BrokerIdNotRegisteredError(f"broker {broker_id} is not registered; these are: {known}")
    return by_id[broker_id]


def progress(
    moving: Mapping[TopicPartition, PartitionInfo],
    topic_ids: Mapping[str, str],
    log_dirs: Mapping[int, BrokerLogDirs],
) -> dict[TopicPartition, ReassignmentProgress]:
    """The progress of each partition that moves, by what the brokers say. Sizes are not exact where logs were compacted
    or begin at other segments; a copy that is in sync has nothing left."""

    def size(broker_id: int, tp: TopicPartition) -> int | None:
        known = log_dirs.get(broker_id)
        return known.size_of(tp, topic_ids[tp.topic]) if known is not None else None

    found = {}
    for tp, partition in moving.items():
        whole = size(partition.leader_id, tp)
        left: dict[int, int | None] = {}
        for broker_id in partition.adding_replicas:
            if broker_id not in partition.isr:
                copied = size(broker_id, tp)
                left[broker_id] = None if whole is None or copied is None else max(0, whole - copied)
        found[tp] = ReassignmentProgress(partition, whole, left)
    return found
