"""CreateTopics, CreatePartitions and DeleteTopics: a broker forwards them to the active controller.

An error of a whole request is raised. An error of one item is in that item's result, and the other items go on.
`metadata_offset` is where the changes were committed; the controller's driver fills it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET

USE_DEFAULT = -1
"""The cluster's default, or the assignment's own number, in place of a number of partitions or a replication factor."""


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of one partition, the preferred leader first."""

    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    config: Mapping[str, str] = field(default_factory=dict)
    assignment: tuple[ReplicaAssignment, ...] = ()
    """An assignment by hand; the two numbers are then -1 or agree with it."""


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...] = ()
    validate_only: bool = False
    timeout_ms: int = 0
    principal: str = field(default="", repr=False)
    """The topics' owner, whose share of the cluster's partitions they count to; "": nobody. The broker that forwards
    the request sets it, whatever the client has sent."""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The outcome for one topic."""

    name: str
    topic_id: str = ""
    error: ApiError | None = None
    partitions: int = 0
    replication_factor: int = 0


@dataclass(frozen=True, slots=True)
class CreateTopicsResponse:
    topics: tuple[TopicResult, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class CreateInternalTopicRequest:
    """A broker needs one of the cluster's own topics, which no client creates (metadata/internal_topics.py).

    `config` are its settings beside those that each such topic has."""

    broker_id: int
    broker_epoch: int
    name: str
    partitions: int
    replication_factor: int = USE_DEFAULT
    """-1: as many replicas as the cluster has brokers for, at most 3."""
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateInternalTopicResponse:
    """The topic is there: it was made for this request, or before it."""

    topic_id: str
    was_made: bool = False


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """More partitions for a topic, until it has `total` (KIP-195)."""

    name: str
    total: int
    assignment: tuple[ReplicaAssignment, ...] = ()
    """An assignment by hand, of each new partition and of no other. Empty: the cluster chooses."""
    topic_id: str = ""
    """The id that the topic must have; "" for any."""


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    topics: tuple[NewPartitions, ...] = ()
    validate_only: bool = False
    timeout_ms: int = 0
    principal: str = field(default="", repr=False)
    """The principal that asks, if it has a share: then the share of each topic's owner limits the new partitions. A
    topic without an owner becomes its own. "": no share limits them. Set by the broker, as in CreateTopicsRequest."""


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse:
    """A topic that was just as it was asked for before has an error, and its number of partitions."""

    topics: tuple[TopicResult, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    topic_ids: tuple[str, ...] = ()
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse:
    topics: tuple[TopicResult, ...] = ()
    metadata_offset: int = NO_OFFSET
