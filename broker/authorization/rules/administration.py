"""The rules of the APIs that look at the cluster and change it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.authorization.judge import Judge
from broker.authorization.rules.ruling import Ruling, in_parts, topic, without_refused
from metadata.records import TOPIC_RESOURCE
from penstock.errors import ApiError, UnknownTopicIdError
from penstock.messages import configs, topics
from penstock.messages.cluster import ClusterInfo
from penstock.messages.security.acls import CLUSTER_NAME, Need, Operation, ResourceType

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def create_topics_rule(judge: Judge, body: topics.CreateTopicsRequest) -> Ruling:
    """Judges by the right to create in the cluster, or to create topics of this name."""
    if judge.may(Operation.CREATE, _CLUSTER):
        return Ruling(body)
    errors = [judge.refusal(Operation.CREATE, _TOPIC, one.name) for one in body.topics]
    return without_refused(body, "topics", errors, topics.CreateTopicsResponse(), "topics", _refused_topic)


def _refused_topic(one: Any, error: ApiError) -> topics.TopicResult:
    return topics.TopicResult(one.name, error=error)


def delete_topics_rule(judge: Judge, body: topics.DeleteTopicsRequest) -> Ruling:
    """Topics are named by their ids, which are no secret. The name of one that is refused is told only to a
    caller that may describe it. A topic that this broker does not know yet cannot be judged, and the controller does
    not judge: so it is not asked."""

    def judged(topic_id: str) -> ApiError | None:
        name = judge.image.topic_name(topic_id)
        if name is not None:
            return judge.refusal(Operation.DELETE, _TOPIC, name)
        return None if judge.rights.is_super else UnknownTopicIdError(f"this broker knows no topic with id {topic_id}")

    errors = [judged(topic_id) for topic_id in body.topic_ids]

    def refused(topic_id: str, error: ApiError) -> topics.TopicResult:
        name = judge.image.topic_name(topic_id) or ""
        if not name or judge.may(Operation.DESCRIBE, _TOPIC, name):
            return topics.TopicResult(name, topic_id, error)
        nameless = type(error)(f"{judge.rights.principal} may not delete the topic with the id {topic_id}")
        return topics.TopicResult("", topic_id, nameless)

    answer = topics.DeleteTopicsResponse()
    return without_refused(body, "topic_ids", errors, answer, "topics", refused)


def of_resource(operation: Operation) -> Any:
    def need(one: Any) -> Need:
        if one.resource_type == TOPIC_RESOURCE:
            return topic(operation, one.resource_name)
        return Need(operation, _CLUSTER, CLUSTER_NAME)

    return need


def describe_configs_rule(judge: Judge, body: configs.DescribeConfigsRequest) -> Ruling:
    """A refusal is of the metadata by which it was judged: its offset says so, as that of any other answer."""
    return in_parts(
        "resources",
        configs.DescribeConfigsResponse((), judge.image.offset),
        of_resource(Operation.DESCRIBE_CONFIGS),
        lambda one, error: configs.DescribeConfigsResult(one.resource_type, one.resource_name, error),
    )(judge, body)


def describe_cluster_rule(judge: Judge, body: Any) -> Ruling:
    """Everybody learns the brokers, as in Kafka. What the answering broker tells of itself, which Kafka's does not, is
    for those who may describe the cluster: its log dirs, listeners for nodes, certificates, settings, partitions and
    groups that are ill. Others learn of the topics and groups that they may describe."""
    if judge.may(Operation.DESCRIBE, _CLUSTER):
        return Ruling(body)

    def amend(answer: ClusterInfo) -> ClusterInfo:
        seen = tuple(one for one in answer.troubles if judge.may(Operation.DESCRIBE, _TOPIC, one.topic))
        groups = tuple(
            one for one in answer.standing.stuck_groups if judge.may(Operation.DESCRIBE, _GROUP, one.group_id)
        )
        visible_status = replace(
            answer.standing,
            failed_log_dirs=(),
            silent_log_dirs=(),
            node_listeners=(),
            version="",
            settings_digest="",
            certificates=(),
            log_dir_rooms=(),
            stuck_groups=groups,
            is_partial=True,
        )
        return replace(answer, troubles=seen, standing=visible_status)

    return Ruling(body, amend)
