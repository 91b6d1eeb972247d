"""Metadata: brokers, topics and partitions as one node has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.fields import NOT_ON_WIRE, none_if
from penstock.types import Endpoint


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """`topics` is None for all of them."""

    topics: tuple[str, ...] | None = field(metadata=none_if("all_topics"))
    include_log_dirs: bool = False


@dataclass(frozen=True, slots=True)
class ClientListener:
    """A listener for clients, as it is advertised."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        return str(Endpoint(self.host, self.port))

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker of the cluster; a fenced one is registered but not in service. `host` is "" for a broker that has no
    listener of the name of the one that this client uses."""

    node_id: int
    host: str
    port: int
    rack: str = ""
    fenced: bool = False
    listeners: tuple[ClientListener, ...] = ()
    """Every listener for clients, BROKER first; only in the description of the cluster, and none from an older node."""
    cordoned: bool = False
    """It gets no new replicas (KIP-1066); only in the description of the cluster."""
    broker_epoch: int = 0
    """The epoch of its registration: each start of its process has another. Only in the description of the cluster, and
    0 from an older node."""

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
    """The trouble of a partition without a leader, or whose leader has lost its log: the reason, and the remedy."""
    elr: tuple[int, ...] = ()
    """The replicas that are not in sync, but have every committed record: they may lead if no member of the ISR can
    (KIP-966)."""
    log_dirs: tuple[str, ...] = field(default=(), compare=False)
    """The `directory.id` of each replica's log dir, in the order of `replicas`; "" where it is not assigned yet
    (KIP-858). Empty if none is, and where nobody asked: only the Admin's descriptions have it."""
    adding_replicas: tuple[int, ...] = ()
    """The part of `replicas` that comes while the partition is being reassigned (KIP-455)."""
    removing_replicas: tuple[int, ...] = ()
    """The part of `replicas` that goes once all that come are in sync."""
    offline_replicas: tuple[int, ...] = ()
    """The part of `replicas` that cannot be reached now: the broker is fenced, or not known, or has no listener of the
    name of the one that this client uses, or the log dir has failed. A broker of an older release does not tell."""

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
    topic_id: str = ""
    partitions: tuple[PartitionInfo, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    error: ApiError | None = None
    metadata_age_ms: int = field(default=0, compare=False, metadata=NOT_ON_WIRE)
    """The time for which the answering broker has not heard from a working quorum."""


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """One node's answer; brokers are the unfenced ones."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]
    topics: tuple[TopicInfo, ...]
    metadata_offset: int
    metadata_age_ms: int = field(default=0, compare=False)
    """The time for which this node has not heard from a working quorum."""

    def joined(self, more: MetadataResponse) -> MetadataResponse:
        """One answer of two. It is as old as the older one, or the older one's topics would count as newer than a later
        answer to which they are out of date."""
        offset = min(self.metadata_offset, more.metadata_offset)
        age_ms = max(self.metadata_age_ms, more.metadata_age_ms)
        return replace(more, topics=self.topics + more.topics, metadata_offset=offset, metadata_age_ms=age_ms)
