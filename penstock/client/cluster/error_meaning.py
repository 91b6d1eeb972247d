"""Tells what an error means for the next attempt: may another node lead by now, and may a write have happened?

And for the user, when there is no next attempt: which of the errors says why (`ServerErrors`). Not here: how long to
wait before an attempt (penstock/backoff.py).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from penstock.errors import (
    ApiError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    PenstockError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for,
)

LEADERSHIP_ERRORS = (
    NotLeaderOrFollowerError,
    FencedLeaderEpochError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
)
"""Errors after which another node may lead than the client knows. A leader whose disk failed does not lead any more; a
leader that stopped leading after an append can only say that the append is not acked."""

UNANSWERED = (NetworkError, RequestTimedOutError)
"""Errors of an attempt that nobody answered. A broker that has waited for another one in vain answers with such an
error, too; `is_told` marks that one as an answer."""

E = TypeVar("E", bound=PenstockError)
K = TypeVar("K", bound=Hashable)


def needs_metadata(error: ApiError) -> bool:
    """True if the next attempt should first learn who leads."""
    return isinstance(error, LEADERSHIP_ERRORS)


def outcome_unknown(error: ApiError) -> bool:
    """True if the write may be in the log all the same; penstock/errors.py says which errors rule that out."""
    return not error.nothing_written


class ServerErrors(Generic[K]):
    """The last error that servers told about each thing that is asked for again until a deadline.

    The deadline often cuts the last attempt off. Its error is that no answer came in time, which says nothing of why
    the attempts before it failed: a full disk, a coordinator that loads.
    """

    def __init__(self) -> None:
        self._errors: dict[K, ApiError] = {}  # the newest last

    def note(self, key: K, outcome: object) -> None:
        """An attempt ended with this: an error, or anything else. Before `for_user`."""
        before = self._errors.get(key)
        reported = server_error_after(before, outcome)
        if reported is not before:
            self._errors.pop(key, None)
            if reported is not None:
                self._errors[key] = reported

    def for_user(self, key: K, last: E) -> E | ApiError:
        """The error of the last attempt; where nobody answered it, the one that was told before, with both texts."""
        return server_error_or_last(self._errors.get(key), last)

    def of_any(self, last: E) -> E | ApiError:
        """The error as `for_user` gives it, whatever key it was told for."""
        return server_error_or_last(next(reversed(self._errors.values()), None), last)

    def __repr__(self) -> str:
        return f"ServerErrors({len(self._errors)})"


def server_error_after(reported: ApiError | None, outcome: object) -> ApiError | None:
    """The last error that a server told, once an attempt has ended. A time-out of the client's own is no news of the
    server; after a broken connection, what the server told before is out of date."""
    if isinstance(outcome, RequestTimedOutError) and not outcome.is_told:
        return reported
    return outcome if isinstance(outcome, ApiError) and not isinstance(outcome, NetworkError) else None


def server_error_or_last(reported: ApiError | None, last: E) -> E | ApiError:
    """See `ServerErrors.for_user`. The last attempt may have written, so the error does not say that nothing was."""
    if reported is None or reported is last or not isinstance(last, UNANSWERED):
        return last
    error = error_for(reported.code, f"{reported}; the last attempt had no answer: {last}", leader=reported.leader)
    error.nothing_written, error.__cause__ = False, last
    return error
