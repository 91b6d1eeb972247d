"""AlterPartitionReassignments: forwarded to the active controller; answered once this node's own image holds the
outcome (KIP-455). The copying goes on afterwards."""

from __future__ import annotations

from dataclasses import replace

from broker.apis.forwarding import ForwardedRequests
from broker.network.request_channel import Request
from metadata.requests import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from penstock.errors import NoReassignmentInProgressError


class AlterPartitionReassignmentsApi:
    """Handles requests to begin, replace or cancel reassignments."""

    def __init__(self, forwarded: ForwardedRequests) -> None:
        self._forwarded = forwarded

    def handle(self, request: Request, body: tuple[AlterPartitionReassignmentsRequest, int]) -> None:
        asked, timeout_ms = body
        self._forwarded.change(request, asked, timeout_ms, cancelled_by_an_earlier_attempt)


def cancelled_by_an_earlier_attempt(
    response: AlterPartitionReassignmentsResponse,
) -> AlterPartitionReassignmentsResponse:
    """In a retry, a reassignment that is not under way was cancelled: the first attempt did it, and its answer was
    lost."""
    partitions = tuple(
        replace(result, error=None) if isinstance(result.error, NoReassignmentInProgressError) else result
        for result in response.partitions
    )
    return replace(response, partitions=partitions)
