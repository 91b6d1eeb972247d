"""Reads a cluster as a plan needs it: brokers, partitions, and how large they are as far as brokers say.

Not here: the plan (penstock/balance/).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import PartitionInfo, TopicDescription
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.types import TopicPartition


class SizesUnknownError(PenstockError):
    """Bytes cannot be evened, because the sizes of some partitions are not known."""


def read_cluster(admin: Admin, draining: Collection[int] = ()) -> ClusterState:
    """The brokers and every partition as they are now; these brokers are to be drained."""
    brokers = tuple(
        BalancedBroker(broker.node_id, broker.rack, not broker.fenced, broker.node_id in draining)
        for broker in admin.describe_cluster().brokers
    )
    log_dirs = admin.describe_log_dirs()
    topics = admin.describe_topics()
    partitions = tuple(_partition(topic, info, log_dirs) for topic in topics for info in topic.partitions)
    return ClusterState(brokers, partitions)


def check_sizes(state: ClusterState) -> None:
    """SizesUnknownError unless the size of every partition is known."""
    unknown = [partition.name for partition in state.partitions if partition.size_bytes is None]
    if unknown:
        raise SizesUnknownError(
            f"the sizes of {len(unknown)} partitions are not known, one is {unknown[0]}: `penstock log-dirs` names the"
            " brokers that do not say; start them, or leave bytes out of --by"
        )


def _partition(
    topic: TopicDescription, info: PartitionInfo, log_dirs: Mapping[int, BrokerLogDirs]
) -> BalancedPartition:
    from penstock import TopicPartition

    target = tuple(replica for replica in info.replicas if replica not in info.removing_replicas)
    size = _size(TopicPartition(topic.name, info.partition), topic.topic_id, info, log_dirs)
    return BalancedPartition(topic.name, info.partition, target, info.leader_id, size, info.is_reassigning)


def _size(tp: TopicPartition, topic_id: str, info: PartitionInfo, log_dirs: Mapping[int, BrokerLogDirs]) -> int | None:
    """Of the leader's log; where its broker does not say, of the largest other replica's."""
    known = {
        broker_id: log_dirs[broker_id].size_of(tp, topic_id) for broker_id in info.replicas if broker_id in log_dirs
    }
    of_leader = known.get(info.leader_id)
    if of_leader is not None:
        return of_leader
    return max((size for size in known.values() if size is not None), default=None)
