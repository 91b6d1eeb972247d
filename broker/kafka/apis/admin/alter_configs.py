"""IncrementalAlterConfigs 0 to 1, and AlterConfigs 0 to 2, which gives a resource this configuration and no other.

Each resource is changed whole or not at all, and has its own answer. The old request is one of ours with `replace_all`:
the active controller decides what goes, so no change of another client gets between. Beside that the deletions are
spelled out by this node's metadata, for a controller of an older release that does not know `replace_all`.

Two things that Kafka's tools do are left out of a request, because there is nothing to do for them (`_to_do`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.config.keys.config_table import KEYS
from broker.kafka.api_row import over, serves
from broker.kafka.apis.admin.broker_loggers import LOGGER_KEY, with_changes
from broker.kafka.apis.admin.config_codes import OURS, ConfigOwner
from broker.kafka.apis.asked_topics import each_once
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from metadata.client_metrics import CLIENT_METRICS_KEYS
from metadata.image import MetadataImage
from metadata.records import BROKER_RESOURCE
from metadata.topic_config import EVERY_TOPIC_KEY
from penstock.errors import ApiError, InvalidRequestError
from penstock.messages import configs
from penstock.messages.configs import AlterConfigsResource, ConfigChange, ConfigOperation

_DELETE: Final = ConfigOperation.DELETE
THROTTLED_REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_KNOWN: Final[Mapping[int, Container[str]]] = {
    ConfigOwner.TOPIC: EVERY_TOPIC_KEY.keys() - set(THROTTLED_REPLICAS),
    ConfigOwner.BROKER: KEYS,
    ConfigOwner.CLIENT_METRICS: CLIENT_METRICS_KEYS,
}


class _Resource(NamedTuple):
    """Kafka's number for the kind, and the name."""

    kind: int
    name: str


Outcomes = Mapping[_Resource, ApiError | None]


def incremental_alter_configs(parts: PlanParts, asked: Asked, body: IncrementalAlterConfigsRequest) -> Plan:
    outcomes: dict[_Resource, ApiError | None] = {}
    wanted: dict[_Resource, AlterConfigsResource] = {}
    image = parts.image()
    for one, entries in _each(body.resources, outcomes):
        changes = tuple(ConfigChange(entry.name, entry.config_operation, entry.value or "") for entry in entries)
        without = [entry.name for entry in entries if entry.value is None and entry.config_operation != _DELETE]
        if error := _bad_changes(changes, without):
            outcomes[one] = error
        elif one.kind == ConfigOwner.BROKER_LOGGER:
            try:
                wanted[one] = yield from _of_loggers(one.name, changes)
            except ApiError as error:
                outcomes[one] = error
        else:
            wanted[one] = AlterConfigsResource(OURS[one.kind], one.name, _to_do(image, one, changes))
    yield from _altered(wanted, body.validate_only, outcomes)
    return IncrementalAlterConfigsResponse(responses=_rows(asked, "IncrementalAlterConfigs", body.resources, outcomes))


def alter_configs(parts: PlanParts, asked: Asked, body: AlterConfigsRequest) -> Plan:
    outcomes: dict[_Resource, ApiError | None] = {}
    wanted: dict[_Resource, AlterConfigsResource] = {}
    image = parts.image()
    for one, entries in _each(body.resources, outcomes):
        sets = tuple(ConfigChange(entry.name, ConfigOperation.SET, entry.value or "") for entry in entries)
        if error := _bad_changes(sets, [entry.name for entry in entries if entry.value is None]):
            outcomes[one] = error
        elif one.kind == ConfigOwner.BROKER_LOGGER:
            outcomes[one] = InvalidRequestError("levels of loggers are changed by IncrementalAlterConfigs")
        else:
            changes = (*_to_do(image, one, sets), *_deletions(image, one, sets))
            wanted[one] = AlterConfigsResource(OURS[one.kind], one.name, changes, replace_all=True)
    yield from _altered(wanted, body.validate_only, outcomes)
    return AlterConfigsResponse(responses=_rows(asked, "AlterConfigs", body.resources, outcomes))


def incremental_alter_configs_failed(
    asked: Asked, body: IncrementalAlterConfigsRequest, error: ApiError
) -> IncrementalAlterConfigsResponse:
    outcomes = {_Resource(one.resource_type, one.resource_name): error for one in body.resources}
    return IncrementalAlterConfigsResponse(responses=_rows(asked, "IncrementalAlterConfigs", body.resources, outcomes))


def alter_configs_failed(asked: Asked, body: AlterConfigsRequest, error: ApiError) -> AlterConfigsResponse:
    outcomes = {_Resource(one.resource_type, one.resource_name): error for one in body.resources}
    return AlterConfigsResponse(responses=_rows(asked, "AlterConfigs", body.resources, outcomes))


def _each(resources: Sequence[Any], outcomes: dict[_Resource, ApiError | None]) -> Iterable[tuple[_Resource, Any]]:
    """The resources that can be changed, with their entries; `outcomes` gets the errors of the others."""
    named = [_Resource(one.resource_type, one.resource_name) for one in resources]
    times = Counter(named)
    for one, resource in zip(named, resources, strict=True):
        if times[one] > 1:
            outcomes[one] = InvalidRequestError(f"the resource is named {times[one]} times in the request")
        elif one.kind not in OURS and one.kind != ConfigOwner.BROKER_LOGGER:
            outcomes[one] = InvalidRequestError(f"resource type {one.kind} has no configuration here")
        else:
            yield one, resource.configs


def _bad_changes(changes: Sequence[ConfigChange], without: Sequence[str]) -> ApiError | None:
    if without:
        return InvalidRequestError(f"{without[0][:64]!r} has no value; delete the key to give it its default")
    times = Counter(change.key for change in changes)
    twice = next((key for key, number in times.items() if number > 1), None)
    return None if twice is None else InvalidRequestError(f"{twice[:64]!r} is named twice for one resource")


def _to_do(image: MetadataImage, one: _Resource, changes: Sequence[ConfigChange]) -> tuple[ConfigChange, ...]:
    """The changes without the deletions of what nobody knows and nobody has set, which succeed in Kafka: its tool for
    reassignments deletes a topic's throttles whether it has set them or not. And without these throttles: the rates of
    the brokers hold for every replica that moves and for no other, so no topic needs a list of them."""
    known, now = _KNOWN[one.kind], _now(image, one)
    return tuple(
        change
        for change in changes
        if change.key in known
        or change.key in now
        or (change.operation != _DELETE and not (one.kind == ConfigOwner.TOPIC and change.key in THROTTLED_REPLICAS))
    )


def _now(image: MetadataImage, one: _Resource) -> Mapping[str, str]:
    return image.configs.get(configs.ConfigResource(OURS[one.kind], one.name), {})


def _deletions(image: MetadataImage, one: _Resource, sets: Sequence[ConfigChange]) -> Iterable[ConfigChange]:
    return (ConfigChange(key, _DELETE) for key in sorted(_now(image, one).keys() - {change.key for change in sets}))


def _of_loggers(name: str, changes: Sequence[ConfigChange]) -> Generator[Ask, Any, AlterConfigsResource]:
    """The change of the broker's key that has the levels. A broker is asked for its own loggers alone."""
    if not name:
        raise InvalidRequestError("name one broker: all brokers together have no loggers")
    resource = configs.DescribeConfigsResource(BROKER_RESOURCE, name, (LOGGER_KEY,))
    answer = yield Ask("DescribeConfigs", configs.DescribeConfigsRequest((resource,)))
    (found,) = answer.resources
    if found.error is not None:
        raise found.error
    level = with_changes(found.configs[0].value, changes)
    return AlterConfigsResource(BROKER_RESOURCE, name, (ConfigChange(LOGGER_KEY, ConfigOperation.SET, level),))


def _altered(
    wanted: Mapping[_Resource, AlterConfigsResource], validate_only: bool, outcomes: dict[_Resource, ApiError | None]
) -> Generator[Ask, Any, None]:
    """The configuration of all brokers is a request of its own: our controller takes it with no other resource. So is
    that of a broker's loggers, which may be named beside the broker."""
    alone = [one for one in wanted if _stands_alone(one)]
    together = [one for one in wanted if not _stands_alone(one)]
    for names in (*([one] for one in alone), together):
        if names:
            yield from _asked(names, wanted, validate_only, outcomes)


def _stands_alone(one: _Resource) -> bool:
    return one.kind == ConfigOwner.BROKER_LOGGER or one == (ConfigOwner.BROKER, "")


def _asked(
    names: Sequence[_Resource],
    wanted: Mapping[_Resource, AlterConfigsResource],
    validate_only: bool,
    outcomes: dict[_Resource, ApiError | None],
) -> Generator[Ask, Any, None]:
    request = configs.AlterConfigsRequest(tuple(wanted[one] for one in names), validate_only)
    try:
        answer = yield Ask("AlterConfigs", request)
    except ApiError as error:
        outcomes |= dict.fromkeys(names, error)
        return
    outcomes |= {one: result.error for one, result in zip(names, answer.resources, strict=True)}


def _rows(asked: Asked, api: str, resources: Sequence[Any], outcomes: Outcomes) -> list[AlterConfigsResourceResponse]:
    rows = []
    for resource in each_once(resources, lambda one: (one.resource_type, one.resource_name)):
        error = outcomes[_Resource(resource.resource_type, resource.resource_name)]
        rows.append(
            AlterConfigsResourceResponse(
                error_code=code_of(error, api, asked.version),
                error_message=message_of(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return rows


SERVED: Final = (
    serves(AlterConfigsRequest, AlterConfigsResponse, (0, 2), over(alter_configs), failed=alter_configs_failed),
    serves(
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
        (0, 1),
        over(incremental_alter_configs),
        failed=incremental_alter_configs_failed,
    ),
)
