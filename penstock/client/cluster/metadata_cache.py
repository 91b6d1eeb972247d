"""The client's knowledge of the cluster: the leader of each partition and the address of each node.

Pure: fed with snapshots and leader hints, asked by producers and consumers. It never goes back to an older state. A
snapshot of an older metadata offset than one that was seen is not taken: it may have a topic that was deleted since,
and a leader that lags would still take records under the old topic's id. A leader epoch never goes back for one topic
id (KIP-320). A hint from NotLeaderOrFollower counts at once, before the next snapshot, if it is of the same topic id.
Not here: asking (cluster.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.client.wire.messages import BrokerInfo, ClusterSnapshot, PartitionInfo, TopicInfo
from penstock.types import NO_LEADER, NO_OFFSET, Endpoint, LeaderHint, TopicPartition


class Leader(NamedTuple):
    """The leader of a partition, and its epoch."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class MetadataStatistics:
    """Counts since the client started."""

    topics: int
    brokers: int
    updates: int
    hints: int
    updated_ms: int


class MetadataCache:
    """The newest that is known, merged from every answer."""

    __slots__ = (
        "_brokers",
        "_hints",
        "_leaders",
        "_topics",
        "_updates",
        "cluster_id",
        "controller_id",
        "metadata_offset",
        "updated_ms",
    )

    def __init__(self) -> None:
        self._brokers: dict[int, BrokerInfo] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._updates = 0
        self._hints = 0
        self.cluster_id = ""
        self.controller_id = NO_LEADER
        self.metadata_offset = NO_OFFSET
        self.updated_ms = -1

    def is_stale(self, snapshot: ClusterSnapshot) -> bool:
        """Whether the node that answered had heard less of the metadata log than one that answered before."""
        return snapshot.cluster_id == self.cluster_id and snapshot.metadata_offset < self.metadata_offset

    def note_offset(self, cluster_id: str, metadata_offset: int) -> None:
        """A node told how far it has heard: from now on the metadata of one that has heard less is stale."""
        if cluster_id == self.cluster_id:
            self.metadata_offset = max(self.metadata_offset, metadata_offset)

    def update(self, snapshot: ClusterSnapshot, now_ms: int) -> None:
        """Takes over a snapshot unless it is stale; topics that it does not speak of stay."""
        if self.is_stale(snapshot):
            return
        self.metadata_offset = snapshot.metadata_offset
        self._brokers = {broker.node_id: broker for broker in snapshot.brokers}
        self.cluster_id, self.controller_id = snapshot.cluster_id, snapshot.controller_id
        for topic in snapshot.topics:
            if topic.error is not None:
                self._forget(topic.name)
                continue
            known = self._topics.get(topic.name)
            if known is not None and known.topic_id != topic.topic_id:
                self._forget(topic.name)  # deleted and created again: its epochs begin anew
            self._topics[topic.name] = topic
            for info in topic.partitions:
                self._learn(TopicPartition(topic.name, info.partition), info.leader_id, info.leader_epoch)
        self._updates += 1
        self.updated_ms = now_ms

    def _forget(self, topic: str) -> None:
        known = self._topics.pop(topic, None)
        for info in known.partitions if known is not None else ():
            self._leaders.pop(TopicPartition(topic, info.partition), None)

    def _learn(self, tp: TopicPartition, leader_id: int, epoch: int) -> bool:
        known = self._leaders.get(tp)
        if known is not None and epoch < known.epoch:
            return False
        self._leaders[tp] = Leader(leader_id, epoch)
        return True

    def apply_hint(self, tp: TopicPartition, hint: LeaderHint) -> bool:
        """Follows a broker's 'ask that one instead'; False when it tells nothing new, or speaks of another topic."""
        if hint.topic_id != self.topic_id(tp.topic):
            return False  # of a topic that had the name before, or has it by now: its epochs compare with no other's
        before = self._leaders.get(tp)
        if hint.leader_id == NO_LEADER or before == (hint.leader_id, hint.leader_epoch):
            return False
        known = self._brokers.get(hint.leader_id)
        if hint.endpoint is not None and (known is None or known.endpoint != hint.endpoint):
            host, port = hint.endpoint
            found = replace(known, host=host, port=port) if known else BrokerInfo(hint.leader_id, host, port)
            self._brokers = {**self._brokers, hint.leader_id: found}
        elif known is None:
            return False
        learned = self._learn(tp, hint.leader_id, hint.leader_epoch)
        self._hints += learned
        return learned

    def leader(self, tp: TopicPartition) -> Leader | None:
        """None when the partition is not known or has no leader now."""
        found = self._leaders.get(tp)
        return None if found is None or found.node_id == NO_LEADER or found.node_id not in self._brokers else found

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def topic_id(self, name: str) -> str:
        """The id to send with every request about the topic; "" when the topic is not known."""
        found = self._topics.get(name)
        return found.topic_id if found is not None else ""

    def partition(self, tp: TopicPartition) -> PartitionInfo | None:
        topic = self._topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def why_offline(self, tp: TopicPartition) -> str:
        """The cluster's reason for a partition without a leader, to be added to an error; "" where it gives none."""
        info = self.partition(tp)
        return str(info.error) if info is not None and info.error is not None else ""

    def led_partitions(self, topic: str) -> tuple[int, ...]:
        """The partitions that have a leader; all of them when none has."""
        info = self._topics.get(topic)
        if info is None:
            return ()
        everything = tuple(p.partition for p in info.partitions)
        return tuple(p for p in everything if self.leader(TopicPartition(topic, p)) is not None) or everything

    def endpoint(self, node_id: int) -> Endpoint | None:
        broker = self._brokers.get(node_id)
        return broker.endpoint if broker is not None else None

    @property
    def brokers(self) -> tuple[BrokerInfo, ...]:
        return tuple(self._brokers.values())

    def statistics(self) -> MetadataStatistics:
        return MetadataStatistics(len(self._topics), len(self._brokers), self._updates, self._hints, self.updated_ms)

    def __repr__(self) -> str:
        return (
            f"MetadataCache(cluster_id={self.cluster_id!r}, brokers={len(self._brokers)}, topics={len(self._topics)})"
        )
