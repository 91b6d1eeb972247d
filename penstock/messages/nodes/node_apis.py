"""The APIs between nodes: what brokers ask of the active controller and of each other, and the calls of the quorum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, Final

from penstock.messages import produce, topics
from penstock.messages.api import KIB, MIB, SMALL, Api, ApiKind, ApiLimits, Operation, Outcome
from penstock.messages.nodes import brokers, partitions
from penstock.messages.transactions import markers


def _of_quorum(name: str, sender: Callable[[Any], int], limits: ApiLimits = SMALL) -> Api[Any, Any]:
    """A call between the quorum's nodes; `raft.messages` has its records."""
    return Api(name, NoneType, NoneType, ApiKind.QUORUM, limits, Operation.CLUSTER_ACTION, sender=sender)


def _broker(request: Any) -> int:
    """The sender of what brokers ask of the controller."""
    broker_id: int = request.broker_id
    return broker_id


def _marked(answer: markers.WriteTxnMarkersResponse) -> Iterator[Outcome]:
    for marker in answer.markers:
        yield from marker.partitions


VOTE: Final = _of_quorum("Vote", lambda request: request.candidate_id)
BEGIN_QUORUM_EPOCH: Final = _of_quorum(
    "BeginQuorumEpoch",
    lambda request: request.leader_id,
    ApiLimits(4 * KIB, {"leader_endpoints": 16}, "a leader has one endpoint for each listener of controllers"),
)
END_QUORUM_EPOCH: Final = _of_quorum(
    "EndQuorumEpoch",
    lambda request: request.leader_id,
    ApiLimits(4 * KIB, {"preferred_successors": 100}, "a quorum has at most 9 voters"),
)
FETCH_METADATA: Final = _of_quorum("FetchMetadata", lambda request: request.replica_id)
FETCH_SNAPSHOT: Final = _of_quorum("FetchSnapshot", lambda request: request.replica_id)
REGISTER_BROKER: Final = Api(
    "RegisterBroker",
    brokers.RegisterBrokerRequest,
    brokers.RegisterBrokerResponse,
    ApiKind.CONTROLLER,
    ApiLimits(
        8 * MIB,
        {
            "log_dirs": 1_000,
            "lost_log_dirs": 1_000,
            "replicas": 200_000,
            "replicas.partitions": 200_000,
            "listeners": 100,
        },
        "a broker names every replica that its log dirs hold",
    ),
    Operation.CLUSTER_ACTION,
    sender=_broker,
)
BROKER_HEARTBEAT: Final = Api(
    "BrokerHeartbeat",
    brokers.BrokerHeartbeatRequest,
    brokers.BrokerHeartbeatResponse,
    ApiKind.CONTROLLER,
    ApiLimits(8 * KIB, {"offline_log_dirs": 128, "cordoned_log_dirs": 128}),
    Operation.CLUSTER_ACTION,
    sender=_broker,
)
ALTER_PARTITION: Final = Api(
    "AlterPartition",
    partitions.AlterPartitionRequest,
    partitions.AlterPartitionResponse,
    ApiKind.CONTROLLER,
    ApiLimits(4 * MIB, {"partitions": 10_000, "partitions.new_isr": 200_000}, "a broker sends 1,000 at a time"),
    Operation.CLUSTER_ACTION,
    sender=_broker,
)
ASSIGN_REPLICAS_TO_DIRS: Final = Api(
    "AssignReplicasToDirs",
    brokers.AssignReplicasToDirsRequest,
    brokers.AssignReplicasToDirsResponse,
    ApiKind.CONTROLLER,
    ApiLimits(4 * MIB, {"replicas": 10_000, "replicas.partitions": 10_000}, "a broker sends 1,000 at a time"),
    Operation.CLUSTER_ACTION,
    sender=_broker,
)
ALLOCATE_PRODUCER_IDS: Final = Api(
    "AllocateProducerIds",
    produce.AllocateProducerIdsRequest,
    produce.AllocateProducerIdsResponse,
    ApiKind.CONTROLLER,
    SMALL,
    Operation.CLUSTER_ACTION,
    sender=_broker,
)
CREATE_INTERNAL_TOPIC: Final = Api(
    "CreateInternalTopic",
    topics.CreateInternalTopicRequest,
    topics.CreateInternalTopicResponse,
    ApiKind.CONTROLLER,
    ApiLimits(4 * KIB, {"config": 20}),
    Operation.CLUSTER_ACTION,
    sender=_broker,
)
WRITE_TXN_MARKERS: Final = Api(
    "WriteTxnMarkers",
    markers.WriteTxnMarkersRequest,
    markers.WriteTxnMarkersResponse,
    ApiKind.BROKERS,
    ApiLimits(4 * MIB, {"markers": 10_000, "markers.partitions": 20_000}, "the others in the next one"),
    Operation.CLUSTER_ACTION,
    outcomes=_marked,
    may_wait=True,
    no_sender="any broker may coordinate a transaction; each marker has its coordinator's epoch, which fences",
)
