"""Decides on changes of configuration: each resource of a request is changed whole or not at all (KIP-339).

A resource is a topic (topic_configs.py), one broker, or all brokers (broker_configs.py), or a subscription to the
metrics of clients (client_metrics.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from metadata.controller.configuration.broker_configs import broker_records
from metadata.controller.configuration.changes import SHOWN_CHARACTERS
from metadata.controller.configuration.client_metrics import client_metrics_records
from metadata.controller.configuration.topic_configs import topic_records
from metadata.controller.context import DecisionContext
from metadata.controller.result import ControllerResult
from metadata.records import ALL_BROKERS, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE, Record
from metadata.topic_config import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from penstock.errors import ApiError, InvalidRequestError, PolicyViolationError
from penstock.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)


def alter_configs(context: DecisionContext, request: AlterConfigsRequest) -> ControllerResult[AlterConfigsResponse]:
    """Results stand in the order of the request; a key that has the value already makes no record."""
    if not request.resources:
        raise InvalidRequestError("the request names no resource to configure")
    context.check_item_count(len(request.resources), "resources")
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    if times[BROKER_RESOURCE, ALL_BROKERS] and len(times) > 1:
        # Each resource is judged by the state before the request; the value for all brokers is part of every other's.
        raise InvalidRequestError("the configuration of all brokers must be the only resource of a request")
    records: list[Record] = []
    results = []
    for resource in request.resources:
        identity = (resource.resource_type, resource.resource_name)
        try:
            if times[identity] > 1:
                shown = " ".join(identity)[:SHOWN_CHARACTERS]
                raise InvalidRequestError(f"{shown} is named {times[identity]} times in the request")
            made = _alter(context, _with_deletions(context, resource) if resource.replace_all else resource)
            _check_count(context, resource, len(records) + len(made))
            records += made
            results.append(AlterConfigsResult(*identity))
        except ApiError as error:
            results.append(AlterConfigsResult(*identity, error))
    return ControllerResult(() if request.validate_only else tuple(records), AlterConfigsResponse(tuple(results)))


def _with_deletions(context: DecisionContext, resource: AlterConfigsResource) -> AlterConfigsResource:
    """The changes of the resource, and a deletion of each key that has a value now and is not named."""
    own: Mapping[str, str] = context.state.configs.get(
        ConfigResource(resource.resource_type, resource.resource_name), {}
    )
    unnamed = own.keys() - {change.key for change in resource.changes}
    deletions = (ConfigChange(key, ConfigOperation.DELETE) for key in sorted(unnamed))
    return replace(resource, changes=(*resource.changes, *deletions))


def _check_count(context: DecisionContext, resource: AlterConfigsResource, count: int) -> None:
    """One batch has what a change needs: the ELRs are empty BEFORE a lower min.insync.replicas counts. The batch of one
    topic always has room; that of all brokers may not, and then one topic after the other gets the value first."""
    most = context.config.max_records_per_decision
    if count <= most:
        return
    if (resource.resource_type, resource.resource_name) != (BROKER_RESOURCE, ALL_BROKERS):
        raise PolicyViolationError(f"more than {most} records would be needed; ask for fewer changes in one request")
    raise PolicyViolationError(
        f"{count} records would be needed, most of them of partitions that get a leader or have their ELR emptied; at"
        f" most {most} may be committed at once. Set {MIN_INSYNC_REPLICAS} or {UNCLEAN_LEADER_ELECTION} of topics first"
        ", one after the other: `penstock configs alter TOPIC --set KEY=VALUE`"
    )


def _alter(context: DecisionContext, resource: AlterConfigsResource) -> list[Record]:
    if resource.resource_type == TOPIC_RESOURCE:
        return topic_records(context, resource)
    if resource.resource_type == BROKER_RESOURCE:
        return broker_records(context, resource)
    if resource.resource_type == CLIENT_METRICS_RESOURCE:
        return client_metrics_records(context, resource)
    raise InvalidRequestError(
        f"resource type {resource.resource_type[:SHOWN_CHARACTERS]!r} cannot be configured;"
        f" only {TOPIC_RESOURCE!r}, {BROKER_RESOURCE!r} and {CLIENT_METRICS_RESOURCE!r} can"
    )
