"""The client's requests and answers as plain values: the protobuf messages without protobuf.

protobuf.py turns these into `penstock.pb` messages and back; every core works on these alone, so that it can be tested
without gRPC. An `error` field is None or the exception that the wire's code stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from penstock.client.wire.log_dirs import SilentLogDir
from penstock.errors import ApiError
from penstock.types import Endpoint, EpochEndOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker of the cluster; a fenced one is registered but not in service. `host` is "" for a broker that has no
    listener of the name of the one that this client uses."""

    node_id: int
    host: str
    port: int
    rack: str = ""
    fenced: bool = False

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition as the metadata has it."""

    partition: int
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ApiError | None = None
    """Without a leader, or with one whose log is lost: why, and what can be done."""
    elr: tuple[int, ...] = ()
    """Not in sync, but with every committed record: they may lead if no member of the ISR can (KIP-966)."""
    log_dirs: tuple[str, ...] = field(default=(), compare=False)
    """The `directory.id` of each replica's log dir, in the order of `replicas`; "" where it is not assigned yet
    (KIP-858). Empty if none is, and where nobody asked: only the Admin's descriptions have it."""
    adding_replicas: tuple[int, ...] = ()
    """Of `replicas`, while the partition is being reassigned: those that come (KIP-455)."""
    removing_replicas: tuple[int, ...] = ()
    """Likewise: those that go once all that come are in sync."""

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def replication_factor(self) -> int:
        """How many replicas it has before the reassignment or after it, whichever is less."""
        return len(self.replicas) - max(len(self.adding_replicas), len(self.removing_replicas))


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic with its partitions in order; `config` holds only what the topic overrides."""

    name: str
    topic_id: str
    partitions: tuple[PartitionInfo, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    error: ApiError | None = None
    metadata_age_ms: int = field(default=0, compare=False)
    """For how long the broker that told this has not heard from a working quorum."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One node's answer to Metadata."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]
    topics: tuple[TopicInfo, ...]
    metadata_offset: int
    metadata_age_ms: int = field(default=0, compare=False)
    """For how long this node has not heard from a working quorum."""

    def joined(self, more: ClusterSnapshot) -> ClusterSnapshot:
        """One answer of two. It is as old as the older one, or the older one's topics would count as newer than a later
        answer to which they are out of date."""
        offset = min(self.metadata_offset, more.metadata_offset)
        age_ms = max(self.metadata_age_ms, more.metadata_age_ms)
        return replace(more, topics=self.topics + more.topics, metadata_offset=offset, metadata_age_ms=age_ms)


class ProducePart(NamedTuple):
    """Whole batches for one partition."""

    topic: str
    partition: int
    topic_id: str
    records: bytes


class ProduceCall(NamedTuple):
    """One ProduceRequest: every partition of one broker that has data."""

    correlation_id: int
    acks: int
    timeout_ms: int
    parts: tuple[ProducePart, ...]
    client_id: str


class ProduceResult(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ApiError | None
    base_offset: int
    log_append_time_ms: int


class ProduceAnswer(NamedTuple):
    """One ProduceResponse; `error` is of the request as a whole. If `more_follows`, it is a part: others come."""

    correlation_id: int
    results: tuple[ProduceResult, ...]
    error: ApiError | None
    more_follows: bool = False


class FetchPart(NamedTuple):
    """What a fetch session is told about one partition."""

    topic: str
    partition: int
    topic_id: str
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class FetchCall(NamedTuple):
    """One FetchRequest of a session: only what changed."""

    correlation_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    changed: tuple[FetchPart, ...]
    forgotten: tuple[tuple[str, int], ...]
    client_id: str


class FetchResult(NamedTuple):
    """The answer for one partition; `topic_id` and `fetch_offset` are those of the question that it answers."""

    topic: str
    partition: int
    topic_id: str
    error: ApiError | None
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverging_epoch: EpochEndOffset | None
    fetch_offset: int


class FetchAnswer(NamedTuple):
    """One FetchResponse."""

    correlation_id: int
    results: tuple[FetchResult, ...]
    error: ApiError | None


PRODUCER_EPOCH_MAX = 2**15 - 1
"""A batch has 16 bits with a sign for it."""


class ProducerIdAndEpoch(NamedTuple):
    """Names a producer in its batches; the epoch is the first one of a new id."""

    producer_id: int
    epoch: int


class DeleteRecordsPart(NamedTuple):
    """Every record of the partition below `before_offset` is to go."""

    topic: str
    partition: int
    topic_id: str
    before_offset: int


class DeleteRecordsResult(NamedTuple):
    """The answer for one partition."""

    topic: str
    partition: int
    error: ApiError | None
    low_watermark: int


class ConfigResource(NamedTuple):
    """What a configuration belongs to: ("topic", its name) or ("broker", its id)."""

    resource_type: str
    resource_name: str


class ConfigOperation(IntEnum):
    """What is done to a key; the codes are Kafka's (KIP-339)."""

    SET = 0
    DELETE = 1  # back to the default
    APPEND = 2  # to a list
    SUBTRACT = 3  # from a list


class ConfigChange(NamedTuple):
    """One key of one resource."""

    key: str
    operation: ConfigOperation
    value: str = ""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One effective key: its value as text, and where it comes from in Kafka's words."""

    name: str
    value: str
    source: str
    """DYNAMIC_{TOPIC,BROKER,DEFAULT_BROKER}_CONFIG, STATIC_BROKER_CONFIG (the node's file) or DEFAULT_CONFIG."""
    type: str
    documentation: str
    is_read_only: bool = False  # only the node's file has it, and a restart changes it

    @property
    def is_default(self) -> bool:
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """The answer for one resource; `configs` is empty where it was changed, not described."""

    resource: ConfigResource
    error: ApiError | None
    configs: tuple[ConfigEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigAnswer:
    """One AlterConfigsResponse or DescribeConfigsResponse; `metadata_offset` is where a change was committed."""

    results: tuple[ConfigResult, ...]
    metadata_offset: int


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The leader of a partition after an ordered election, or as it is where the error says why none was made."""

    leader_id: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class ElectionAnswer:
    """One ElectLeadersResponse; `metadata_offset` is where the elections were committed."""

    results: Mapping[TopicPartition, ElectionResult]
    metadata_offset: int


@dataclass(frozen=True, slots=True)
class ReassignmentAnswer:
    """One AlterPartitionReassignmentsResponse; `metadata_offset` is where the changes were committed."""

    results: Mapping[TopicPartition, ApiError | None]
    metadata_offset: int


@dataclass(frozen=True, slots=True)
class QuorumReplicaInfo:
    """One voter or observer as the quorum's leader sees it; -1 where it has not heard of it."""

    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The quorum of the metadata log."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaInfo, ...]
    observers: tuple[QuorumReplicaInfo, ...]
    only_own_view: bool = False
    """No leader answered: this is what the broker that answered knows by itself."""

    @property
    def has_leader(self) -> bool:
        return self.leader_id >= 0 and not self.only_own_view


@dataclass(frozen=True, slots=True)
class NodeListener:
    """A listener for nodes (CONTROLLER, INTERNAL), where its broker listens."""

    name: str
    host: str
    port: int
    is_exposed: bool
    """Open to every network of the machine: who reaches it can act as a node of the cluster."""

    def __str__(self) -> str:
        return f"{self.name}://{Endpoint(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """What a broker knows by itself, without the controller: it is true when the rest of the answer is old."""

    node_id: int
    fenced: bool
    """The controller keeps the broker out of service, or none answers it."""
    metadata_age_ms: int
    """For how long the broker has not heard from a working quorum: its metadata may be so old."""
    partitions: int
    leaders: int
    under_replicated: int
    """Partitions led there with replicas that are not in sync, as the leader knows it."""
    under_min_isr: int
    """Partitions led there with fewer replicas in sync than min.insync.replicas."""
    lost_replicas: int
    """Replicas that the broker cannot serve: they are damaged, or their log dir failed."""
    failed_log_dirs: tuple[str, ...]
    unserved: int = 0
    """Of the lost replicas, those that the broker should lead: nobody can read or write them."""
    refusing_appends: int = 0
    """Replicas whose last append found no room on the disk, or no file descriptor."""
    refusing_writes: int = 0
    """Of these, those that the broker leads: producers are refused."""
    silent_log_dirs: tuple[SilentLogDir, ...] = ()
    node_listeners: tuple[NodeListener, ...] = ()
    """Those for nodes, of which every broker has one; none if it is older than this field."""


@dataclass(frozen=True, slots=True)
class PartitionTrouble:
    """A partition that is offline, or that the broker that answered should lead, and is ill."""

    topic: str
    partition: int
    kind: str
    """offline, unserved, stalled, under_min_isr or under_replicated."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    """As its leader knows it; of an offline or unserved partition: its ISR."""
    min_insync_replicas: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster as one broker has it: its id, its controller (-1: none now) and every registered broker. Brokers,
    leaders and offline partitions are those of its metadata. `standing` says how old that is, and what the broker
    knows by itself; `troubles` names the worst partitions, not all of many."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]
    metadata_offset: int
    standing: NodeStanding
    leaders: Mapping[int, int] = field(default_factory=dict)
    """Broker to the number of partitions that it leads."""
    offline_partitions: int = 0
    troubles: tuple[PartitionTrouble, ...] = ()

    @property
    def freshness(self) -> tuple[bool, int, int]:
        """Larger is newer, of the answers of several brokers."""
        return self.controller_id >= 0, self.metadata_offset, -self.standing.metadata_age_ms
