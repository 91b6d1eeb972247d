"""Reads a cluster as a plan needs it: brokers, partitions, and how large they are as far as brokers say.

Not here: what a plan takes of the answers (penstock/client/admin/cluster_state.py), and the plan (penstock/balance/).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.errors import PenstockError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from penstock.balance.cluster import BalancedPartition, ClusterState
    from penstock.client.admin.admin import Admin
    from penstock.client.admin.admin_types import TopicDescription
    from penstock.types import TopicPartition

ASKED_FOR_EACH_MAX = 50
"""Limit for topics that are asked for one by one; of more topics, all are asked for at once."""


class SizesUnknownError(PenstockError):
    """Bytes cannot be evened, because the sizes of some partitions are not known."""


def read_cluster(admin: Admin, draining: Collection[int] = ()) -> ClusterState:
    """The brokers and every partition as they are now; these brokers are to be drained."""
    from penstock.client.admin.cluster_state import cluster_state

    return cluster_state(
        admin.describe_cluster().brokers,
        topics=admin.describe_topics(),
        log_dirs=admin.describe_log_dirs(),
        draining=draining,
    )


def read_partitions(admin: Admin, topics: Collection[str]) -> dict[TopicPartition, BalancedPartition]:
    """The partitions of these topics as they are now, without sizes; a topic that was deleted has none."""
    from penstock import TopicPartition
    from penstock.client.admin.cluster_state import balanced_partitions

    if len(topics) <= ASKED_FOR_EACH_MAX:
        described = [topic for name in sorted(topics) if (topic := _described(admin, name)) is not None]
    else:
        described = [topic for topic in admin.describe_topics() if topic.name in topics]
    return {TopicPartition(each.topic, each.index): each for each in balanced_partitions(described, {})}


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
