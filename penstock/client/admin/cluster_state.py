"""A cluster as a plan needs it, from the answers of Admin: brokers, partitions, and how large they are. Pure.

Not here: the questions, which a blocking and an async client ask each in its own way, and the plan (penstock/balance/).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState
from penstock.client.admin.admin_types import TopicDescription
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.messages.metadata import BrokerInfo, PartitionInfo
from penstock.types import TopicPartition


def cluster_state(
    brokers: Iterable[BrokerInfo],
    topics: Iterable[TopicDescription],
    log_dirs: Mapping[int, BrokerLogDirs],
    draining: Collection[int] = (),
) -> ClusterState:
    """The brokers, of which these are to be drained, and every partition."""
    balanced = tuple(
        BalancedBroker(broker.node_id, broker.rack, not broker.fenced, broker.node_id in draining, broker.cordoned)
        for broker in brokers
    )
    return ClusterState(balanced, tuple(balanced_partitions(topics, log_dirs)))


def balanced_partitions(
    topics: Iterable[TopicDescription], log_dirs: Mapping[int, BrokerLogDirs]
) -> Iterator[BalancedPartition]:
    """Every partition of the topics."""
    return (_partition(topic, info, log_dirs) for topic in topics for info in topic.partitions)


def _partition(
    topic: TopicDescription, info: PartitionInfo, log_dirs: Mapping[int, BrokerLogDirs]
) -> BalancedPartition:
    target = tuple(replica for replica in info.replicas if replica not in info.removing_replicas)
    size = _size(TopicPartition(topic.name, info.partition), topic.topic_id, info, log_dirs)
    return BalancedPartition(
        topic=topic.name,
        index=info.partition,
        replicas=target,
        leader_id=info.leader_id,
        size_bytes=size,
        moving=info.is_reassigning,
        topic_id=topic.topic_id,
    )


def _size(tp: TopicPartition, topic_id: str, info: PartitionInfo, log_dirs: Mapping[int, BrokerLogDirs]) -> int | None:
    """The size of the leader's log; where its broker does not say, of the largest other replica's."""
    known = {
        broker_id: log_dirs[broker_id].size_of(tp, topic_id) for broker_id in info.replicas if broker_id in log_dirs
    }
    of_leader = known.get(info.leader_id)
    if of_leader is not None:
        return of_leader
    return max((size for size in known.values() if size is not None), default=None)
