"""The client's knowledge of the cluster: the leader of each partition and the address of each node.

Pure: fed with snapshots and leader hints, asked by producers and consumers. It never goes back to an older state. A
snapshot of an older metadata offset than one that was seen is not taken: it may have a topic that was deleted since,
and a leader that lags would still take records under the old topic's id. A leader epoch never goes back for one topic
id (KIP-320). A client that begins anew can be told what was seen before it (`note_offset`, `note_epoch`): a checkpoint
of Spark holds both. A hint from NotLeaderOrFollower counts at once, before the next snapshot, if it is of the same
topic id. Not here: asking (cluster.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.lazy_dataclass import dataclass
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.types import NO_EPOCH, NO_LEADER, NO_OFFSET, Endpoint, LeaderHint, MetadataOffset, TopicPartition

METADATA_OLD_MS = 10_000
"""A broker that has not heard from a working quorum for this time is cut off, or the quorum is down."""


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
        "_epochs_seen",
        "_hints",
        "_leaders",
        "_topics",
        "_updates",
        "cluster_id",
        "controller_id",
        "metadata_offset",
        "silence",
        "updated_ms",
    )

    def __init__(self) -> None:
        self._brokers: dict[int, BrokerInfo] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._epochs_seen: dict[tuple[str, int], int] = {}  # by topic id and partition, as `note_epoch` was told
        self._updates = 0
        self._hints = 0
        self.cluster_id = ""
        self.controller_id = NO_LEADER
        self.metadata_offset = NO_OFFSET
        self.updated_ms = -1
        self.silence: Callable[[], str] = lambda: ""
        """The words of the owner for a cluster of which nobody answers now; "" while anybody does."""

    @property
    def leaders(self) -> Mapping[TopicPartition, Leader]:
        """The leader of each partition, as far as it is known."""
        return self._leaders

    @property
    def changes(self) -> int:
        """How often it has learned something: as `statistics` has it, in one number."""
        return self._updates + self._hints

    def is_stale(self, snapshot: MetadataResponse) -> bool:
        """True if the node that answered had heard less of the metadata log than was seen before."""
        return bool(self.why_stale(snapshot))

    def why_stale(self, snapshot: MetadataResponse) -> str:
        """The proof that a snapshot is older than one that was seen before; "" without such a proof."""
        if snapshot.cluster_id == self.cluster_id and snapshot.metadata_offset < self.metadata_offset:
            return f"metadata up to offset {snapshot.metadata_offset}, and {self.metadata_offset} was seen before"
        for topic in snapshot.topics if self._epochs_seen else ():
            for info in topic.partitions:
                seen = self._epochs_seen.get((topic.topic_id, info.partition), NO_EPOCH)
                if topic.error is None and info.leader_epoch < seen:
                    led = f"{topic.name}-{info.partition} led by node {info.leader_id} in epoch {info.leader_epoch}"
                    return f"{led}, and epoch {seen} was seen before"
        return ""

    @property
    def seen(self) -> MetadataOffset:
        """How far the newest answer had heard; a later client can be told it by `note_offset`."""
        return MetadataOffset(self.cluster_id, self.metadata_offset)

    def note_offset(self, cluster_id: str, metadata_offset: int) -> None:
        """Metadata up to this offset exists: from now on the metadata of a node that has heard less is stale."""
        if self.updated_ms < 0 and not self.cluster_id:
            self.cluster_id = cluster_id
        if cluster_id == self.cluster_id:
            self.metadata_offset = max(self.metadata_offset, metadata_offset)

    def note_epoch(self, tp: TopicPartition, topic_id: str, epoch: int) -> None:
        """The partition of exactly this topic was led in this epoch: no lower epoch counts from now on."""
        if epoch <= self._epochs_seen.get((topic_id, tp.partition), NO_EPOCH) or not topic_id:
            return
        self._epochs_seen[topic_id, tp.partition] = epoch
        known = self._leaders.get(tp)
        if self.topic_id(tp.topic) == topic_id and known is not None and known.epoch < epoch:
            self._leaders[tp] = Leader(NO_LEADER, epoch)

    def update(self, snapshot: MetadataResponse, now_ms: int) -> None:
        """Takes over a snapshot unless it is stale; topics that it does not speak of stay.

        A cache that knows no broker yet takes the brokers of a stale snapshot, too: one of them may have heard more.
        """
        if self.is_stale(snapshot):
            if self.updated_ms < 0:
                self._brokers = {broker.node_id: broker for broker in snapshot.brokers}
                self.updated_ms = now_ms
            return
        self.metadata_offset = snapshot.metadata_offset
        self._brokers = {broker.node_id: broker for broker in snapshot.brokers}
        self.cluster_id, self.controller_id = snapshot.cluster_id, snapshot.controller_id
        for topic in snapshot.topics:
            if topic.error is not None:
                self.forget(topic.name)
                continue
            known = self._topics.get(topic.name)
            if known is not None and known.topic_id != topic.topic_id:
                self.forget(topic.name)  # deleted and created again: its epochs begin anew
            self._topics[topic.name] = topic
            for info in topic.partitions:
                self._learn(TopicPartition(topic.name, info.partition), info.leader_id, info.leader_epoch)
        self._updates += 1
        self.updated_ms = now_ms

    def forget(self, topic: str) -> None:
        """Nothing is known of it any more: it is gone, or nobody asks for it."""
        known = self._topics.pop(topic, None)
        for info in known.partitions if known is not None else ():
            self._leaders.pop(TopicPartition(topic, info.partition), None)

    def _learn(self, tp: TopicPartition, leader_id: int, epoch: int) -> bool:
        """Notes the leader, unless a newer epoch is known; True if it was noted."""
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
        """The leader of a partition; None if the partition is not known or has no leader now."""
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
        """The cluster's reason for a partition without a leader, to be added to an error; "" where it gives none. A
        reason that nobody can confirm is not told: its remedy may cost records, and the leader may only be away."""
        info = self.partition(tp)
        if info is None or info.error is None:
            return ""
        if silence := self.silence():
            return f"no known leader: {silence}"
        age_ms = self._topics[tp.topic].metadata_age_ms
        if age_ms >= METADATA_OLD_MS:
            return (
                f"no known leader: the broker that was asked has not heard from the quorum for {age_ms // 1_000} s."
                " Start the controllers that are away, or mend the network (`penstock cluster health`)"
            )
        return str(info.error)

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
