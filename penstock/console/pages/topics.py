"""The topics: a page of them at a time, those whose name has the filter in it."""

from __future__ import annotations

import asyncio

from penstock.client.admin.admin_types import PartitionInfo, TopicDescription
from penstock.client.admin.log_dirs import BrokerLogDirs
from penstock.console.page import PageAsked, Slice
from penstock.console.pages.brokers import log_dirs_or_refusal
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic, in the words of `penstock topics list`."""

    topic: str
    partitions: int
    replicas: int
    in_trouble: int
    """Partitions without a leader, or with a replica that is not in sync."""
    size_bytes: int | None
    """The size of the leaders' logs; None where one is not known."""


@dataclass(frozen=True, slots=True)
class TopicsView:
    """One page of topics."""

    topics: tuple[TopicRow, ...]
    slice: Slice
    filter: str
    missing_right: str


async def show_topics(asked: PageAsked) -> TopicsView:
    """Asks for all names, and for more of those that are shown."""
    wanted = asked.fields.text("filter", "")
    names = [name for name in await asked.admin.list_topics() if wanted in name]
    part = Slice.of(len(names), asked.fields)
    shown = tuple(names[part.rows])
    if not shown:
        return TopicsView((), part, wanted, "")
    described, (log_dirs, refusal) = await asyncio.gather(
        asked.admin.describe_topics(shown), log_dirs_or_refusal(asked, None, shown)
    )
    return TopicsView(tuple(_row(topic, log_dirs) for topic in described), part, wanted, refusal)


def is_in_trouble(partition: PartitionInfo) -> bool:
    """True for a partition without a leader, or with a replica that is not in sync."""
    has_leader = partition.leader_id >= 0 and partition.error is None
    return not has_leader or len(partition.isr) < len(partition.replicas)


def leader_size(topic: TopicDescription, partition: PartitionInfo, log_dirs: dict[int, BrokerLogDirs]) -> int | None:
    """The size of the leader's log; None where its broker does not say."""
    dirs = log_dirs.get(partition.leader_id)
    return None if dirs is None else dirs.size_of(TopicPartition(topic.name, partition.partition), topic.topic_id)


def _row(topic: TopicDescription, log_dirs: dict[int, BrokerLogDirs]) -> TopicRow:
    sizes = [leader_size(topic, partition, log_dirs) for partition in topic.partitions]
    return TopicRow(
        topic=topic.name,
        partitions=topic.partition_count,
        replicas=topic.replication_factor,
        in_trouble=sum(map(is_in_trouble, topic.partitions)),
        size_bytes=None if None in sizes else sum(size for size in sizes if size is not None),
    )
