"""Decides on changes of configuration: each resource of a request is changed whole or not at all.

Topics only; a node's own configuration is a file. A topic that now allows unclean elections gets leaders for its
partitions that have none, in the same batch.
"""

from __future__ import annotations

from metadata.controller.context import DecisionContext, check_min_insync_replicas
from metadata.controller.election import Circumstances, change_record, elect
from metadata.controller.result import ControllerResult
from metadata.controller.state import TopicState
from metadata.records import TOPIC_RESOURCE, ConfigRecord, Record
from metadata.requests import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse, AlterConfigsResult
from metadata.topic_config import (
    TOPIC_CONFIGS,
    UNCLEAN_LEADER_ELECTION,
    effective_value,
    parse_topic_config,
    validate_topic_config,
)
from penstock.errors import ApiError, InvalidRequestError, PolicyViolationError, UnknownTopicOrPartitionError


def alter_configs(context: DecisionContext, request: AlterConfigsRequest) -> ControllerResult[AlterConfigsResponse]:
    """Results stand in the order of the request; a key that has the value already makes no record."""
    context.check_item_count(len(request.resources), "resources")
    records: list[Record] = []
    results = []
    seen: set[tuple[str, str]] = set()
    for resource in request.resources:
        identity = (resource.resource_type, resource.resource_name)
        try:
            if identity in seen:
                raise InvalidRequestError(f"{' '.join(identity)[:64]} is named twice in the request")
            seen.add(identity)
            made = _alter_topic(context, resource)
            if len(records) + len(made) > context.config.max_records_per_decision:
                raise PolicyViolationError(
                    f"more than {context.config.max_records_per_decision} records would be needed; ask for fewer"
                    " changes in one request"
                )
            records += made
            results.append(AlterConfigsResult(*identity))
        except ApiError as error:
            results.append(AlterConfigsResult(*identity, error))
    return ControllerResult(() if request.validate_only else tuple(records), AlterConfigsResponse(tuple(results)))


def _alter_topic(context: DecisionContext, resource: AlterConfigsResource) -> list[Record]:
    if resource.resource_type != TOPIC_RESOURCE:
        raise InvalidRequestError(
            f"resource type {resource.resource_type[:64]!r} cannot be configured here; only {TOPIC_RESOURCE!r} can"
        )
    name = resource.resource_name
    topic = context.state.topic_named(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"topic {name[:64]!r} does not exist")
    before = context.state.topic_config(name)
    after = dict(before)
    for key, value in resource.changes.items():
        if value is not None:
            after[key] = value.strip()
        elif after.pop(key, None) is None and key not in TOPIC_CONFIGS:
            parse_topic_config(key, "")  # raises, with the nearest key
    check_min_insync_replicas(name, validate_topic_config(after), topic.replication_factor)
    records: list[Record] = [
        ConfigRecord(TOPIC_RESOURCE, name, key, after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    if effective_value(UNCLEAN_LEADER_ELECTION, after, context.config.topic_defaults):
        records += _unclean_elections(context, topic)
    return records


def _unclean_elections(context: DecisionContext, topic: TopicState) -> list[Record]:
    state = context.state
    circumstances = Circumstances(state.is_active, state.is_unfenced, unclean_allowed=True)
    waiting = (partition for partition in topic.partitions.values() if not partition.has_leader)
    changes = (change_record(partition, elect(partition, circumstances)) for partition in waiting)
    return [change for change in changes if change is not None]
