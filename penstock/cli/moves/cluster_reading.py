"""Reads a cluster as a plan needs it: brokers, partitions, and how large they are as far as brokers say.

Not here: the plan (penstock/balance/).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState
from penstock.errors import PenstockError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import PartitionInfo, TopicDescription
    from penstock.client.admin.log_dirs import BrokerLogDirs
    from penstock.types import TopicPartition

ASKED_FOR_EACH_MAX = 50
"""Limit for topics that are asked for one by one; of more topics, all are asked for at once."""


class SizesUnknownError(PenstockError):
    """Bytes cannot be evened, because the sizes of some partitions are not known."""


def read_cluster(admin: Admin, draining: Collection[int] = ()) -> ClusterState:
    """The brokers and every partition as they are now; these brokers are to be drained."""
    brokers = tuple(
        BalancedBroker(broker.node_id, broker.rack, not broker.fenced, broker.node_id in draining, broker.cordoned)
        for broker in admin.describe_cluster().brokers
    )
    log_dirs = admin.describe_log_dirs()
    return ClusterState(brokers, tuple(_partitions(admin.describe_topics(), log_dirs)))


def read_partitions(admin: Admin, topics: Collection[str]) -> dict[TopicPartition, BalancedPartition]:
    """The partitions of these topics as they are now, without sizes; a topic that was deleted has none."""
    from penstock import TopicPartition

    if len(topics) <= ASKED_FOR_EACH_MAX:
        described = [topic for name in sorted(topics) if (topic := _described(admin, name)) is not None]
    else:
        described = [topic for topic in admin.describe_topics() if topic.name in topics]
    return {TopicPartition(each.topic, each.index): each for each in _partitions(described, {})}


def check_sizes(state: ClusterState) -> None:
    """SizesUnknownError unless the size of every partition is known."""
    unknown = [partition.name for partition in state.partitions if partition.size_bytes is None]
    if unknown:
        raise SizesUnknownError(
            f"the sizes of {len(unknown)} partitions are not known, one is {unknown[0]}: `penstock log-dirs"
            " describe` names the brokers that do not say; start them, or leave bytes out of --by"
        )


def _described(admin: Admin, topic: str) -> TopicDescription | None:
    try:
        return admin.describe_topic(topic)
    except UnknownTopicOrPartitionError:
        return None


def _partitions(
    topics: Iterable[TopicDescription], log_dirs: Mapping[int, BrokerLogDirs]
) -> Iterator[BalancedPartition]:
    return (_partition(topic, info, log_dirs) for topic in topics for info in topic.partitions)


def _partition(
    topic: TopicDescription, info: PartitionInfo, log_dirs: Mapping[int, BrokerLogDirs]
) -> BalancedPartition:
    from penstock import TopicPartition

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
