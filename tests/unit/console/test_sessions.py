"""Sessions end, are limited, and nobody guesses for long."""

from __future__ import annotations

from itertools import count

import pytest

from penstock.console.sessions import (
    FAILURES_MAX,
    FAILURES_MS,
    IDLE_MS,
    LIFETIME_MS,
    NETWORKS_MAX,
    SESSIONS_MAX,
    SESSIONS_OF_USER_MAX,
    ConsoleSessions,
    TooManyFailuresError,
    TooManySessionsError,
)


def made() -> ConsoleSessions[str]:
    ids = count()
    return ConsoleSessions(lambda: f"id-{next(ids)}", b"key")


def test_a_session_ends_when_it_is_not_used() -> None:
    sessions = made()
    session = sessions.begin("anna", "link", 0)
    assert sessions.find(session.session_id, IDLE_MS - 1) is session
    assert sessions.find(session.session_id, 2 * IDLE_MS - 2) is session
    assert sessions.find(session.session_id, 3 * IDLE_MS) is None
    assert [one.link for one in sessions.ended()] == ["link"] and sessions.ended() == []


def test_a_request_that_a_page_makes_by_itself_is_no_use() -> None:
    sessions = made()
    session = sessions.begin("anna", "link", 0)
    assert sessions.find(session.session_id, IDLE_MS - 1, touches=False) is session
    assert sessions.find(session.session_id, IDLE_MS, touches=False) is None


def test_a_session_that_is_always_used_ends_too() -> None:
    sessions = made()
    session = sessions.begin("anna", "link", 0)
    for now_ms in range(0, LIFETIME_MS, IDLE_MS // 2):
        assert sessions.find(session.session_id, now_ms) is session
    assert sessions.find(session.session_id, LIFETIME_MS) is None


def test_the_oldest_session_of_a_user_makes_room_and_other_users_are_not_touched() -> None:
    sessions = made()
    other = sessions.begin("ben", "link", 0)
    own = [sessions.begin("anna", "link", now_ms) for now_ms in range(SESSIONS_OF_USER_MAX)]
    sessions.begin("anna", "link", 1000)
    assert sessions.find(own[0].session_id, 1000) is None
    assert sessions.find(own[1].session_id, 1000) and sessions.find(other.session_id, 1000)


def test_all_sessions_together_are_limited() -> None:
    sessions = made()
    for number in range(SESSIONS_MAX):
        sessions.begin(f"user-{number}", "link", 0)
    with pytest.raises(TooManySessionsError):
        sessions.begin("anna", "link", 1)
    sessions.begin("anna", "link", IDLE_MS)
    assert sessions.count == 1


def test_a_network_that_fails_often_waits_and_others_do_not() -> None:
    sessions = made()
    for now_ms in range(FAILURES_MAX):
        sessions.check_may_try("2001:db8::1", now_ms)
        sessions.note_failure("2001:db8::1", now_ms)
    with pytest.raises(TooManyFailuresError):
        sessions.check_may_try("2001:db8::2", FAILURES_MS - 1)  # the same network of 64 bits
    sessions.check_may_try("192.0.2.1", FAILURES_MS - 1)
    sessions.check_may_try("2001:db8::2", FAILURES_MS)


def test_networks_that_failed_are_forgotten_before_they_fill_the_memory() -> None:
    sessions = made()
    for _ in range(FAILURES_MAX):
        sessions.note_failure("192.0.2.1", 0)
    for number in range(NETWORKS_MAX):
        sessions.note_failure(f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}", 0)
    sessions.check_may_try("192.0.2.1", 0)


def test_a_token_is_that_of_one_browser() -> None:
    sessions = made()
    token = sessions.form_token("one")
    assert sessions.is_form_token("one", token)
    assert not sessions.is_form_token("two", token)
    assert not sessions.is_form_token("", sessions.form_token(""))
    assert not sessions.is_form_token("one", "ünknown")
    assert not ConsoleSessions[str](lambda: "", b"other key").is_form_token("one", token)
