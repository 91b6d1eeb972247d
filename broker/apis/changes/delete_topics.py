"""DeleteTopics: forwarded to the active controller; answered once this node's own image holds the outcome.

So a client that has the answer finds the topics gone on this node.
"""

from __future__ import annotations

from dataclasses import replace

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import DeleteTopicsRequest, DeleteTopicsResponse, TopicResult
from penstock.errors import UnknownTopicIdError


class DeleteTopicsApi:
    """Handles requests to have topics deleted."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[DeleteTopicsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms, deleted_by_an_earlier_attempt)


def deleted_by_an_earlier_attempt(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
    """In a retry, an unknown topic id means success: the first attempt deleted the topic, and its answer was lost."""
    topics = tuple(
        TopicResult(topic.name, topic.topic_id) if isinstance(topic.error, UnknownTopicIdError) else topic
        for topic in response.topics
    )
    return replace(response, topics=topics)
