"""Begins, replaces and cancels reassignments (KIP-455): asked of any broker, which forwards them to the controller.

Over when every broker in service has heard of the outcome; the copying goes on. Not here: what is allowed; the
controller knows that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.configs import wait_heard
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.error_meaning import outcome_unknown
from penstock.client.wire.connection import Connection
from penstock.client.wire.messages import ReassignmentAnswer
from penstock.errors import ApiError, NoReassignmentInProgressError
from penstock.types import TopicPartition


async def alter_reassignments(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, Sequence[int] | None], deadline_ms: int
) -> dict[TopicPartition, ApiError | None]:
    """What became of each partition: None, or why nothing did."""
    maybe_done = False  # an attempt failed, and its outcome is unknown

    async def alter(connection: Connection, timeout_ms: int) -> ReassignmentAnswer:
        nonlocal maybe_done
        try:
            return await connection.alter_partition_reassignments(wanted, timeout_ms)
        except ApiError as error:
            maybe_done = maybe_done or outcome_unknown(error)
            raise

    answer = await cluster.ask_any(alter, deadline_ms)
    if any(error is None for error in answer.results.values()):
        await wait_heard(cluster, answer.metadata_offset, deadline_ms)
    return {tp: _after_attempts(error, maybe_done) for tp, error in answer.results.items()}


def _after_attempts(error: ApiError | None, maybe_done: bool) -> ApiError | None:
    """What is not under way after an attempt without an answer was cancelled by that attempt."""
    return None if maybe_done and isinstance(error, NoReassignmentInProgressError) else error
