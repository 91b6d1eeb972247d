"""Decides which topics are created and which are deleted. Each topic of a request stands alone: an error of one does
not stop the others.

A topic is checked whole (name, numbers, configuration, placement) before any of its records exists. Its replicas are
placed by placement.py, or by the operator's own assignment (assignments.py). Not here: more partitions for a topic that
exists (new_partitions.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from metadata.controller.context import DecisionContext, check_min_insync_replicas
from metadata.controller.result import ControllerResult, TickResponse
from metadata.controller.topics.assignments import (
    brokers_for,
    check_partition_count,
    check_record_count,
    check_replicas,
    check_share,
    partition_record,
)
from metadata.controller.topics.owners import NOBODY, owner_record
from metadata.controller.topics.placement import place_replicas
from metadata.internal_topics import check_creation
from metadata.records import TOPIC_RESOURCE, ConfigRecord, Record, RemoveTopicRecord, TopicRecord
from metadata.topic_config import validate_topic_config
from penstock.errors import (
    ApiError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    TopicExistsError,
    UnknownTopicIdError,
)
from penstock.lazy_dataclass import dataclass
from penstock.messages.topics import (
    USE_DEFAULT,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicResult,
)
from penstock.topic_names import collision_key, validate_topic_name


@dataclass(slots=True)
class NewRecords:
    """The records of new topics, and the names and partitions that earlier topics of the same request have taken. All
    are the same owner's."""

    owner: str = NOBODY
    records: list[Record] = field(default_factory=list)
    partition_count: int = 0
    names_by_collision_key: dict[str, str] = field(default_factory=dict)


def create_topics(context: DecisionContext, request: CreateTopicsRequest) -> ControllerResult[CreateTopicsResponse]:
    """Results stand in the order of the request; with `validate_only` they are the same, but nothing is made."""
    context.check_item_count(len(request.topics), "topics")
    times = Counter(topic.name for topic in request.topics)
    batch, results = NewRecords(request.principal), []
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise InvalidRequestError(
                    f"topic {topic.name[:64]!r} is named {times[topic.name]} times in the request"
                )
            results.append(_create_topic(context, topic, batch, request.validate_only))
        except ApiError as error:
            results.append(TopicResult(topic.name, error=error))
    records = () if request.validate_only else tuple(batch.records)
    return ControllerResult(records, CreateTopicsResponse(tuple(results)))


def delete_topics(context: DecisionContext, request: DeleteTopicsRequest) -> ControllerResult[DeleteTopicsResponse]:
    """Removes each topic. Brokers delete its data because of the committed record, by topic id, and for no other
    reason."""
    context.check_item_count(len(request.topic_ids), "topics")
    times = Counter(request.topic_ids)
    records: list[Record] = []
    results = []
    for topic_id in request.topic_ids:
        topic = context.state.topics.get(topic_id)
        if times[topic_id] > 1:
            error: ApiError = InvalidRequestError(
                f"topic id {topic_id[:64]!r} is named {times[topic_id]} times in the request"
            )
            results.append(TopicResult("", topic_id, error))
        elif topic is None:
            error = UnknownTopicIdError(f"no topic has the id {topic_id[:64]!r}; was it deleted?")
            results.append(TopicResult("", topic_id, error))
        else:
            records.append(RemoveTopicRecord(topic_id))
            if context.state.owners.of(topic_id) != NOBODY:
                records.append(owner_record(topic_id, None))
            results.append(TopicResult(topic.name, topic_id, None, len(topic.partitions), topic.replication_factor))
    return ControllerResult(tuple(records), DeleteTopicsResponse(tuple(results)))


def settle_owners(context: DecisionContext) -> ControllerResult[TickResponse]:
    """Forgets the owners of topics that a controller of an older release has deleted. It runs once, before the
    controller's first tick; what is above one batch stays until the next controller begins."""
    strays = context.state.owners.strays(context.state.topics)[: context.config.max_records_per_decision]
    return ControllerResult(tuple(owner_record(topic_id, None) for topic_id in strays), TickResponse())


def _create_topic(context: DecisionContext, topic: NewTopic, batch: NewRecords, validate_only: bool) -> TopicResult:
    _check_name(context, topic.name, batch)
    return add_topic(context, topic, batch, validate_only)


def add_topic(context: DecisionContext, topic: NewTopic, batch: NewRecords, validate_only: bool = False) -> TopicResult:
    """Adds the records of a topic whose name may be given."""
    replicas = _assigned_by_hand(context, topic, batch) if topic.assignment else _placed(context, topic, batch)
    replication_factor = max(map(len, replicas))
    config = validate_topic_config(topic.config)
    check_min_insync_replicas(topic.name, config, replication_factor)
    own = [] if batch.owner == NOBODY else [batch.owner]
    check_record_count(context, topic.name, len(batch.records) + 1 + len(own) + len(config) + len(replicas))
    topic_id = "" if validate_only else context.new_topic_id()
    batch.records.append(TopicRecord(topic.name, topic_id))
    batch.records += (owner_record(topic_id, owner) for owner in own)
    for key in sorted(topic.config):
        batch.records.append(ConfigRecord(TOPIC_RESOURCE, topic.name, key, topic.config[key].strip()))
    for partition, assigned in enumerate(replicas):
        batch.records.append(partition_record(context, topic_id, partition, assigned))
    batch.partition_count += len(replicas)
    batch.names_by_collision_key[collision_key(topic.name)] = topic.name
    return TopicResult(topic.name, topic_id, None, len(replicas), replication_factor)


def _check_name(context: DecisionContext, name: str, batch: NewRecords) -> None:
    validate_topic_name(name)
    check_creation(name)
    if context.state.topic_named(name) is not None:
        raise TopicExistsError(f"topic {name} exists already; choose another name, or delete that topic first")
    other = context.state.name_colliding_with(name) or batch.names_by_collision_key.get(collision_key(name))
    if other is not None:
        raise InvalidTopicError(f"topic name {name} collides with topic {other}: '.' and '_' count as the same")


def _check_count(context: DecisionContext, name: str, partitions: int, batch: NewRecords) -> None:
    """The limits of the topic, of the cluster, and of the owner."""
    added = batch.partition_count + partitions
    check_partition_count(context, name, partitions, added)
    owned = context.state.owners.partitions_of(batch.owner) + added
    check_share(context, name, batch.owner, owned, context.state.partition_count + added)


def _placed(context: DecisionContext, topic: NewTopic, batch: NewRecords) -> list[tuple[int, ...]]:
    """Replicas by placement, after the two numbers were checked."""
    config = context.config
    partitions = config.num_partitions if topic.partitions == USE_DEFAULT else topic.partitions
    _check_count(context, topic.name, partitions, batch)
    is_default = topic.replication_factor == USE_DEFAULT
    factor = config.default_replication_factor if is_default else topic.replication_factor
    whose = " (default.replication.factor, as the request names none)" if is_default else ""
    brokers = brokers_for(context, f"replication factor {factor}{whose} of topic {topic.name}", factor)
    return place_replicas(brokers, partitions, factor, context.rng)


def _assigned_by_hand(context: DecisionContext, topic: NewTopic, batch: NewRecords) -> list[tuple[int, ...]]:
    """The operator's own assignment, in the order of partitions."""
    assignment = sorted(topic.assignment, key=lambda assigned: assigned.partition)
    if [assigned.partition for assigned in assignment] != list(range(len(assignment))):
        raise InvalidReplicaAssignmentError(
            f"the assignment of topic {topic.name} must name the partitions from 0 on, each once"
        )
    _check_count(context, topic.name, len(assignment), batch)
    replicas = [assigned.replicas for assigned in assignment]
    _check_agrees(topic, replicas)
    for partition, assigned in enumerate(replicas):
        check_replicas(context, f"{topic.name}-{partition}", assigned, len(replicas[0]))
    return replicas


def _check_agrees(topic: NewTopic, replicas: Sequence[tuple[int, ...]]) -> None:
    """The two numbers may be left out; if given, they must be the assignment's own."""
    if topic.partitions not in (USE_DEFAULT, len(replicas)):
        raise InvalidRequestError(
            f"topic {topic.name}: {topic.partitions} partitions are asked for, {len(replicas)} are assigned"
        )
    if topic.replication_factor not in (USE_DEFAULT, len(replicas[0])):
        raise InvalidRequestError(
            f"topic {topic.name}: replication factor {topic.replication_factor} is asked for,"
            f" {len(replicas[0])} replicas are assigned"
        )
