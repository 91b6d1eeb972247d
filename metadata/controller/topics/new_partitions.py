"""Decides on more partitions for topics that exist (CreatePartitions, KIP-195). Each topic of a request stands alone.

Partitions are only ever added, behind those that are there: the record of an existing one is never written again. New
ones have as many replicas as the topic, and are placed by placement.py or by the operator. A request that finds the
topic as it asks for it is refused; the result then says how many partitions there are, so that a request that was
repeated because its answer was lost can be told from one that never fitted.

New partitions count to the topic's owner, whoever asks for them. The share limits them unless the one that asks has no
share itself, as a super user has none. A topic without an owner becomes the property of the principal that asks: else
it could add partitions to such topics until the cluster has none left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace

from metadata.controller.context import NAME_SHOWN, DecisionContext
from metadata.controller.result import ControllerResult
from metadata.controller.state import TopicState
from metadata.controller.topics.assignments import (
    brokers_for,
    check_partition_count,
    check_record_count,
    check_replicas,
    check_share,
    partition_record,
)
from metadata.controller.topics.owners import NOBODY, owner_record
from metadata.controller.topics.placement import place_more_replicas
from metadata.internal_topics import check_partitions_change
from metadata.records import PartitionRecord, Record
from penstock.errors import (
    ApiError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    UnknownTopicIdError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.topics import CreatePartitionsRequest, CreatePartitionsResponse, NewPartitions, TopicResult


@dataclass(slots=True)
class _Added:
    """The records and the partitions of the topics before in the request."""

    records: list[Record] = field(default_factory=list)
    partitions: int = 0
    by_owner: Counter[str] = field(default_factory=Counter)
    """New partitions by owner, and all of a topic that got its owner by them."""


def create_partitions(
    context: DecisionContext, request: CreatePartitionsRequest
) -> ControllerResult[CreatePartitionsResponse]:
    """Results stand in the order of the request; with `validate_only` they are the same, but nothing is made."""
    context.check_item_count(len(request.topics), "topics")
    times = Counter(asked.name for asked in request.topics)
    added, results = _Added(), []
    for asked in request.topics:
        result = TopicResult(asked.name)
        try:
            if times[asked.name] > 1:
                raise InvalidRequestError(
                    f"topic {asked.name[:NAME_SHOWN]!r} is named {times[asked.name]} times in the request"
                )
            check_partitions_change(asked.name)
            topic = _existing(context, asked)
            result = _present(topic, asked)
            made = _new_partitions(context, topic, asked, request.principal, added)
            results.append(TopicResult(topic.name, topic.topic_id, None, asked.total, len(made[0].replicas)))
        except ApiError as error:
            results.append(replace(result, error=error))
    records = () if request.validate_only else tuple(added.records)
    return ControllerResult(records, CreatePartitionsResponse(tuple(results)))


def _existing(context: DecisionContext, asked: NewPartitions) -> TopicState:
    topic = context.named_topic(asked.name)
    if asked.topic_id not in ("", topic.topic_id):
        raise UnknownTopicIdError(
            f"topic {asked.name} has the id {topic.topic_id}, not {asked.topic_id[:NAME_SHOWN]!r}: it was deleted and"
            " made anew"
        )
    return topic


def _present(topic: TopicState, asked: NewPartitions) -> TopicResult:
    """The result of a topic that has what is asked for already: with its number of partitions. Else without one."""
    partitions = topic.partitions
    is_there = len(partitions) == asked.total and all(
        assigned.partition in partitions and partitions[assigned.partition].replicas == assigned.replicas
        for assigned in asked.assignment
    )
    if not is_there:
        return TopicResult(topic.name)
    return TopicResult(topic.name, topic.topic_id, None, len(partitions), topic.replication_factor)


def _new_partitions(
    context: DecisionContext, topic: TopicState, asked: NewPartitions, principal: str, before: _Added
) -> list[PartitionRecord]:
    """The topic's new partitions; their records are added to those of `before`."""
    name, present = topic.name, len(topic.partitions)
    if asked.total <= present:
        has = f"topic {name} has {present} partition{'' if present == 1 else 's'} already"
        raise InvalidPartitionsError(
            f"{has}; to add some, ask for more than that"
            if asked.total == present
            else f"{has}, which is more than the {asked.total} asked for; partitions cannot be removed"
        )
    added = asked.total - present
    check_partition_count(context, name, asked.total, before.partitions + added)
    owner = context.state.owners.of(topic.topic_id)
    is_taken = owner == NOBODY and principal != NOBODY
    owner, counted = (principal, asked.total) if is_taken else (owner, added)
    if principal != NOBODY:
        owned = context.state.owners.partitions_of(owner) + before.by_owner[owner] + counted
        check_share(context, name, owner, owned, context.state.partition_count + before.partitions + added)
    check_record_count(context, name, len(before.records) + is_taken + added)
    replicas = _assigned(context, topic, asked) if asked.assignment else _placed(context, topic, added)
    if is_taken:
        before.records.append(owner_record(topic.topic_id, owner))
    made = [partition_record(context, topic.topic_id, present + at, assigned) for at, assigned in enumerate(replicas)]
    before.records += made
    before.partitions += added
    before.by_owner[owner] += counted
    return made


def _factor(topic: TopicState) -> int:
    """How many replicas a new partition has: as many as the first one."""
    return len(topic.partitions[0].target_replicas)


def _assigned(context: DecisionContext, topic: TopicState, asked: NewPartitions) -> list[tuple[int, ...]]:
    """The operator's own assignment, in the order of partitions."""
    name, present = topic.name, len(topic.partitions)
    assignment = sorted(asked.assignment, key=lambda assigned: assigned.partition)
    if len(assignment) != asked.total - present:
        raise InvalidReplicaAssignmentError(
            f"topic {name} has {present} partitions and would get {asked.total - present} more, but the assignment"
            f" names {len(assignment)}"
        )
    if [assigned.partition for assigned in assignment] != list(range(present, asked.total)):
        raise InvalidReplicaAssignmentError(
            f"the assignment of topic {name} must name the new partitions, {present} to {asked.total - 1}, each once"
        )
    for assigned in assignment:
        check_replicas(context, f"{name}-{assigned.partition}", assigned.replicas, _factor(topic))
    return [assigned.replicas for assigned in assignment]


def _placed(context: DecisionContext, topic: TopicState, added: int) -> list[tuple[int, ...]]:
    factor = _factor(topic)
    what = f"replication factor {factor} of new partitions of topic {topic.name}, that of its first,"
    brokers = brokers_for(context, what, factor)
    existing = [topic.partitions[number].replicas for number in sorted(topic.partitions)]
    return place_more_replicas(brokers, existing, added, factor, context.rng)
