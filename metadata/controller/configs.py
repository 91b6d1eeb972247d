"""Decides on changes of configuration: each resource of a request is changed whole or not at all (KIP-339).

Topics only; a node's own configuration is a file. Two keys change partitions in the same batch. If
`min.insync.replicas` is lowered, an ELR is emptied BEFORE the lower value counts, where the ISR is large enough from
then on: a leader commits nothing while there is an ELR. If unclean elections are allowed, the partitions without a
leader get one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from metadata.config_types import ConfigKind
from metadata.controller.context import DecisionContext, check_min_insync_replicas, effective_min_isr
from metadata.controller.election import Circumstances, change_record, changed, elect
from metadata.controller.result import ControllerResult
from metadata.controller.state import TopicState
from metadata.records import TOPIC_RESOURCE, ConfigRecord, Record
from metadata.requests import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    ConfigOperation,
)
from metadata.topic_config import (
    UNCLEAN_LEADER_ELECTION,
    effective_value,
    topic_config_definition,
    validate_topic_config,
)
from penstock.errors import (
    ApiError,
    InvalidConfigError,
    InvalidRequestError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)

_SHOWN_CHARACTERS = 64


def alter_configs(context: DecisionContext, request: AlterConfigsRequest) -> ControllerResult[AlterConfigsResponse]:
    """Results stand in the order of the request; a key that has the value already makes no record."""
    if not request.resources:
        raise InvalidRequestError("the request names no resource to configure")
    context.check_item_count(len(request.resources), "resources")
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    records: list[Record] = []
    results = []
    for resource in request.resources:
        identity = (resource.resource_type, resource.resource_name)
        try:
            if times[identity] > 1:
                shown = " ".join(identity)[:_SHOWN_CHARACTERS]
                raise InvalidRequestError(f"{shown} is named {times[identity]} times in the request")
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
            f"resource type {resource.resource_type[:_SHOWN_CHARACTERS]!r} cannot be configured here;"
            f" only {TOPIC_RESOURCE!r} can"
        )
    name = resource.resource_name
    topic = context.state.topic_named(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(
            f"topic {name[:_SHOWN_CHARACTERS]!r} does not exist; `penstock topics list` names those that do"
        )
    before = context.state.topic_config(name)
    after = _changed(context, before, resource.changes)
    check_min_insync_replicas(name, validate_topic_config(after), topic.replication_factor)
    records: list[Record] = [
        ConfigRecord(TOPIC_RESOURCE, name, key, after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    if effective_value(UNCLEAN_LEADER_ELECTION, after, context.config.topic_defaults):
        records += _unclean_elections(context, topic, after)
    return [*_emptied_elrs(context, topic, after), *records]


def _changed(context: DecisionContext, before: Mapping[str, str], changes: tuple[ConfigChange, ...]) -> dict[str, str]:
    """The overrides after every change; the values are not checked yet."""
    times = Counter(change.key for change in changes)
    after = dict(before)
    for key, operation, value in changes:
        if times[key] > 1:
            raise InvalidRequestError(f"{key[:_SHOWN_CHARACTERS]!r} is named {times[key]} times for one resource")
        if operation == ConfigOperation.SET:
            after[key] = value.strip()
        elif operation == ConfigOperation.DELETE:
            if after.pop(key, None) is None:  # else it is known, or was to an older version
                topic_config_definition(key)
        elif operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            after[key] = _listed(context, before, ConfigChange(key, operation, value))
        else:
            raise InvalidRequestError(f"operation {operation} on {key[:_SHOWN_CHARACTERS]!r} is not known")
    return after


def _listed(context: DecisionContext, before: Mapping[str, str], change: ConfigChange) -> str:
    """The effective list of a key with the items added or taken out."""
    definition = topic_config_definition(change.key)
    if definition.kind is not ConfigKind.LIST:
        raise InvalidConfigError(f"{change.key} is not a list: set it, nothing can be appended or subtracted")
    wanted = definition.parse(change.value)
    present = effective_value(change.key, before, context.config.topic_defaults)
    if not isinstance(present, tuple) or not isinstance(wanted, tuple):
        raise InvalidConfigError(f"{change.key} is not a list")
    if change.operation == ConfigOperation.APPEND:
        items = (*present, *(item for item in wanted if item not in present))
    else:
        items = tuple(item for item in present if item not in wanted)
    if not items:
        raise InvalidConfigError(f"{change.key} would be empty: it must be {definition.range_text}")
    return ",".join(items)


def _emptied_elrs(context: DecisionContext, topic: TopicState, after: Mapping[str, str]) -> list[Record]:
    """Of the partitions whose leader may commit again with the new configuration."""
    defaults = context.config.topic_defaults
    led = (partition for partition in topic.partitions.values() if partition.has_leader and partition.elr)
    changes = (changed(partition, effective_min_isr(partition, after, defaults)) for partition in led)
    return [change for change in changes if change is not None]


def _unclean_elections(context: DecisionContext, topic: TopicState, after: Mapping[str, str]) -> list[Record]:
    state, defaults = context.state, context.config.topic_defaults
    changes = []
    for partition in topic.partitions.values():
        if not partition.has_leader:
            min_isr = effective_min_isr(partition, after, defaults)
            circumstances = Circumstances(
                state.is_active, state.is_unfenced, state.replica_is_online, min_isr, unclean_allowed=True
            )
            changes.append(change_record(partition, elect(partition, circumstances)))
    return [change for change in changes if change is not None]
