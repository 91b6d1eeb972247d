"""The requests and the answers of the APIs, the same for every door.

Plain values: a door makes them from its wire and back. Record bytes stay the bytes that arrived. Administrative
requests are the controller's own (`metadata.requests`), forwarded as they are.

Every partition that is asked for comes with its topic's id; `HostedPartitions.get` checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NamedTuple

from broker.log_dir_requests import SilentLogDirView
from penstock.errors import ApiError
from penstock.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, EpochEndOffset, ListenerEndpoint, TopicPartition


class PartitionRecords(NamedTuple):
    """Whole record batches for one partition."""

    partition: TopicPartition
    topic_id: str
    records: bytes


@dataclass(slots=True)
class ProduceRequest:
    """Append records."""

    correlation_id: int
    acks: int
    timeout_ms: int
    partitions: list[PartitionRecords]
    refused: dict[int, ApiError] = field(default_factory=dict)
    """By the index in `partitions`: what produce_conversion.py found before the request queued."""
    client_id: str = ""
    answer_in_parts: bool = False
    """The client takes the results that are known while others are not, and later requests' answers before them."""


@dataclass(slots=True)
class PartitionProduceResult:
    partition: TopicPartition
    error: ApiError | None = None
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET


@dataclass(slots=True)
class ProduceResponse:
    """The answer, or a part of it if `more_follows`."""

    correlation_id: int
    partitions: list[PartitionProduceResult]
    more_follows: bool = False


@dataclass(slots=True)
class FetchPartition:
    """A partition added to a fetch session, or its new position there."""

    partition: TopicPartition
    topic_id: str
    fetch_offset: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET
    max_bytes: int = 1 << 20


@dataclass(slots=True)
class FetchRequest:
    """One turn of a fetch session. `replica_id` is -1 for a consumer."""

    correlation_id: int
    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: list[FetchPartition]
    forgotten: list[TopicPartition]
    cluster_id: str = ""
    client_id: str = ""


@dataclass(slots=True)
class PartitionFetchResult:
    """`topic_id` and `fetch_offset` are those of the question."""

    partition: TopicPartition
    topic_id: str
    fetch_offset: int
    error: ApiError | None = None
    high_watermark: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: bytes = b""
    diverging_epoch: EpochEndOffset | None = None


@dataclass(slots=True)
class FetchResponse:
    correlation_id: int
    partitions: list[PartitionFetchResult]


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    partition: TopicPartition
    topic_id: str
    timestamp_ms: int
    current_leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest:
    partitions: tuple[ListOffsetsPartition, ...]
    replica_id: int = -1
    timeout_ms: int = 0
    """0: not given."""


@dataclass(frozen=True, slots=True)
class ListOffsetsResult:
    partition: TopicPartition
    error: ApiError | None = None
    offset: int = NO_OFFSET
    timestamp_ms: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class EpochPartition:
    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    current_leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest:
    partitions: tuple[EpochPartition, ...]
    replica_id: int = -1


@dataclass(frozen=True, slots=True)
class EpochPartitionResult:
    partition: TopicPartition
    error: ApiError | None = None
    leader_epoch: int = NO_EPOCH
    end_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """`topics` is None for all of them."""

    topics: tuple[str, ...] | None
    include_log_dirs: bool = False


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest:
    """Asks for every broker, fenced ones too."""


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """Asks for a producer id."""


@dataclass(frozen=True, slots=True)
class InitProducerIdResponse:
    """An id that no other producer has."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    """Asks for the state of the quorum. Only its leader knows all of it."""


@dataclass(frozen=True, slots=True)
class DescribeMetadataRequest:
    """Asks for the metadata at `offset` (-1: what the node has applied), from byte `position` on; without `max_bytes`
    for its digest alone."""

    offset: int
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class DescribeMetadataResponse:
    node_id: int
    offset: int
    epoch: int
    records: int
    sha256: str
    size_bytes: int
    lines: bytes


@dataclass(frozen=True, slots=True)
class NodeAddress:
    node_id: int
    host: str
    port: int
    rack: str
    fenced: bool


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: int
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ApiError | None = None  # without a leader: why, and what can be done
    elr: tuple[int, ...] = ()
    log_dirs: tuple[str, ...] = ()  # directory ids in the order of `replicas`, if asked for; "": not assigned yet
    adding_replicas: tuple[int, ...] = ()  # of `replicas`, while the partition is being reassigned
    removing_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: str = ""
    error: ApiError | None = None
    partitions: tuple[PartitionView, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """The answering node's image, as far as it was asked for; brokers are the unfenced ones."""

    cluster_id: str
    controller_id: int
    brokers: tuple[NodeAddress, ...]
    topics: tuple[TopicView, ...]
    metadata_offset: int
    metadata_age_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeStandingView:
    """The answering broker's knowledge of itself, without the controller. See NodeStanding in broker.proto."""

    node_id: int
    fenced: bool
    metadata_age_ms: int
    partitions: int
    leaders: int
    under_replicated: int
    under_min_isr: int
    lost_replicas: int
    failed_log_dirs: tuple[str, ...]
    unserved: int = 0
    refusing_appends: int = 0
    refusing_writes: int = 0
    silent_log_dirs: tuple[SilentLogDirView, ...] = ()
    node_listeners: tuple[ListenerEndpoint, ...] = ()


class PartitionTroubleKind(Enum):
    """The troubles of a partition."""

    OFFLINE = 1
    UNDER_MIN_ISR = 2
    UNDER_REPLICATED = 3
    UNSERVED = 4
    STALLED = 5


@dataclass(frozen=True, slots=True)
class PartitionTroubleView:
    partition: TopicPartition
    kind: PartitionTroubleKind
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    min_insync_replicas: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The answering node's image, and its own standing beside it: the image may be old."""

    cluster_id: str
    controller_id: int
    brokers: tuple[NodeAddress, ...]
    metadata_offset: int
    standing: NodeStandingView
    leaders: Mapping[int, int]
    offline_partitions: int
    troubles: tuple[PartitionTroubleView, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplicaView:
    node_id: int
    log_end_offset: int
    last_fetch_ms_ago: int


@dataclass(frozen=True, slots=True)
class QuorumView:
    """Only the quorum's leader knows the progress of the others; -1 where it has not heard of one.

    `only_own_view`: no leader answered, so this is what the answering node knows by itself.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplicaView, ...]
    observers: tuple[QuorumReplicaView, ...]
    only_own_view: bool = False


class ConfigSource(IntEnum):
    """Where an effective value comes from; the codes are Kafka's."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class DescribeConfigsResource:
    """`keys` is empty for all of them."""

    resource_type: str
    resource_name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]


@dataclass(frozen=True, slots=True)
class ConfigEntryView:
    key: str
    value: str
    source: ConfigSource
    type: str
    documentation: str
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class DescribeConfigsResult:
    resource_type: str
    resource_name: str
    error: ApiError | None = None
    configs: tuple[ConfigEntryView, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConfigsResponse:
    resources: tuple[DescribeConfigsResult, ...]
    metadata_offset: int


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartition:
    """Every record below `before_offset` goes; -1 is the high watermark."""

    partition: TopicPartition
    topic_id: str
    before_offset: int


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest:
    partitions: tuple[DeleteRecordsPartition, ...]
    timeout_ms: int


@dataclass(slots=True)
class DeleteRecordsResult:
    partition: TopicPartition
    error: ApiError | None = None
    low_watermark: int = NO_OFFSET
