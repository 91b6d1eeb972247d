"""Brokers' answers about one topic, as Admin returns or raises them. Not here: which broker is asked, and how often."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.admin.admin_types import TopicDescription
from penstock.errors import LeaderNotAvailableError, UnknownServerError, UnknownTopicOrPartitionError
from penstock.messages.metadata import TopicInfo
from penstock.messages.topics import CreatePartitionsResponse, CreateTopicsResponse, DeleteTopicsResponse, TopicResult
from penstock.types import NO_LEADER

TopicChange = CreateTopicsResponse | CreatePartitionsResponse | DeleteTopicsResponse


def only_done(answer: TopicChange) -> None:
    """Raises the error of a request for one topic."""
    error = only_outcome(answer).error
    if error is not None:
        raise error


def only_outcome(answer: TopicChange) -> TopicResult:
    """The only outcome of a request for one topic."""
    if len(answer.topics) != 1:
        raise UnknownServerError(f"the answer has {len(answer.topics)} outcomes for one topic")
    return answer.topics[0]


def has_leaders(topic: TopicInfo, topic_id: str) -> bool:
    """True if every partition of the topic with this id ("": any) has a leader; an error that waiting does not mend is
    raised."""
    if topic.error is not None:
        if not isinstance(topic.error, (UnknownTopicOrPartitionError, LeaderNotAvailableError)):
            raise topic.error
        return False
    same = not topic_id or topic.topic_id == topic_id
    return same and bool(topic.partitions) and all(p.leader_id != NO_LEADER for p in topic.partitions)


def existing(name: str, topics: Iterable[TopicInfo]) -> TopicInfo:
    """The topic of that name. Raises the broker's error for it, or UnknownTopicOrPartitionError if it does not
    exist."""
    topic = next((topic for topic in topics if topic.name == name), None)
    if topic is None or isinstance(topic.error, UnknownTopicOrPartitionError):
        raise UnknownTopicOrPartitionError(f"topic {name!r} does not exist; `penstock topics list` shows the topics")
    if topic.error is not None:
        raise topic.error
    return topic


def description(topic: TopicInfo) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.partitions, dict(topic.config), topic.metadata_age_ms)
