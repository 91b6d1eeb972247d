"""A simulated cluster of 1,000 topics of 12 partitions and 500 groups, as an admin client of it sees it at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.admin import (
    BrokerInfo,
    BrokerLogDirs,
    ClusterInfo,
    GroupDescription,
    GroupListing,
    GroupType,
    NodeStanding,
    OffsetInfo,
    PartitionInfo,
    PartitionLag,
    TopicDescription,
)
from penstock.types import CommittedOffset, TopicPartition

TOPICS, PARTITIONS, GROUPS, BROKERS = 1_000, 12, 500, 9
NAMES = [f"topic-{n:04}" for n in range(TOPICS)]
GROUP_IDS = [f"group-{n:03}" for n in range(GROUPS)]


class LargeCluster:
    """Answers at once, as an AsyncAdmin does."""

    def __init__(self) -> None:
        self.topics = {name: self._topic(number, name) for number, name in enumerate(NAMES)}

    def _topic(self, number: int, name: str) -> TopicDescription:
        replicas = [tuple((number + p + k) % BROKERS for k in range(3)) for p in range(PARTITIONS)]
        return TopicDescription(name, name, tuple(PartitionInfo(p, r[0], 1, 0, r, r) for p, r in enumerate(replicas)))

    async def describe_cluster(self) -> ClusterInfo:
        brokers = tuple(BrokerInfo(n, "h", 9192, f"rack-{n % 3}") for n in range(BROKERS))
        return ClusterInfo("c", 1, brokers, 0, NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ()))

    async def list_topics(self) -> list[str]:
        return NAMES

    async def describe_topic(self, name: str) -> TopicDescription:
        return self.topics[name]

    async def describe_topics(self, names: Any = None, *, ask_leaders: bool = True) -> list[TopicDescription]:
        return [self.topics[name] for name in (NAMES if names is None else names)]

    async def describe_log_dirs(self, brokers: Any = None, topics: Any = ()) -> dict[int, BrokerLogDirs]:
        return {}

    async def list_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetInfo]:
        return {tp: OffsetInfo(1, 0, 0) for tp in partitions}

    async def list_groups(self, states: Any = ()) -> list[GroupListing]:
        return [GroupListing(group, "Stable", GroupType.CONSUMER, "consumer", 1) for group in GROUP_IDS]

    async def group_lag(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        number = GROUP_IDS.index(group_id)
        tps = [TopicPartition(NAMES[(2 * number + k) % TOPICS], p) for k in range(2) for p in range(PARTITIONS)]
        return {tp: PartitionLag(CommittedOffset(5), 5 + number) for tp in tps}

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        return {one: GroupDescription(one, state="Stable", group_type=GroupType.CONSUMER) for one in group_ids}

    async def group_lags(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, PartitionLag]]:
        return {one: await self.group_lag(one) for one in group_ids}

    async def close(self) -> None:
        """There is nothing to close."""

    async def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        return dict.fromkeys(partitions, ())
