"""How the answer to a repeated request is read, where the answer to its first attempt was lost.

A client that repeats a change, and a broker that forwards it again, read alike: what the first attempt may have done is
no error of the second. Each function gives the answer as it is for both attempts together.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import (
    BrokerIdNotRegisteredError,
    ElectionNotNeededError,
    InvalidPartitionsError,
    NoReassignmentInProgressError,
    TopicExistsError,
    UnknownTopicIdError,
)
from penstock.messages.elections import AlterPartitionReassignmentsResponse, ElectLeadersResponse
from penstock.messages.nodes.brokers import UnregisterBrokerResponse
from penstock.messages.security.users import AlterUserScramCredentialsResponse
from penstock.messages.topics import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    TopicResult,
)
from penstock.messages.voters import VoterChangeResponse


def created_before(response: CreateTopicsResponse) -> CreateTopicsResponse:
    """A topic that exists may be this request's own; the error says so."""
    topics = tuple(
        replace(topic, error=topic.error.of_repetition()) if isinstance(topic.error, TopicExistsError) else topic
        for topic in response.topics
    )
    return replace(response, topics=topics)


def added_before(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
    """A topic that is just as it was asked for means success. Only then has the refusal a number of partitions."""
    topics = tuple(
        replace(topic, error=None) if isinstance(topic.error, InvalidPartitionsError) and topic.partitions else topic
        for topic in response.topics
    )
    return replace(response, topics=topics)


def deleted_before(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """An unknown topic id means success."""
    topics = tuple(
        TopicResult(topic.name, topic.topic_id) if isinstance(topic.error, UnknownTopicIdError) else topic
        for topic in response.topics
    )
    return replace(response, topics=topics)


def elected_before(response: ElectLeadersResponse) -> ElectLeadersResponse:
    """An election that is not needed means success."""
    partitions = tuple(
        replace(result, error=None) if isinstance(result.error, ElectionNotNeededError) else result
        for result in response.partitions
    )
    return replace(response, partitions=partitions)


def cancelled_before(response: AlterPartitionReassignmentsResponse) -> AlterPartitionReassignmentsResponse:
    """A reassignment that is not under way was cancelled."""
    partitions = tuple(
        replace(result, error=None) if isinstance(result.error, NoReassignmentInProgressError) else result
        for result in response.partitions
    )
    return replace(response, partitions=partitions)


def unregistered_before(response: UnregisterBrokerResponse) -> UnregisterBrokerResponse:
    """A broker that is not registered was forgotten."""
    return replace(response, error=None) if isinstance(response.error, BrokerIdNotRegisteredError) else response


def removed_before(response: AlterUserScramCredentialsResponse) -> AlterUserScramCredentialsResponse:
    """A user that has none of the credentials to delete had them deleted."""
    users = tuple(replace(user, error=None) if user.is_gone else user for user in response.users)
    return replace(response, users=users)


def changed_voters_before(response: VoterChangeResponse) -> VoterChangeResponse:
    """Voters that are as they were asked to be were changed. Another disk of the same id is an error all the same."""
    return replace(response, error=None) if response.is_so_already else response
