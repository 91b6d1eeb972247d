"""Promises of the cache of fetch sessions: only the right epoch goes on with one, and places are bounded."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from broker.network.named_sessions import EPOCH_MAX, ID_MAX, NamedSession, NamedSessions, NoSession
from broker.network.request_channel import Caller
from penstock.types import Endpoint

EVICTION_MS = 1000
OWNER, OTHER = "User:anna", "User:bob"


class FakeSession:
    """A session with so many partitions."""

    def __init__(self) -> None:
        self.partitions: list[None] = []
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def cache(slots: int = 2) -> NamedSessions:
    random = Random(3)
    return NamedSessions(
        lambda host: cast(Any, FakeSession()), slots, EVICTION_MS, lambda: random.randint(1, min(ID_MAX, 100))
    )


def begin(sessions: NamedSessions, partitions: int = 1, now_ms: int = 0, user: str = "anna") -> NamedSession | None:
    caller = Caller(Endpoint("host", 1), principal=f"User:{user}")
    made = sessions.begin(caller, partitions, by_ids=True, now_ms=now_ms)
    if made is not None:
        cast(FakeSession, made.session).partitions = [None] * partitions
    return made


def begun(sessions: NamedSessions, partitions: int = 1, now_ms: int = 0) -> NamedSession:
    made = begin(sessions, partitions, now_ms)
    assert made is not None
    return made


def is_closed(named: NamedSession) -> bool:
    return cast(FakeSession, named.session).is_closed


def test_ids_are_positive_and_no_two_are_the_same() -> None:
    sessions = cache(slots=50)
    ids = [begun(sessions).session_id for _ in range(50)]
    assert len(set(ids)) == 50 and min(ids) > 0


def test_the_epochs_of_a_session_count_its_requests() -> None:
    sessions = cache()
    made = begun(sessions)
    for epoch in (1, 2, 3):
        assert sessions.go_on(made.session_id, epoch, OWNER, by_ids=True, now_ms=0) is made
    for epoch in (3, 5, -7, 0):
        refused = sessions.go_on(made.session_id, epoch, OWNER, by_ids=True, now_ms=0)
        assert refused == NoSession.WRONG_EPOCH
    assert sessions.go_on(made.session_id, 4, OWNER, by_ids=True, now_ms=0) is made, (
        "a refused request counts for nothing"
    )


def test_after_the_largest_epoch_comes_1() -> None:
    sessions = cache()
    made = begun(sessions)
    made.epoch = EPOCH_MAX
    assert sessions.go_on(made.session_id, EPOCH_MAX, OWNER, by_ids=True, now_ms=0) is made
    assert sessions.go_on(made.session_id, 1, OWNER, by_ids=True, now_ms=0) is made


def test_a_session_goes_on_only_under_its_id_and_in_its_way_of_naming_topics() -> None:
    sessions = cache()
    made = begun(sessions)
    assert sessions.go_on(made.session_id + 1, 1, OWNER, by_ids=True, now_ms=0) == NoSession.UNKNOWN_ID
    assert sessions.go_on(made.session_id, 1, OWNER, by_ids=False, now_ms=0) == NoSession.OTHER_NAMES
    sessions.end(made.session_id, OWNER)
    assert sessions.go_on(made.session_id, 1, OWNER, by_ids=True, now_ms=0) == NoSession.UNKNOWN_ID
    assert is_closed(made)


def test_the_session_of_one_principal_is_none_to_another() -> None:
    """Its answers name topics that the other one may not know of, and ids can be guessed."""
    sessions = cache()
    made = begun(sessions)
    for epoch in (1, 2):
        assert sessions.go_on(made.session_id, epoch, OTHER, by_ids=True, now_ms=0) == NoSession.UNKNOWN_ID
    sessions.end(made.session_id, OTHER)
    assert not is_closed(made) and sessions.go_on(made.session_id, 1, OWNER, by_ids=True, now_ms=0) is made


def test_without_slots_there_are_no_sessions() -> None:
    assert begin(cache(slots=0)) is None


def test_a_full_cache_gives_no_place_while_all_are_young() -> None:
    sessions = cache()
    first, second = begun(sessions), begun(sessions)
    assert begin(sessions, 100, EVICTION_MS) is None
    assert not is_closed(first) and not is_closed(second)


def test_the_session_that_was_used_longest_ago_goes_first() -> None:
    sessions = cache()
    first, second = begun(sessions, 50), begun(sessions, 1)
    sessions.go_on(first.session_id, 1, OWNER, by_ids=True, now_ms=1)
    third = begun(sessions, 1, EVICTION_MS + 1)
    assert is_closed(second) and not is_closed(first) and not is_closed(third)
    assert sessions.statistics().evictions == 1


def test_a_session_in_use_gives_way_only_to_a_larger_one_and_only_when_it_is_old() -> None:
    sessions = cache()
    small, large = begun(sessions, 5), begun(sessions, 9)
    late = EVICTION_MS + 1
    for named in (small, large):
        sessions.go_on(named.session_id, 1, OWNER, by_ids=True, now_ms=late)
    assert begin(sessions, 5, late) is None
    begun(sessions, 6, late)
    assert is_closed(small) and not is_closed(large)
    assert begin(sessions, 8, late) is None, "the new one of 6 is young, and the old one larger"


@pytest.mark.parametrize("how", ["ended", "evicted"])
def test_a_session_stays_open_while_a_request_of_it_is_on_its_way(how: str) -> None:
    sessions = cache(slots=1)
    made = begun(sessions)
    with made:
        if how == "ended":
            sessions.end(made.session_id, OWNER)
        else:
            begun(sessions, now_ms=EVICTION_MS + 1)
        assert not is_closed(made)
    assert is_closed(made)


def test_the_sessions_of_a_node_that_stops_are_closed() -> None:
    sessions = cache()
    first, second = begun(sessions, 3), begun(sessions, 4)
    assert (sessions.statistics().sessions, sessions.statistics().partitions) == (2, 7)
    sessions.close()
    assert is_closed(first) and is_closed(second) and sessions.statistics().sessions == 0


def test_a_party_that_has_taken_all_places_gives_way_to_others_until_all_have_as_many() -> None:
    sessions = cache(slots=10)
    for _ in range(20):
        begin(sessions, 1_000, user="greedy")
    mine = [begin(sessions, user="bob") for _ in range(10)]
    assert [named is not None for named in mine] == [True] * 5 + [False] * 5
    assert begin(sessions, 1_000, user="greedy") is None
    assert not any(is_closed(named) for named in mine if named is not None)


def test_large_sessions_of_one_party_do_not_push_out_the_small_ones_of_another() -> None:
    sessions = cache(slots=2)
    small = begin(sessions, 1, user="bob")
    large = begin(sessions, 5, user="greedy")
    late = EVICTION_MS + 1
    for named in (small, large):
        assert named is not None
        sessions.go_on(named.session_id, 1, named.owner, by_ids=True, now_ms=late)
    assert begin(sessions, 1_000, late, user="greedy") is not None
    assert small is not None and large is not None and is_closed(large) and not is_closed(small)
