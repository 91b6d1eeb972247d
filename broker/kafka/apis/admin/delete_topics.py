"""DeleteTopics 1 to 6: by name, and from version 6 on by name or id. One answer for each, in the order of the request.

Our request names topics by id alone, so that a repetition deletes no later topic of the same name. So a name is looked
up in the metadata of this node. Another broker may have made the topic a moment ago: for a name that is not known here,
the controller is asked for nothing first, whose answer comes when this node has all that the controller has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from penstock.errors import ApiError, InvalidRequestError, UnknownTopicIdError, UnknownTopicOrPartitionError
from penstock.messages import topics
from penstock.messages.security.acls import Operation


class _Named(NamedTuple):
    """A topic as the request names it."""

    name: str | None
    topic_id: str


def delete_topics(parts: PlanParts, asked: Asked, body: DeleteTopicsRequest) -> Plan:
    times = Counter(_named(asked, body))
    named = tuple(times)
    resolved = [_resolved(parts, asked, one, times[one]) for one in named]
    if any(isinstance(one, UnknownTopicOrPartitionError) for one in resolved):
        yield Ask("DeleteTopics", topics.DeleteTopicsRequest((), max(body.timeout_ms, 0)))
        resolved = [_resolved(parts, asked, one, times[one]) for one in named]
    ids = Counter(one for one in resolved if isinstance(one, str))
    wanted = tuple(topic_id for topic_id, number in ids.items() if number == 1)
    results: dict[str, topics.TopicResult] = {}
    if wanted:
        answer = yield Ask("DeleteTopics", topics.DeleteTopicsRequest(wanted, max(body.timeout_ms, 0)))
        results = {result.topic_id: result for result in answer.topics}
    rows = []
    for one, found in zip(named, resolved, strict=True):
        if isinstance(found, ApiError):
            rows.append(_row(asked, one.name, one.topic_id, found))
        elif ids[found] > 1:
            twice = InvalidRequestError("the topic is named by its name and by its id; name it once")
            rows.append(_row(asked, one.name, one.topic_id, twice))
        else:
            result = results[found]
            rows.append(_row(asked, one.name or result.name or None, found, _for_caller(one, result.error)))
    return DeleteTopicsResponse(responses=rows)


def delete_topics_failed(asked: Asked, body: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_row(asked, *one, error) for one in dict.fromkeys(_named(asked, body))])


def _named(asked: Asked, body: DeleteTopicsRequest) -> Sequence[_Named]:
    if asked.version < 6:
        return [_Named(name, "") for name in body.topic_names]
    return [_Named(topic.name, topic.topic_id) for topic in body.topics]


def _resolved(parts: PlanParts, asked: Asked, one: _Named, times: int) -> str | ApiError:
    """The id of the topic, or why it cannot be asked for."""
    if times > 1:
        return InvalidRequestError(f"the topic is named {times} times in the request")
    if (one.name is None) == (not one.topic_id):
        return InvalidRequestError("a topic is named by its name or by its id, and not by both")
    if one.name is None:
        return one.topic_id
    try:
        parts.rights.check_topic(asked.caller, "DeleteTopics", Operation.DELETE, one.name)
    except ApiError as error:
        return error
    topic_id = parts.topic_id(one.name)
    return topic_id or UnknownTopicOrPartitionError(f"topic {one.name[:64]!r} does not exist")


def _for_caller(one: _Named, error: ApiError | None) -> ApiError | None:
    """The error for the caller. A caller that gave a name gets one about the name."""
    if one.name is not None and isinstance(error, UnknownTopicIdError):
        return UnknownTopicOrPartitionError(f"topic {one.name[:64]!r} does not exist; was it deleted just now?")
    return error


def _row(asked: Asked, name: str | None, topic_id: str, error: ApiError | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name if name is not None or asked.version >= 6 else "",
        topic_id=topic_id,
        error_code=code_of(error, "DeleteTopics", asked.version),
        error_message=message_of(error),
    )


SERVED: Final = (
    serves(DeleteTopicsRequest, DeleteTopicsResponse, (1, 6), over(delete_topics), failed=delete_topics_failed),
)
