"""Decides whether a leader may change the ISR of its partition (AlterPartition, KIP-497, KIP-841, KIP-903).

Every check compares the leader's belief with the committed state, so an outdated proposal changes nothing. The broker
epoch of each proposed member is compared as well: a replica that was in sync and has restarted since, perhaps with an
empty disk, has the same id but another epoch (KIP-903). No epoch is exempt from the check, not even -1.

INELIGIBLE_REPLICA is final: the refusal raises the partition epoch. A leader that is told so counts on the ISR without
that replica (KIP-841), but the network may still have an earlier copy of its request, to which it got no answer. When
the replica is in service again, that copy must not be accepted. The record is made once for each time that the leader
learns of an epoch: a request of the epoch before is refused without one.
"""

from __future__ import annotations

from metadata.controller.brokers.liveness import registered_broker
from metadata.controller.context import DecisionContext
from metadata.controller.elections.election import changed
from metadata.controller.reassignments import completion
from metadata.controller.result import ControllerResult
from metadata.records import PartitionChangeRecord, Record
from metadata.registrations import PartitionKey, PartitionRegistration
from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.nodes.partitions import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from penstock.types import LeaderHint


def alter_partition(
    context: DecisionContext, request: AlterPartitionRequest
) -> ControllerResult[AlterPartitionResponse]:
    """Each partition of the request on its own; a partition that is named twice is refused the second time."""
    context.check_item_count(len(request.partitions), "partitions")
    registered_broker(context, request.broker_id, request.broker_epoch)
    records: list[Record] = []
    results: list[AlterPartitionResult] = []
    seen: set[PartitionKey] = set()
    for data in request.partitions:
        key = PartitionKey(data.topic_id, data.partition)
        try:
            if key in seen:
                raise InvalidRequestError(f"partition {data.partition} of topic id {data.topic_id} is named twice")
            seen.add(key)
            partition = _checked_partition(context, request.broker_id, data)
        except ApiError as error:
            if isinstance(error, IneligibleReplicaError):
                records.append(_only_next_epoch(context.state.topics[data.topic_id].partitions[data.partition]))
            results.append(AlterPartitionResult(data.topic_id, data.partition, error))
            continue
        isr = tuple(member.broker_id for member in data.new_isr)
        record = changed(partition, context.min_isr(partition), isr=isr)
        if record is not None:
            records.append(record)
            partition = partition.merge(record)
        end = completion(context, partition)  # a record of its own: whoever leads then was in sync before
        if end is not None:
            records.append(end)
            partition = partition.merge(end)
        results.append(_accepted(partition))
    return ControllerResult(tuple(records), AlterPartitionResponse(tuple(results)))


def _checked_partition(context: DecisionContext, requester: int, data: AlterPartitionData) -> PartitionRegistration:
    topic = context.state.topics.get(data.topic_id)
    if topic is None:
        raise UnknownTopicIdError(f"topic id {data.topic_id!r} is not known; was the topic deleted?")
    partition = topic.partitions.get(data.partition)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"topic {topic.name} has no partition {data.partition}")
    name = f"{topic.name}-{data.partition}"
    _check_epochs(name, partition, requester, data)
    _check_isr(name, partition, data.new_isr)
    for member in data.new_isr:
        _check_eligible(context, name, partition, member)
    return partition


def _check_epochs(name: str, partition: PartitionRegistration, requester: int, data: AlterPartitionData) -> None:
    if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
        # A leader that has seen newer epochs than this controller has seen another controller, and must ask that one.
        raise NotControllerError(
            f"{name}: the request is of leader epoch {data.leader_epoch}, partition epoch {data.partition_epoch}, newer"
            f" than {partition.leader_epoch}, {partition.partition_epoch} here"
        )
    if data.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpochError(
            f"{name}: the request is of leader epoch {data.leader_epoch}, the current one is {partition.leader_epoch}",
            leader=LeaderHint(partition.leader_id, partition.leader_epoch),
        )
    if requester != partition.leader_id:
        raise InvalidRequestError(f"{name} is led by broker {partition.leader_id}, not by broker {requester}")
    if data.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersionError(
            f"{name}: the request is of partition epoch {data.partition_epoch}, the current one is"
            f" {partition.partition_epoch}"
        )


def _check_isr(name: str, partition: PartitionRegistration, new_isr: tuple[IsrMember, ...]) -> None:
    ids = [member.broker_id for member in new_isr]
    if len(set(ids)) < len(ids) or not set(ids) <= set(partition.replicas):
        raise InvalidRequestError(f"{name}: the ISR {ids} is not a subset of the replicas {list(partition.replicas)}")
    if partition.leader_id not in ids:
        raise InvalidRequestError(f"{name}: the ISR {ids} does not include the leader {partition.leader_id}")


def _check_eligible(context: DecisionContext, name: str, partition: PartitionRegistration, member: IsrMember) -> None:
    broker = context.state.brokers.get(member.broker_id)
    if broker is None:
        raise IneligibleReplicaError(f"{name}: broker {member.broker_id} is not registered")
    if broker.broker_epoch != member.broker_epoch:
        raise IneligibleReplicaError(
            f"{name}: broker {member.broker_id} is registered with epoch {broker.broker_epoch}, not"
            f" {member.broker_epoch}: it has restarted"
        )
    # A leader that shuts down may stay in the ISR that it proposes, so that a successor can join; others may not.
    if broker.fenced or (broker.in_controlled_shutdown and member.broker_id != partition.leader_id):
        why = "fenced" if broker.fenced else "shutting down"
        raise IneligibleReplicaError(f"{name}: broker {member.broker_id} is {why}")
    if not context.state.replica_is_online(member.broker_id, partition):
        where = partition.directory_of(member.broker_id) or "not assigned yet, and may be one that has failed"
        raise IneligibleReplicaError(
            f"{name}: the log dir of the replica on broker {member.broker_id} is offline: {where}"
        )


def _only_next_epoch(partition: PartitionRegistration) -> PartitionChangeRecord:
    """Nothing changes but the partition epoch, and so every request of the present one is refused from now on."""
    return PartitionChangeRecord(*partition.key, isr=partition.isr)


def _accepted(partition: PartitionRegistration) -> AlterPartitionResult:
    return AlterPartitionResult(
        partition.topic_id,
        partition.partition,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
        elr=partition.elr,
    )
