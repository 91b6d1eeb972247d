"""CreateTopics 2 to 7: one answer for each name in the request, in its order.

A number of partitions or replicas of -1 is the cluster's default, in every version: Kafka's clients send it from
version 4 on. From version 5 on the answer has the configuration of each topic: what the request sets, and this broker's
defaults. The configurations of more than a thousand topics are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any, Final

from broker.kafka.api_row import REPLICA_ELEMENTS_MAX, over, serves
from broker.kafka.apis.admin.config_codes import SOURCES
from broker.kafka.apis.asked_topics import check_number, each_once
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from metadata.idle_topic_keys import IDLE_TOPIC_KEYS
from metadata.records import BROKER_RESOURCE
from metadata.topic_config import EVERY_TOPIC_KEY, TOPIC_CONFIGS, parse_topic_config
from penstock.config_keys import config_text
from penstock.errors import ApiError, InvalidConfigError, InvalidRequestError, TopicAuthorizationFailedError
from penstock.messages import configs, topics
from penstock.messages.client_apis import NAMES_MAX
from penstock.messages.configs import ConfigEntry, ConfigSource
from penstock.messages.security.acls import Operation, ResourceType
from penstock.messages.topics import USE_DEFAULT

FIRST_WITH_CONFIGS: Final = 5
Defaults = Mapping[str, ConfigEntry]


def create_topics(parts: PlanParts, asked: Asked, body: CreateTopicsRequest) -> Plan:
    check_number(body.topics)
    refused = {**_with_two_numbers(parts, asked, body), **_refused(body)}
    wanted = tuple(_new_topic(topic) for topic in body.topics if topic.name not in refused)
    made: Mapping[str, topics.TopicResult] = {}
    if wanted:
        request = topics.CreateTopicsRequest(wanted, body.validate_only, max(body.timeout_ms, 0))
        answer = yield Ask("CreateTopics", request)
        made = {topic.name: topic for topic in answer.topics}
    defaults: Defaults = {}
    is_new = any(topic.error is None for topic in made.values())
    may_see_configs = parts.rights.may(asked.caller, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    if is_new and may_see_configs and asked.version >= FIRST_WITH_CONFIGS and len(made) <= NAMES_MAX:
        defaults = yield from _defaults(parts.node_id)
    return CreateTopicsResponse(
        topics=[
            _failed(asked, topic.name, refused[topic.name])
            if topic.name in refused
            else _result(parts, asked, topic, made[topic.name], defaults)
            for topic in _topics(body)
        ]
    )


def create_topics_failed(asked: Asked, body: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_failed(asked, topic.name, error) for topic in _topics(body)])


def _topics(body: CreateTopicsRequest) -> list[CreatableTopic]:
    """Each topic that the answer has."""
    return each_once(body.topics, lambda topic: topic.name)


def _refused(body: CreateTopicsRequest) -> dict[str, ApiError]:
    """The topics that our message cannot say, by name: with two configurations, or one without a value."""
    refused: dict[str, ApiError] = {}
    for name, times in Counter(topic.name for topic in body.topics).items():
        if times > 1:
            refused[name] = InvalidRequestError(f"topic {name[:64]!r} is named {times} times in the request")
    for topic in body.topics:
        keys = Counter(config.name for config in topic.configs)
        twice = next((key for key, times in keys.items() if times > 1), None)
        without = next((config.name for config in topic.configs if config.value is None), None)
        if twice is not None:
            refused.setdefault(topic.name, InvalidRequestError(f"{twice[:64]!r} is named twice for one topic"))
        elif without is not None:
            refused.setdefault(
                topic.name, InvalidConfigError(f"{without[:64]!r} has no value; leave it out, or give one")
            )
    return refused


def _with_two_numbers(parts: PlanParts, asked: Asked, body: CreateTopicsRequest) -> dict[str, ApiError]:
    """The topics that name numbers beside their assignment, which has its own: as in Kafka, one of the two is not
    meant. A topic that the caller may not make, or that is there, gets the error for that."""
    refused: dict[str, ApiError] = {}
    for topic in body.topics:
        numbers = (("num_partitions", topic.num_partitions), ("replication_factor", topic.replication_factor))
        beside = next((f"{name}={number}" for name, number in numbers if number != USE_DEFAULT), None)
        if not topic.assignments or beside is None or parts.image().topic(topic.name) is not None:
            continue
        if parts.rights.may(asked.caller, Operation.CREATE, ResourceType.CLUSTER) or parts.rights.may(
            asked.caller, Operation.CREATE, ResourceType.TOPIC, topic.name
        ):
            refused[topic.name] = InvalidRequestError(
                f"a manual assignment has its own numbers: {beside} must be -1 beside it"
            )
    return refused


def _new_topic(topic: CreatableTopic) -> topics.NewTopic:
    return topics.NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value or "" for config in topic.configs},
        tuple(topics.ReplicaAssignment(one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
    )


def _defaults(node_id: int) -> Generator[Ask, Any, Defaults]:
    """The broker's entries by the keys of topics. Without an answer the topics are made all the same."""
    keys = tuple(key.broker_key for key in TOPIC_CONFIGS.values())
    broker = configs.DescribeConfigsResource(BROKER_RESOURCE, str(node_id), keys)
    try:
        answer = yield Ask("DescribeConfigs", configs.DescribeConfigsRequest((broker,)))
    except ApiError:
        return {}
    found = {entry.name: entry for entry in answer.resources[0].configs}
    return {name: found[key.broker_key] for name, key in TOPIC_CONFIGS.items() if key.broker_key in found}


def _result(
    parts: PlanParts, asked: Asked, topic: CreatableTopic, made: topics.TopicResult, defaults: Defaults
) -> CreatableTopicResult:
    if made.error is not None:
        return _failed(asked, topic.name, made.error)
    if not parts.rights.may(asked.caller, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        return CreatableTopicResult(
            name=topic.name, topic_id=made.topic_id, topic_config_error_code=TopicAuthorizationFailedError.code
        )
    own = {config.name: config.value or "" for config in topic.configs}
    inherited = [_entry(name, entry.value, entry.source) for name, entry in defaults.items() if name not in own]
    inherited += [
        _entry(name, config_text(idle.key.default), ConfigSource.DEFAULT_CONFIG)
        for name, idle in IDLE_TOPIC_KEYS.items()
        if defaults and name not in own
    ]
    overridden = [
        _entry(name, config_text(parse_topic_config(name, value)), ConfigSource.DYNAMIC_TOPIC_CONFIG)
        for name, value in own.items()
        if name in EVERY_TOPIC_KEY
    ]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=made.topic_id,
        num_partitions=made.partitions,
        replication_factor=made.replication_factor,
        configs=[*overridden, *inherited],
    )


def _entry(name: str, value: str, source: ConfigSource) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(name=name, value=value, config_source=SOURCES[source])


def _failed(asked: Asked, name: str, error: ApiError) -> CreatableTopicResult:
    code = code_of(error, "CreateTopics", asked.version)
    return CreatableTopicResult(name=name, error_code=code, error_message=message_of(error))


SERVED: Final = (
    serves(
        CreateTopicsRequest,
        CreateTopicsResponse,
        (2, 7),
        over(create_topics),
        failed=create_topics_failed,
        elements_max=REPLICA_ELEMENTS_MAX,
    ),
)
