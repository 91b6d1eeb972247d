"""CreateTopics 2 to 7: one answer for each topic of the request, in its order.

A number of partitions or replicas of -1 is the cluster's default, in every version: Kafka's clients send it from
version 4 on. From version 5 on the answer has the configuration of the new topic, which is asked for once it is there;
with `validate_only` there is no such topic, and the answer has what the request sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from broker.kafka.apis.admin.config_codes import SOURCES
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from metadata.records import TOPIC_RESOURCE
from penstock.errors import ApiError, InvalidConfigError, InvalidRequestError
from penstock.messages import configs, topics
from penstock.messages.configs import ConfigEntry, ConfigSource

FIRST_WITH_CONFIGS = 5


def create_topics(asked: Asked, body: CreateTopicsRequest) -> Plan:
    refused = _refused(body)
    wanted = tuple(_new_topic(topic) for topic in body.topics if topic.name not in refused)
    made: Mapping[str, topics.TopicResult] = {}
    if wanted:
        request = topics.CreateTopicsRequest(wanted, body.validate_only, max(body.timeout_ms, 0))
        answer = yield Ask("CreateTopics", request)
        made = {topic.name: topic for topic in answer.topics}
    described: Mapping[str, tuple[ConfigEntry, ...]] = {}
    new = [name for name, topic in made.items() if topic.error is None]
    if new and asked.version >= FIRST_WITH_CONFIGS and not body.validate_only:
        described = yield from _configs_of(new)
    return CreateTopicsResponse(
        topics=[
            _failed(asked, topic.name, refused[topic.name])
            if topic.name in refused
            else _result(asked, topic, made[topic.name], described.get(topic.name))
            for topic in body.topics
        ]
    )


def create_topics_failed(asked: Asked, body: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_failed(asked, topic.name, error) for topic in body.topics])


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


def _new_topic(topic: CreatableTopic) -> topics.NewTopic:
    return topics.NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value or "" for config in topic.configs},
        tuple(topics.ReplicaAssignment(one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
    )


def _configs_of(names: list[str]) -> Any:
    """Their entries by name. One that is gone already has none."""
    asked = tuple(configs.DescribeConfigsResource(TOPIC_RESOURCE, name) for name in names)
    answer = yield Ask("DescribeConfigs", configs.DescribeConfigsRequest(asked))
    return {found.resource_name: found.configs for found in answer.resources}


def _result(
    asked: Asked, topic: CreatableTopic, made: topics.TopicResult, entries: tuple[ConfigEntry, ...] | None
) -> CreatableTopicResult:
    if made.error is not None:
        return _failed(asked, topic.name, made.error)
    if entries is None:
        told = [_set(config.name, config.value) for config in topic.configs]
    else:
        told = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=SOURCES[entry.source],
            )
            for entry in entries
        ]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=made.topic_id,
        num_partitions=made.partitions,
        replication_factor=made.replication_factor,
        configs=told,
    )


def _set(name: str, value: str | None) -> CreatableTopicConfigs:
    source = SOURCES[ConfigSource.DYNAMIC_TOPIC_CONFIG]
    return CreatableTopicConfigs(name=name, value=value, config_source=source)


def _failed(asked: Asked, name: str, error: ApiError) -> CreatableTopicResult:
    code = code_of(error, "CreateTopics", asked.version)
    return CreatableTopicResult(name=name, error_code=code, error_message=message_of(error))
