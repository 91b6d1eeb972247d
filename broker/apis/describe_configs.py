"""DescribeConfigs: every effective key of a topic, of this node or of a subscription to the metrics of clients, and
where each value comes from.

The value of a topic's key is the topic's own (DYNAMIC_TOPIC_CONFIG), else the node's, which is the one for this broker
(DYNAMIC_BROKER_CONFIG), for all brokers (DYNAMIC_DEFAULT_BROKER_CONFIG), in this node's file (STATIC_BROKER_CONFIG), or
the default. Another node may have another file, and so give another answer. For all brokers, under the name "", the
answer is what the metadata has, and nothing else.

alter_configs.py changes values; `metadata/topic_config.py` and `broker/config/keys/config_table.py` say what a key
means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.administration import describe_configs_rule
from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.keys.config_table import KEYS
from broker.config.listener_keys import listener_keys
from broker.network.request_channel import Request
from broker.quorum.metadata_publisher import topic_defaults
from metadata.client_metrics import CLIENT_METRICS_KEYS, client_metrics_definition
from metadata.image import MetadataImage
from metadata.records import ALL_BROKERS, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, TOPIC_RESOURCE
from metadata.topic_config import EVERY_TOPIC_KEY, effective_value, topic_config_definition
from penstock.base_error import without_frames
from penstock.config_keys import REQUIRED, ConfigKey, Update, config_text
from penstock.errors import (
    ApiError,
    InvalidConfigError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.admin_apis import DESCRIBE_CONFIGS
from penstock.messages.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

RESOURCES_MAX: Final = DESCRIBE_CONFIGS.limits.elements["resources"]
_SHOWN_CHARACTERS: Final = 64


class DescribeConfigsApi:
    """Handles config descriptions."""

    def __init__(self, dynamic: DynamicBrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self._dynamic = dynamic
        self._image = image

    def handle(self, request: Request, body: DescribeConfigsRequest) -> None:
        count = len(body.resources)
        if not 1 <= count <= RESOURCES_MAX:
            raise InvalidRequestError(f"the request names {count} resources; from 1 to {RESOURCES_MAX} are allowed")
        image = self._image()
        results = tuple(self._one(image, asked, body.include_synonyms) for asked in body.resources)
        request.complete(DescribeConfigsResponse(results, image.offset), results)

    def _one(self, image: MetadataImage, asked: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
        try:
            configs = tuple(self._entries(image, asked))
            if synonyms:
                configs = tuple(self._with_synonyms(asked, entry) for entry in configs)
        except ApiError as error:
            return DescribeConfigsResult(asked.resource_type, asked.resource_name, without_frames(error))
        return DescribeConfigsResult(asked.resource_type, asked.resource_name, None, configs)

    def _entries(self, image: MetadataImage, asked: DescribeConfigsResource) -> Iterable[ConfigEntry]:
        name, keys = asked.resource_name, asked.keys
        if asked.resource_type == TOPIC_RESOURCE:
            if image.topic(name) is None:
                raise UnknownTopicOrPartitionError(
                    f"topic {name[:_SHOWN_CHARACTERS]!r} does not exist; `penstock topics list` shows the topics"
                )
            own = image.topic_config(name)
            return [self._topic_entry(topic_config_definition(key), own) for key in keys or EVERY_TOPIC_KEY]
        if asked.resource_type == BROKER_RESOURCE:
            return self._broker_entries(image, name, keys)
        if asked.resource_type == CLIENT_METRICS_RESOURCE:
            own = image.configs.get(ConfigResource(CLIENT_METRICS_RESOURCE, name), {})
            return [_client_metrics_entry(client_metrics_definition(key), own) for key in keys or CLIENT_METRICS_KEYS]
        raise InvalidRequestError(
            f"resource type {asked.resource_type[:_SHOWN_CHARACTERS]!r} has no configuration;"
            f" give {TOPIC_RESOURCE!r}, {BROKER_RESOURCE!r} or {CLIENT_METRICS_RESOURCE!r}"
        )

    def _with_synonyms(self, asked: DescribeConfigsResource, entry: ConfigEntry) -> ConfigEntry:
        own = ConfigSynonym(entry.name, entry.value, entry.source)
        is_of_all = asked.resource_type == BROKER_RESOURCE and asked.resource_name == ALL_BROKERS
        if is_of_all or asked.resource_type == CLIENT_METRICS_RESOURCE:
            return replace(entry, synonyms=(own,))
        is_topics = asked.resource_type == TOPIC_RESOURCE
        key = topic_config_definition(entry.name).broker_key if is_topics else entry.name
        found = [ConfigSynonym(key, config_text(value), source) for source, value in self._dynamic.values_of(key)]
        if not key:  # an idle one, of which no node has any
            default = config_text(topic_config_definition(entry.name).default)
            found = [ConfigSynonym(entry.name, default, ConfigSource.DEFAULT_CONFIG)]
        is_overridden = entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
        return replace(entry, synonyms=(own, *found) if is_overridden else tuple(found))

    def _topic_entry(self, definition: ConfigKey, own: Mapping[str, str]) -> ConfigEntry:
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG
        if definition.name not in own:
            key = definition.broker_key
            source = self._dynamic.source_of(key) if key else ConfigSource.DEFAULT_CONFIG
        value = effective_value(definition.name, own, topic_defaults(self._dynamic.current))
        return ConfigEntry(definition.name, config_text(value), source, definition.type_name, definition.doc)

    def _broker_entries(self, image: MetadataImage, name: str, keys: tuple[str, ...]) -> list[ConfigEntry]:
        node_id = str(self._dynamic.file.node_id)
        if name not in (node_id, ALL_BROKERS):
            raise InvalidRequestError(f"this is broker {node_id}; ask broker {name[:_SHOWN_CHARACTERS]!r} itself")
        if name == node_id:
            file = self._dynamic.file
            known = {**KEYS, **listener_keys(file.given, file.listeners, file.inter_broker_listener_name)}
            return [self._broker_entry(_broker_key(known, key)) for key in keys or known]
        texts = image.configs.get(ConfigResource(BROKER_RESOURCE, ALL_BROKERS), {})
        for key in keys:
            if key not in texts:
                _broker_key(KEYS, key)
        return [_entry_of_all(key, texts[key]) for key in keys or sorted(texts) if key in texts]

    def _broker_entry(self, key: ConfigKey) -> ConfigEntry:
        source, given = self._dynamic.source_of(key.name), self._dynamic.file.given
        if source == ConfigSource.STATIC_BROKER_CONFIG:
            value = given[key.name]
        elif source == ConfigSource.DEFAULT_CONFIG:
            value = "" if key.default is REQUIRED else key.default
        else:
            value = getattr(self._dynamic.current, key.attribute)
        is_read_only = key.update is Update.RESTART
        return ConfigEntry(
            name=key.name,
            value=config_text(value),
            source=source,
            type=key.type_name,
            documentation=key.doc,
            is_read_only=is_read_only,
        )


def _client_metrics_entry(key: ConfigKey, own: Mapping[str, str]) -> ConfigEntry:
    """A subscription that there is not has the defaults, as in Kafka."""
    source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG if key.name in own else ConfigSource.DEFAULT_CONFIG
    value = own.get(key.name, config_text(key.default))
    return ConfigEntry(key.name, value, source, key.type_name, key.doc)


def _entry_of_all(key: str, text: str) -> ConfigEntry:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    if key not in KEYS:
        return ConfigEntry(key, text, source, "string", "Set by a newer release; it does nothing on this node.")
    return ConfigEntry(key, text, source, KEYS[key].type_name, KEYS[key].doc)


def _broker_key(known: Mapping[str, ConfigKey], name: str) -> ConfigKey:
    if name not in known:
        raise InvalidConfigError(f"{name[:_SHOWN_CHARACTERS]!r} is not a key of a broker")
    return known[name]


SERVED: Final = (
    Served(
        api=DESCRIBE_CONFIGS,
        rule=describe_configs_rule,
        make=lambda parts: DescribeConfigsApi(parts.dynamic, parts.image).handle,
    ),
)
