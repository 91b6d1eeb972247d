"""DescribeConfigs 1 to 4 and ListConfigResources 0 to 1: what is configured, and of what.

Topics and brokers have configuration; a broker by the name "" is what all brokers have. A broker tells only its own.
The levels of a broker's loggers (BROKER_LOGGER) are the items of its key `logger.level`. Keys that a client names and
that there are not are left out, as in Kafka. Groups have no configuration here.

The answer may be a thousand times as large as the request. So each resource is answered once, with the same keys; few
are asked for at a time; and the answer is made resource by resource, as bytes, with a pause after each.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from broker.kafka.api_row import alone, over, serves
from broker.kafka.apis.admin.broker_loggers import LOGGER_KEY, logger_configs
from broker.kafka.apis.admin.config_codes import OURS, SOURCES, TYPES, UNKNOWN_TYPE, ConfigOwner
from broker.kafka.apis.asked_topics import each_once
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, Plan
from broker.kafka.schemas.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from broker.kafka_codec.codec import encode_element
from metadata.records import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE
from penstock.errors import ApiError, InvalidRequestError, UnsupportedVersionError
from penstock.messages import configs
from penstock.messages.cluster import DescribeClusterRequest
from penstock.messages.security.acls import Operation

ASKED_AT_ONCE: Final = 16
"""Topics of one question. Their keys with all synonyms take some ms."""
Found = Mapping[tuple[str, str], configs.DescribeConfigsResult]


def describe_configs(asked: Asked, body: DescribeConfigsRequest) -> Plan:
    results: list[Any] = []
    seen: set[Hashable] = set()
    for at in range(0, len(body.resources), ASKED_AT_ONCE):
        yield PAUSE
        each = each_once(body.resources[at : at + ASKED_AT_ONCE], _once)
        some = [resource for resource in each if _once(resource) not in seen]
        seen.update(map(_once, some))
        wanted = tuple(configs.DescribeConfigsResource(*ours) for ours in dict.fromkeys(map(_ours, some)) if ours)
        found: Found = {}
        if wanted:
            answer = yield Ask("DescribeConfigs", configs.DescribeConfigsRequest(wanted, body.include_synonyms))
            found = {(one.resource_type, one.resource_name): one for one in answer.resources}
        for resource in some:
            element = _result(asked, body, resource, found)
            results.append(encode_element(element, DescribeConfigsResponse, asked.version))
            yield PAUSE
    return DescribeConfigsResponse(results=results)


def _once(resource: DescribeConfigsResource) -> tuple[int, str, tuple[str, ...]]:
    return resource.resource_type, resource.resource_name, tuple(resource.configuration_keys or ())


def describe_configs_failed(asked: Asked, body: DescribeConfigsRequest, error: ApiError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(asked, resource, error) for resource in body.resources])


def _ours(resource: DescribeConfigsResource) -> tuple[str, str] | None:
    """The resource in our terms; None for a kind that has no configuration here."""
    if resource.resource_type == ConfigOwner.BROKER_LOGGER:
        return (BROKER_RESOURCE, resource.resource_name) if resource.resource_name else None
    kind = OURS.get(resource.resource_type)
    return None if kind is None else (kind, resource.resource_name)


def _result(
    asked: Asked, body: DescribeConfigsRequest, resource: DescribeConfigsResource, found: Found
) -> DescribeConfigsResult:
    ours = _ours(resource)
    if ours is None:
        what = f"resource type {resource.resource_type} with the name {resource.resource_name[:64]!r}"
        return _refused(asked, resource, InvalidRequestError(f"{what} has no configuration here"))
    if (error := found[ours].error) is not None:
        return _refused(asked, resource, error)
    wanted = frozenset(resource.configuration_keys or ())
    entries: Sequence[DescribeConfigsResourceResult]
    if resource.resource_type == ConfigOwner.BROKER_LOGGER:
        level = next(entry.value for entry in found[ours].configs if entry.name == LOGGER_KEY)
        entries = [entry for entry in logger_configs(level) if not wanted or entry.name in wanted]
    else:
        entries = [_entry(body, one) for one in found[ours].configs if not wanted or one.name in wanted]
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=list(entries),
    )


def _entry(body: DescribeConfigsRequest, entry: configs.ConfigEntry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=SOURCES[entry.source],
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=one.value, source=SOURCES[one.source]) for one in entry.synonyms
        ],
        config_type=TYPES.get(entry.type, UNKNOWN_TYPE),
        documentation=entry.documentation if body.include_documentation else None,
    )


def _refused(asked: Asked, resource: DescribeConfigsResource, error: ApiError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code_of(error, "DescribeConfigs", asked.version),
        error_message=message_of(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def list_config_resources(parts: PlanParts, asked: Asked, body: ListConfigResourcesRequest) -> Plan:
    """The owners of the kinds that are asked for, or of all; version 0 asks for client metrics."""
    parts.rights.check_cluster(asked.caller, "ListConfigResources", Operation.DESCRIBE_CONFIGS)
    known = set(ConfigOwner) - {ConfigOwner.GROUP}
    every = {ConfigOwner.CLIENT_METRICS} if asked.version == 0 else set(ConfigOwner)
    wanted = set(body.resource_types) or every
    if unknown := wanted - set(ConfigOwner):
        raise UnsupportedVersionError(f"resource type {min(unknown)} is not known")
    cluster = yield Ask("DescribeCluster", DescribeClusterRequest())
    brokers = [str(broker.node_id) for broker in cluster.brokers]
    names: dict[int, list[str]] = dict.fromkeys(known, brokers)
    image = parts.image()
    names[ConfigOwner.TOPIC] = sorted(image.topics_by_name)
    names[ConfigOwner.CLIENT_METRICS] = sorted(
        one.resource_name for one in image.configs if one.resource_type == CLIENT_METRICS_RESOURCE
    )
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted & known)
            for name in names[kind]
        ]
    )


SERVED: Final = (
    serves(
        DescribeConfigsRequest, DescribeConfigsResponse, (1, 4), alone(describe_configs), failed=describe_configs_failed
    ),
    serves(ListConfigResourcesRequest, ListConfigResourcesResponse, (0, 1), over(list_config_resources)),
)
