"""DescribeConfigs: every effective key of a topic, or this node's own configuration, and where each value comes from.

The value of a topic's key is the topic's own (DYNAMIC_TOPIC_CONFIG), else the one in this node's file
(STATIC_BROKER_CONFIG), else the default. Another node may have another file, and so give another answer.

alter_configs.py changes values; `metadata/topic_config.py` says what a key means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.config.config_key import INT32_MAX, REQUIRED, ConfigKey, Kind
from broker.config.config_table import KEYS
from broker.config.listener_keys import listener_keys
from broker.config.node_config import NodeConfig
from broker.config.request_limits import API_LIMITS
from broker.network.request_channel import Request
from broker.requests import (
    ConfigEntryView,
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from metadata.config_types import ConfigDefinition, ConfigValue, config_text
from metadata.image import MetadataImage
from metadata.records import TOPIC_RESOURCE
from metadata.topic_config import TOPIC_CONFIGS, effective_value, topic_config_definition
from penstock.errors import (
    ApiError,
    InvalidConfigError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from penstock.tracebacks import without_frames

BROKER_RESOURCE: Final = "broker"
RESOURCES_MAX: Final = API_LIMITS["DescribeConfigs"].elements["resources"]
_SHOWN_CHARACTERS: Final = 64
_TYPES: Final = {Kind.DOUBLE: "double", Kind.BOOL: "boolean", Kind.STRING: "string", Kind.LIST: "list"}


class DescribeConfigsApi:
    """Handles config descriptions. `topic_defaults`: the topic settings of the node's file, typed."""

    def __init__(
        self, config: NodeConfig, topic_defaults: Mapping[str, ConfigValue], image: Callable[[], MetadataImage]
    ) -> None:
        self._config = config
        self._topic_defaults = topic_defaults
        self._image = image

    def handle(self, request: Request, body: DescribeConfigsRequest) -> None:
        count = len(body.resources)
        if not 1 <= count <= RESOURCES_MAX:
            raise InvalidRequestError(f"the request names {count} resources; from 1 to {RESOURCES_MAX} are allowed")
        image = self._image()
        results = tuple(self._one(image, asked) for asked in body.resources)
        request.complete(DescribeConfigsResponse(results, image.offset), results)

    def _one(self, image: MetadataImage, asked: DescribeConfigsResource) -> DescribeConfigsResult:
        try:
            configs = tuple(self._entries(image, asked))
        except ApiError as error:
            return DescribeConfigsResult(asked.resource_type, asked.resource_name, without_frames(error))
        return DescribeConfigsResult(asked.resource_type, asked.resource_name, None, configs)

    def _entries(self, image: MetadataImage, asked: DescribeConfigsResource) -> Iterable[ConfigEntryView]:
        name, keys = asked.resource_name, asked.keys
        if asked.resource_type == TOPIC_RESOURCE:
            if image.topic(name) is None:
                raise UnknownTopicOrPartitionError(
                    f"topic {name[:_SHOWN_CHARACTERS]!r} does not exist; `penstock topics list` shows the topics"
                )
            own = image.topic_config(name)
            return [self._topic_entry(topic_config_definition(key), own) for key in keys or TOPIC_CONFIGS]
        if asked.resource_type == BROKER_RESOURCE:
            if name != str(self._config.node_id):
                raise InvalidRequestError(
                    f"this is broker {self._config.node_id}; ask broker {name[:_SHOWN_CHARACTERS]!r} itself"
                )
            known = {**KEYS, **listener_keys(self._config.given, self._config.listeners)}
            return [self._broker_entry(_broker_key(known, key)) for key in keys or known]
        raise InvalidRequestError(
            f"resource type {asked.resource_type[:_SHOWN_CHARACTERS]!r} has no configuration;"
            f" give {TOPIC_RESOURCE!r} or {BROKER_RESOURCE!r}"
        )

    def _topic_entry(self, definition: ConfigDefinition, own: Mapping[str, str]) -> ConfigEntryView:
        source = ConfigSource.DEFAULT_CONFIG
        if definition.name in own:
            source = ConfigSource.DYNAMIC_TOPIC_CONFIG
        elif definition.broker_key in self._config.given:
            source = ConfigSource.STATIC_BROKER_CONFIG
        value = effective_value(definition.name, own, self._topic_defaults)
        return ConfigEntryView(definition.name, config_text(value), source, definition.kind.value, definition.doc)

    def _broker_entry(self, key: ConfigKey) -> ConfigEntryView:
        given = self._config.given
        is_given = key.name in given
        source = ConfigSource.STATIC_BROKER_CONFIG if is_given else ConfigSource.DEFAULT_CONFIG
        value = given[key.name] if is_given else "" if key.default is REQUIRED else key.default
        kind = _TYPES.get(key.kind) or ("int" if key.high <= INT32_MAX else "long")
        return ConfigEntryView(key.name, _written(value), source, kind, key.doc)


def _broker_key(known: Mapping[str, ConfigKey], name: str) -> ConfigKey:
    if name not in known:
        raise InvalidConfigError(f"{name[:_SHOWN_CHARACTERS]!r} is not a key of a broker")
    return known[name]


def _written(value: object) -> str:
    """A value of the configuration file in Kafka's spelling."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
