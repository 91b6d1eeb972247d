"""A session counts at its own connection, with its token, for its time; there are no more than connections."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

import pytest

from broker.authentication.logins import Dialogue
from broker.authentication.sessions import (
    DIALOGUE_MS_MAX,
    DIALOGUES_MAX,
    DIALOGUES_OF_HOST_MAX,
    LIFETIME_MS_MIN,
    CallerPlace,
    Dialogues,
    Sessions,
    session_lifetime_ms,
)
from penstock.errors import IllegalSaslStateError
from penstock.types import Endpoint

HERE = CallerPlace("OUTSIDE", Endpoint("10.0.0.1", 4711))
ELSEWHERE = (
    CallerPlace("OUTSIDE", Endpoint("10.0.0.1", 4712)),
    CallerPlace("OUTSIDE", Endpoint("10.0.0.2", 4711)),
    CallerPlace("OTHER", Endpoint("10.0.0.1", 4711)),
)
ANNA, BERT = "User:anna", "User:bert"


def sessions(most: int = 10) -> Sessions:
    numbers = count(1)
    return Sessions(most, lambda: f"token {next(numbers)}")


def test_a_token_counts_at_its_connection_only() -> None:
    made = sessions()
    token = made.begin(HERE, ANNA, 0, 0).token
    assert made.principal_of(HERE, token, 10**12) == ANNA
    assert [made.principal_of(at, token, 1) for at in ELSEWHERE] == [None] * 3


@pytest.mark.parametrize("token", ["", "token", "token 2", "token 1 ", "TOKEN 1", "tök\N{SNOWMAN}", "\0" * 10_000])
def test_another_token_is_nobodys(token: str) -> None:
    made = sessions()
    made.begin(HERE, ANNA, 0, 0)
    assert made.principal_of(HERE, token, 1) is None


def test_it_ends_with_its_time_and_a_stream_under_it_too() -> None:
    made = sessions()
    token = made.begin(HERE, ANNA, 1_000, 5).token
    assert made.principal_of(HERE, token, 1_004) == ANNA and made.is_logged_in(HERE, ANNA, 1_004)
    assert made.principal_of(HERE, token, 1_005) is None and not made.is_logged_in(HERE, ANNA, 1_005)


def test_renewed_in_time_it_lives_on_with_the_same_token() -> None:
    made = sessions()
    token = made.begin(HERE, ANNA, 1_000, 0).token
    renewed = made.renew(HERE, ANNA, 1_000, 900)
    assert renewed is not None and renewed.token == token
    assert made.is_logged_in(HERE, ANNA, 1_899) and not made.is_logged_in(HERE, ANNA, 1_900)


def test_nobody_else_renews_it_and_nobody_late_or_elsewhere() -> None:
    made = sessions()
    made.begin(HERE, ANNA, 1_000, 0)
    assert made.renew(HERE, BERT, 1_000, 1) is None and made.renew(HERE, ANNA, 1_000, 1_000) is None
    assert [made.renew(at, ANNA, 1_000, 1) for at in ELSEWHERE] == [None] * 3


def test_a_connection_has_one_and_streams_of_another_user_before_end() -> None:
    made = sessions()
    first = made.begin(HERE, ANNA, 0, 0).token
    second = made.begin(HERE, BERT, 0, 1).token
    assert made.principal_of(HERE, first, 2) is None and made.principal_of(HERE, second, 2) == BERT
    assert not made.is_logged_in(HERE, ANNA, 2) and len(made) == 1


def test_it_ends_with_its_connection() -> None:
    made = sessions()
    made.begin(HERE, ANNA, 0, 100)
    made.begin(ELSEWHERE[2], ANNA, 0, 100)
    made.look("OUTSIDE", [ELSEWHERE[0].peer], 100)
    assert made.is_logged_in(HERE, ANNA, 101), "it may have begun after the look"
    made.look("OUTSIDE", [HERE.peer], 101)
    assert made.is_logged_in(HERE, ANNA, 102)
    made.look("OUTSIDE", [], 102)
    assert made.is_logged_in(HERE, ANNA, 103), "a system on which no connection is seen"
    made.look("OUTSIDE", [ELSEWHERE[0].peer], 103)
    assert not made.is_logged_in(HERE, ANNA, 104) and made.is_logged_in(ELSEWHERE[2], ANNA, 104)


def test_there_are_no_more_than_connections_and_the_oldest_goes_first() -> None:
    made = sessions(3)
    at = [CallerPlace("OUTSIDE", Endpoint("10.0.0.1", port)) for port in range(1, 5)]
    for one in at:
        made.begin(one, ANNA, 0, 0)
    assert [made.is_logged_in(one, ANNA, 1) for one in at] == [False, True, True, True] and len(made) == 3


def test_nothing_secret_is_shown() -> None:
    made = sessions()
    session = made.begin(HERE, ANNA, 0, 0)
    assert "token 1" not in repr(session) + repr(made) and "token='token" not in repr(session)


DIALOGUE = cast(Dialogue, cast(Any, "a dialogue"))


def at(host: int, port: int) -> CallerPlace:
    return CallerPlace("OUTSIDE", Endpoint(f"10.0.0.{host}", port))


def test_a_dialogue_is_taken_once_and_by_its_connection() -> None:
    kept = Dialogues()
    kept.keep(HERE, DIALOGUE, 0)
    for other in ELSEWHERE:
        with pytest.raises(IllegalSaslStateError, match="no authentication under way"):
            kept.take(other)
    assert kept.take(HERE) is DIALOGUE
    with pytest.raises(IllegalSaslStateError):
        kept.take(HERE)


def test_dialogues_of_one_host_do_not_keep_out_those_of_another() -> None:
    kept = Dialogues()
    for port in range(DIALOGUES_OF_HOST_MAX):
        kept.keep(at(1, port), DIALOGUE, 0)
    kept.keep(at(2, 1), DIALOGUE, 1)
    kept.keep(at(1, 9_999), DIALOGUE, 1)
    assert len(kept) == DIALOGUES_OF_HOST_MAX + 1
    with pytest.raises(IllegalSaslStateError):
        kept.take(at(1, 0))
    assert [kept.take(one) for one in (at(1, 1), at(1, 9_999), at(2, 1))] == [DIALOGUE] * 3


def test_addresses_that_begin_and_do_not_go_on_keep_nobody_out() -> None:
    kept = Dialogues()
    for number in range(DIALOGUES_MAX - 1):
        kept.keep(at(number % 8, number), DIALOGUE, 0)
    honest = [at(200, 1), at(201, 1), at(202, 1)]
    for one in honest:
        kept.keep(one, DIALOGUE, 1)
    assert len(kept) == DIALOGUES_MAX
    assert [kept.take(one) for one in honest] == [DIALOGUE] * 3


def test_all_dialogues_are_bounded_and_old_ones_are_forgotten() -> None:
    kept = Dialogues()
    for number in range(DIALOGUES_MAX):
        kept.keep(at(number % 100, number), DIALOGUE, number)
    kept.keep(at(200, 1), DIALOGUE, DIALOGUE_MS_MAX + 9)
    assert len(kept) == DIALOGUES_MAX - 9
    with pytest.raises(IllegalSaslStateError):
        kept.take(at(0, 0))
    for number in range(DIALOGUES_MAX):
        kept.drop(at(number % 100, number))
    kept.drop(at(200, 1))
    assert len(kept) == 0 and not kept._hosts


@pytest.mark.parametrize(
    ("longest_ms", "ends_ms", "lifetime_ms"),
    [
        (0, None, 0),
        (60_000, None, 60_000),
        (0, 105_000, 5_000),
        (60_000, 105_000, 5_000),
        (2_000, 105_000, 2_000),
        (0, 99_000, LIFETIME_MS_MIN),
        (60_000, 100_000, LIFETIME_MS_MIN),
    ],
)
def test_a_session_ends_with_what_has_proved_the_user_or_sooner(
    longest_ms: int, ends_ms: int | None, lifetime_ms: int
) -> None:
    assert session_lifetime_ms(longest_ms, ends_ms, wall_ms=100_000) == lifetime_ms
