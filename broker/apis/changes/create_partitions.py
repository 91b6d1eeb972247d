"""CreatePartitions (KIP-195): forwarded to the active controller; answered once this node's own image has the outcome.

So a client that has the answer finds the new partitions on this node.
"""

from __future__ import annotations

from dataclasses import replace

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import CreatePartitionsRequest, CreatePartitionsResponse
from penstock.errors import InvalidPartitionsError


class CreatePartitionsApi:
    """Handles requests to have partitions added to topics."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[CreatePartitionsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms, added_by_an_earlier_attempt)


def added_by_an_earlier_attempt(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
    """In a retry, a topic that is just as it was asked for means success: the first attempt added the partitions, and
    its answer was lost. Only then has the refusal a number of partitions."""
    topics = tuple(
        replace(topic, error=None) if isinstance(topic.error, InvalidPartitionsError) and topic.partitions else topic
        for topic in response.topics
    )
    return replace(response, topics=topics)
