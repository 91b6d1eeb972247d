"""The requests of brokers and operators to the controller, and its answers: the fields of protos/, without protobuf.

Field by field these mirror controller.proto, configs.proto and the administrative part of broker.proto; the edges in
broker/ translate. An error of a whole request is raised. An error of one item is in that item's result, and the other
items go on. A result without an error has `error=None`. The driver fills in `metadata_offset` once the records are
committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from penstock.errors import ApiError
from penstock.types import NO_EPOCH, NO_LEADER, NO_OFFSET, ListenerEndpoint

USE_DEFAULT = -1
"""As a number of partitions or a replication factor: take the cluster's default."""


class HostedReplicas(NamedTuple):
    """The partitions of one topic whose logs a broker has in one log dir."""

    topic_id: str
    partitions: tuple[int, ...]
    log_dir: str = ""  # its id; "" from a node of an older release, which does not tell


@dataclass(frozen=True, slots=True)
class RegisterBrokerRequest:
    cluster_id: str
    broker_id: int
    incarnation_id: str  # new for every start of the process
    host: str
    port: int
    rack: str = ""
    previous_broker_epoch: int = NO_EPOCH  # from the clean-shutdown marker; -1 after an unclean stop (KIP-966)
    log_dirs: tuple[str, ...] = ()  # directory ids
    inter_broker_host: str = ""  # where the other brokers fetch from it; "" and 0: where clients do
    inter_broker_port: int = 0
    failed_log_dirs: int = 0  # how many more there are whose disk does not answer; their ids cannot be read
    lost_log_dirs: tuple[str, ...] = ()  # directory ids that the operator has given up
    replicas: tuple[HostedReplicas, ...] = ()  # whose logs its dirs hold
    flush_policy: str = ""  # its default of that configuration; "": an older broker, which does not say
    listeners: tuple[ListenerEndpoint, ...] = ()  # for clients, besides BROKER, which is at host and port (KIP-103)
    inter_broker_listener: str = ""  # the name of the one for brokers; "": an older broker, which does not say


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse:
    broker_epoch: int
    unknown_lost_log_dirs: tuple[str, ...] = ()  # of the request's: the broker was not registered with them


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatRequest:
    cluster_id: str
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int = NO_OFFSET  # of the image that the broker has published
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[str, ...] = ()  # directory ids of those that failed since the process started (KIP-858)


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatResponse:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    offline_log_dirs: tuple[str, ...] = ()  # as the metadata has them now; an older controller names none


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member of a proposed ISR, with the broker epoch under which it last fetched (KIP-903)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AlterPartitionData:
    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionData, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionResult:
    topic_id: str
    partition: int
    error: ApiError | None = None
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    partition_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionResponse:
    partitions: tuple[AlterPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsRequest:
    """Where a broker has put its replicas (KIP-858)."""

    broker_id: int
    broker_epoch: int
    replicas: tuple[HostedReplicas, ...] = ()


@dataclass(frozen=True, slots=True)
class AssignedReplica:
    topic_id: str
    partition: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsResponse:
    replicas: tuple[AssignedReplica, ...] = ()  # in the order of the request


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsRequest:
    """A broker asks for a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse:
    """The block: `count` ids from `first_producer_id` on, which nobody was given before."""

    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    config: Mapping[str, str] = field(default_factory=dict)
    assignment: tuple[ReplicaAssignment, ...] = ()  # by hand; then the two numbers are -1 or agree with it


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class TopicResult:
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
class NewPartitions:
    """More partitions for a topic, until it has `total` (KIP-195)."""

    name: str
    total: int
    assignment: tuple[ReplicaAssignment, ...] = ()  # by hand; of each new partition, and of no other
    topic_id: str = ""  # where it is not empty: only of the topic with this id


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    topics: tuple[NewPartitions, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse:
    """A topic that was just as it was asked for before has an error, and its number of partitions."""

    topics: tuple[TopicResult, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest:
    topic_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse:
    topics: tuple[TopicResult, ...] = ()
    metadata_offset: int = NO_OFFSET


class ConfigOperation(IntEnum):
    """What is done to a key; the codes are Kafka's (KIP-339)."""

    SET = 0
    DELETE = 1  # back to the default
    APPEND = 2  # to a list, what is not in it yet
    SUBTRACT = 3  # from a list, what is in it


class ConfigChange(NamedTuple):
    """One key of one resource. `operation` is the number that came; the controller judges it."""

    key: str
    operation: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class AlterConfigsResource:
    """Changes of one resource, all or none; what is not named stays as it is."""

    resource_type: str
    resource_name: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigsResult:
    resource_type: str
    resource_name: str
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse:
    resources: tuple[AlterConfigsResult, ...] = ()
    metadata_offset: int = NO_OFFSET


class ElectionType(IntEnum):
    """Which leaders an operator asks for; the codes are Kafka's (KIP-460)."""

    PREFERRED = 0  # the first replica, where it is in sync
    UNCLEAN = 1  # where there is no leader, any replica in service


class NamedPartitions(NamedTuple):
    """Partitions of a topic that has this name now; none means all of them."""

    topic: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    """`topics` is None for all partitions of all topics. `election_type` is the number that came."""

    election_type: int
    topics: tuple[NamedPartitions, ...] | None = ()


@dataclass(frozen=True, slots=True)
class ElectLeadersResult:
    topic: str
    partition: int
    error: ApiError | None = None
    leader_id: int = NO_LEADER  # after the election, or as it is


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse:
    """Of partitions that were not named one by one, those are left out that need no election."""

    partitions: tuple[ElectLeadersResult, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ReassignedPartition:
    """A partition, and the replicas that it should have; None cancels its reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsRequest:
    partitions: tuple[ReassignedPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    topic: str
    partition: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResponse:
    """In the order of the request."""

    partitions: tuple[ReassignmentResult, ...] = ()
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest:
    """A broker that is gone for good is to be forgotten (KIP-631)."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class UnregisterBrokerResponse:
    error: ApiError | None = None
    metadata_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class TickResponse:
    """What the passing of time has done."""

    fenced_broker_ids: tuple[int, ...] = ()
    preferred_elections: int = 0  # partitions that get their preferred leader back by schedule
    replica_moves: int = 0  # partitions that begin to move by schedule
