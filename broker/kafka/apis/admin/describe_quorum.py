"""DescribeQuorum 0 to 2 (KIP-595): the quorum of the metadata log, as Kafka's topic `__cluster_metadata`, partition 0.

Only the quorum's leader knows how far the others are. Where none answers, the broker that is asked knows its own view
alone, and says NOT_LEADER_OR_FOLLOWER with it, upon which a client asks again. Kafka tells at what time a replica last
fetched and had caught up; our own answer says how long ago. From version 2 on it tells the disk of each replica, and
where the controllers listen for each other (KIP-853).
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
)
from penstock.errors import ApiError, InvalidRequestError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from penstock.messages import quorum
from penstock.types import METADATA_TOPIC, NO_EPOCH, NO_LEADER, NO_TIMESTAMP, ListenerEndpoint

API: Final = "DescribeQuorum"
PARTITION: Final = 0
FIRST_WITH_DISKS: Final = 2


def describe_quorum(parts: PlanParts, asked: Asked, body: DescribeQuorumRequest) -> Plan:
    if not body.topics:
        raise InvalidRequestError(f"the request names no partition; the quorum's is {METADATA_TOPIC}-{PARTITION}")
    found: quorum.QuorumInfo = yield Ask(API, quorum.DescribeQuorumRequest())
    now_ms = parts.wall_ms()
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    _partition(asked, found, now_ms, topic.topic_name, partition.partition_index)
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ],
        nodes=_nodes(parts, found) if asked.version >= FIRST_WITH_DISKS else [],
    )


def describe_quorum_failed(asked: Asked, body: DescribeQuorumRequest, error: ApiError) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code_of(error, API, asked.version), error_message=message_of(error))


def _partition(
    asked: Asked, found: quorum.QuorumInfo, now_ms: int, topic: str, partition: int
) -> DescribeQuorumResponsePartitionData:
    if topic != METADATA_TOPIC or partition != PARTITION:
        error = UnknownTopicOrPartitionError(f"the quorum's log is {METADATA_TOPIC}-{PARTITION}, and no other")
        return DescribeQuorumResponsePartitionData(
            partition_index=partition,
            error_code=code_of(error, API, asked.version),
            error_message=message_of(error),
            leader_id=NO_LEADER,
            leader_epoch=NO_EPOCH,
            high_watermark=-1,
        )
    not_known = None if found.has_leader else NotLeaderOrFollowerError("no leader of the quorum answers; ask again")
    return DescribeQuorumResponsePartitionData(
        partition_index=partition,
        error_code=code_of(not_known, API, asked.version),
        error_message=message_of(not_known),
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        current_voters=[_replica(asked, voter, now_ms) for voter in found.voters],
        observers=[_replica(asked, observer, now_ms) for observer in found.observers],
    )


def _replica(asked: Asked, replica: quorum.QuorumReplicaInfo, now_ms: int) -> DescribeQuorumResponseReplicaState:
    fetched, caught_up = replica.last_fetch_ms_ago, replica.last_caught_up_ms_ago
    return DescribeQuorumResponseReplicaState(
        replica_id=replica.node_id,
        replica_directory_id=replica.directory_id if asked.version >= FIRST_WITH_DISKS else "",
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=NO_TIMESTAMP if fetched < 0 else now_ms - fetched,
        last_caught_up_timestamp=NO_TIMESTAMP if not caught_up else now_ms - caught_up,
    )


def _nodes(parts: PlanParts, found: quorum.QuorumInfo) -> list[Node]:
    """The controllers, where they listen for each other."""
    return [
        Node(
            node_id=voter.node_id,
            listeners=[Listener(name=at.name, host=at.endpoint.host, port=at.endpoint.port) for at in endpoints],
        )
        for voter in found.voters
        if (endpoints := voter.endpoints or _known_here(parts, voter.node_id))
    ]


def _known_here(parts: PlanParts, voter_id: int) -> tuple[ListenerEndpoint, ...]:
    """The addresses of a voter by this node: a leader of an older release tells none."""
    voter = parts.voters().find(voter_id)
    return () if voter is None else voter.endpoints


SERVED: Final = (
    serves(DescribeQuorumRequest, DescribeQuorumResponse, (0, 2), over(describe_quorum), failed=describe_quorum_failed),
)
