"""DescribeConfigs 1 to 4 and ListConfigResources 0 to 1: what is configured, and of what.

Topics and brokers have configuration; a broker by the name "" is what all brokers have. A broker tells only its own.
The levels of a broker's loggers (BROKER_LOGGER) are the items of its key `logger.level`. Keys that a client names and
that there are not are left out, as in Kafka. Client metrics and groups have no configuration here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.kafka.apis.admin.broker_loggers import LOGGER_KEY, logger_configs
from broker.kafka.apis.admin.config_codes import OURS, SOURCES, TYPES, UNKNOWN_TYPE, ConfigOwner
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import DoorParts
from broker.kafka.plan import Ask, Asked, Plan
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
from metadata.records import BROKER_RESOURCE
from penstock.errors import ApiError, InvalidRequestError, UnsupportedVersionError
from penstock.messages import configs
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.cluster import DescribeClusterRequest
from penstock.messages.security.acls import Operation

Found = Mapping[tuple[str, str], configs.DescribeConfigsResult]


def describe_configs(asked: Asked, body: DescribeConfigsRequest) -> Plan:
    ours = list(dict.fromkeys(filter(None, map(_ours, body.resources))))
    found: dict[tuple[str, str], configs.DescribeConfigsResult] = {}
    for at in range(0, len(ours), NAMES_MAX):
        wanted = tuple(configs.DescribeConfigsResource(*resource) for resource in ours[at : at + NAMES_MAX])
        answer = yield Ask("DescribeConfigs", configs.DescribeConfigsRequest(wanted, body.include_synonyms))
        found |= {(one.resource_type, one.resource_name): one for one in answer.resources}
    return DescribeConfigsResponse(results=[_result(asked, body, resource, found) for resource in body.resources])


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
    entries: Sequence[DescribeConfigsResourceResult] = [_entry(body, entry) for entry in found[ours].configs]
    if resource.resource_type == ConfigOwner.BROKER_LOGGER:
        level = next(entry.value for entry in found[ours].configs if entry.name == LOGGER_KEY)
        entries = logger_configs(level)
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[entry for entry in entries if not wanted or entry.name in wanted],
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


def list_config_resources(parts: DoorParts, asked: Asked, body: ListConfigResourcesRequest) -> Plan:
    """The owners of the kinds that are asked for, or of all; version 0 asks for client metrics."""
    parts.rights.check_cluster(asked.caller, "ListConfigResources", Operation.DESCRIBE_CONFIGS)
    known = {ConfigOwner.TOPIC, ConfigOwner.BROKER, ConfigOwner.BROKER_LOGGER}
    every = {ConfigOwner.CLIENT_METRICS} if asked.version == 0 else set(ConfigOwner)
    wanted = set(body.resource_types) or every
    if unknown := wanted - set(ConfigOwner):
        raise UnsupportedVersionError(f"resource type {min(unknown)} is not known")
    cluster = yield Ask("DescribeCluster", DescribeClusterRequest())
    brokers = [str(broker.node_id) for broker in cluster.brokers]
    names: dict[int, list[str]] = dict.fromkeys(known, brokers)
    names[ConfigOwner.TOPIC] = sorted(parts.image().topics_by_name)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted & known)
            for name in names[kind]
        ]
    )
