"""Decides where the replicas of a broker are, as the broker reports it (AssignReplicasToDirs, KIP-858).

A broker with one log dir need not report: the controller assigns that dir when it creates a topic. A broker with
several chooses the dir of a new replica itself. Its registration names all replicas that it has by then (log_dirs.py).

A replica that is found to be in a failed dir leaves its ISR and its ELR; one that was in another dir leaves its ELR. A
partition without a leader may get one, if its last ISR member could not be elected only because nobody knew that its
dir is online.
"""

from __future__ import annotations

from dataclasses import replace

from metadata.controller.brokers.liveness import registered_broker
from metadata.controller.context import DecisionContext
from metadata.controller.elections.broker_elections import elected
from metadata.controller.result import ControllerResult
from metadata.records import PartitionChangeRecord, Record
from metadata.registrations import BrokerRegistration, PartitionKey, PartitionRegistration
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    LogDirNotFoundError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.nodes.brokers import AssignedReplica, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

_SHOWN_CHARACTERS = 64


def assign_replicas_to_dirs(
    context: DecisionContext, request: AssignReplicasToDirsRequest
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Each replica on its own; one that is where the metadata has it already makes no record."""
    context.check_item_count(sum(max(1, len(held.partitions)) for held in request.replicas), "replicas")
    broker = registered_broker(context, request.broker_id, request.broker_epoch)
    records: dict[PartitionKey, Record | None] = {}
    results: list[AssignedReplica] = []
    for held in request.replicas:
        for number in held.partitions:
            key, error = PartitionKey(held.topic_id, number), None
            try:
                if key in records:
                    raise InvalidRequestError(f"partition {number} of topic id {key.topic_id[:64]} is named twice")
                partition = _checked_replica(context, broker, key, held.log_dir)
                records[key] = _change(context, broker, partition, held.log_dir)
            except ApiError as refused:
                error = refused
            results.append(AssignedReplica(held.topic_id, number, error))
    made = tuple(record for record in records.values() if record is not None)
    return ControllerResult(made, AssignReplicasToDirsResponse(tuple(results)))


def _checked_replica(
    context: DecisionContext, broker: BrokerRegistration, key: PartitionKey, log_dir: str
) -> PartitionRegistration:
    if log_dir not in broker.log_dirs:
        raise LogDirNotFoundError(
            f"broker {broker.broker_id} is not registered with log dir {log_dir[:_SHOWN_CHARACTERS]!r}"
        )
    topic = context.state.topics.get(key.topic_id)
    if topic is None:
        raise UnknownTopicIdError(f"no topic has the id {key.topic_id[:_SHOWN_CHARACTERS]!r}; was it deleted?")
    partition = topic.partitions.get(key.partition)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"topic {topic.name} has no partition {key.partition}")
    if broker.broker_id not in partition.replicas:
        raise NotLeaderOrFollowerError(f"{topic.name}-{key.partition} has no replica on broker {broker.broker_id}")
    return partition


def _change(
    context: DecisionContext, broker: BrokerRegistration, partition: PartitionRegistration, log_dir: str
) -> PartitionChangeRecord | None:
    broker_id, before = broker.broker_id, partition.directory_of(broker.broker_id)
    if before == log_dir:
        return None
    directories = partition.directories_with(broker_id, log_dir)
    change = PartitionChangeRecord(*partition.key, directories=directories)
    assigned = partition.merge(change)
    has_failed = broker_id in (*partition.isr, *partition.elr) and not broker.is_online(log_dir)
    was_elsewhere = bool(before) and broker_id in partition.elr
    if partition.has_leader and not has_failed and not was_elsewhere:
        return change
    outcome = elected(
        context,
        assigned,
        leaving=(broker_id,) if has_failed else (),
        unfit=(broker_id,) if was_elsewhere else (),
    )
    return change if outcome is None else replace(outcome, directories=directories)
