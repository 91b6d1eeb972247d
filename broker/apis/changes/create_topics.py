"""CreateTopics: forwarded to the active controller; answered once this node's own image holds the outcome.

So a client that has the answer finds the new topics on this node.
"""

from __future__ import annotations

from dataclasses import replace

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import CreateTopicsRequest, CreateTopicsResponse
from penstock.errors import TopicExistsError


class CreateTopicsApi:
    """Handles requests to have topics created."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[CreateTopicsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms, maybe_created_by_an_earlier_attempt)


def maybe_created_by_an_earlier_attempt(response: CreateTopicsResponse) -> CreateTopicsResponse:
    """In a retry, a topic that exists may be this request's own: the answer to the first attempt was lost."""
    topics = tuple(
        replace(topic, error=topic.error.of_repetition()) if isinstance(topic.error, TopicExistsError) else topic
        for topic in response.topics
    )
    return replace(response, topics=topics)
