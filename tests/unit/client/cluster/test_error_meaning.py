"""Errors say whether metadata is doubtful, whether a write may have happened, and which of them the user is told."""

from __future__ import annotations

import pytest

from penstock.client.cluster.error_meaning import ServerErrors, needs_metadata, outcome_unknown
from penstock.errors import (
    ApiError,
    BootstrapError,
    CoordinatorLoadInProgressError,
    KafkaStorageError,
    NetworkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    PenstockError,
    RequestTimedOutError,
    TimedOutError,
    error_for,
)


def test_errors_are_told_apart() -> None:
    assert needs_metadata(NotLeaderOrFollowerError()) and needs_metadata(NetworkError())
    assert not needs_metadata(NotEnoughReplicasError())
    assert outcome_unknown(NetworkError()) and outcome_unknown(RequestTimedOutError())
    assert not outcome_unknown(NotLeaderOrFollowerError())


def test_after_a_disk_error_another_may_lead_and_the_write_may_stand() -> None:
    assert needs_metadata(KafkaStorageError()) and outcome_unknown(KafkaStorageError())


def test_the_error_that_a_server_told_says_why_when_the_last_attempt_had_no_answer_in_time() -> None:
    reported = ServerErrors[str]()
    late = RequestTimedOutError("no answer within 1 ms")
    for outcome in (CoordinatorLoadInProgressError("it loads"), NotEnoughReplicasError("few"), late, late):
        reported.note("a", outcome)
    found = reported.for_user("a", late)
    assert isinstance(found, NotEnoughReplicasError) and found.__cause__ is late
    assert str(found) == "few; the last attempt had no answer: no answer within 1 ms"
    assert not found.nothing_written, "the last attempt may have written"
    reported.note("a", error_for(RequestTimedOutError.code, "no leader"))
    assert str(reported.for_user("a", late)) == "no leader; the last attempt had no answer: no answer within 1 ms"
    reported.note("b", CoordinatorLoadInProgressError("it loads"))
    reported.note("c", late)
    assert isinstance(reported.of_any(late), CoordinatorLoadInProgressError) and reported.for_user("c", late) is late


@pytest.mark.parametrize(
    "last",
    [
        NetworkError("refused"),
        NotEnoughReplicasError("few"),
        error_for(RequestTimedOutError.code, "no leader"),
        BootstrapError("nobody"),
        TimedOutError("late"),
    ],
)
def test_any_other_last_error_stays_as_it_is(last: PenstockError) -> None:
    reported = ServerErrors[str]()
    for outcome in (CoordinatorLoadInProgressError("it loads"), last):
        reported.note("a", outcome)
    assert reported.for_user("a", last) is last and reported.of_any(last) is last
    is_of_a_server = isinstance(last, ApiError) and not isinstance(last, NetworkError)
    assert (reported.of_any(late := RequestTimedOutError("late")) is late) is not is_of_a_server
