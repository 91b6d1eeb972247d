"""The result of a decision: records to commit, and the answer to send once they are."""

from __future__ import annotations

from typing import Generic, TypeVar

from metadata.records import Record
from penstock.lazy_dataclass import dataclass

Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[Response]):
    """The records of one decision and its response.

    A decision without records still read records that may not be committed yet. Its answer therefore waits for them,
    too: it is sent AFTER everything that was proposed before it.
    """

    records: tuple[Record, ...]  # replayed at once, proposed as ONE batch: all are committed, or none is
    response: Response  # sent AFTER the records are committed


@dataclass(frozen=True, slots=True)
class TickResponse:
    """The outcome of the passing of time."""

    fenced_broker_ids: tuple[int, ...] = ()
    preferred_elections: int = 0  # partitions that get their preferred leader back by schedule
    replica_moves: int = 0  # partitions that begin to move by schedule
