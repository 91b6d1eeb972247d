"""The errors of a log, as the clients of a coordinator get them; they know only those of coordinators.

    the lead is over                          NOT_COORDINATOR: the client looks for the new one
    too few replicas, no commit in time       COORDINATOR_NOT_AVAILABLE: the client asks again
    the records do not fit the topic          UNKNOWN_SERVER_ERROR: nothing that the client does will help

As in Kafka. But where a request's records may be in the log, the answer is COORDINATOR_NOT_AVAILABLE and not
NOT_COORDINATOR: the latter says that nothing was written.
"""

from __future__ import annotations

from typing import Any

from broker.coordination.record_log import TxnProducer
from penstock.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    UnknownServerError,
)
from penstock.record.markers import Marker


def not_appended(error: Exception) -> ApiError:
    """The answer to requests of which nothing was written."""
    if isinstance(error, NotLeaderOrFollowerError | KafkaStorageError):
        return NotCoordinatorError(str(error))
    if isinstance(error, MessageTooLargeError | RecordListTooLargeError) or not isinstance(error, ApiError):
        return UnknownServerError(f"the coordinator's records cannot be written: {error}")
    return CoordinatorNotAvailableError(str(error))


def not_committed(error: Exception) -> ApiError:
    """The answer to requests whose records may be in the log, or that have seen such records."""
    return CoordinatorNotAvailableError(f"the coordinator does not know whether its records are committed: {error}")


class RefusedWrites:
    """Stands for the state in a turn that may write nothing (`Replays`)."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    def replay(self, key: Any, value: Any | None, producer: TxnProducer | None = None) -> None:
        raise self._error.with_traceback(None)

    def replay_marker(self, marker: Marker) -> None:
        raise self._error.with_traceback(None)

    def __repr__(self) -> str:
        return f"RefusedWrites({self._error})"
