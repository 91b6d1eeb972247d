"""Places for attempts: one for each connection, few for each address, and those of proven addresses are safe."""

from __future__ import annotations

from itertools import count

from broker.authentication.attempts import (
    ALL_MAX,
    OF_HOST_MAX,
    OF_PROVEN_MAX,
    PROVEN_MAX,
    SHARED_MAX,
    Attempts,
)
from penstock.types import Endpoint

PORTS = count(1)


def enter(attempts: Attempts, host: str) -> Endpoint | None:
    """By a new connection; None if there is no place for it."""
    peer = Endpoint(host, next(PORTS))
    return peer if attempts.enter("OUT", peer) else None


def taken(attempts: Attempts, host: str, times: int) -> int:
    return sum(enter(attempts, host) is not None for _ in range(times))


def test_a_connection_has_one_attempt_under_way() -> None:
    attempts, peer = Attempts(), Endpoint("10.0.0.1", 1)
    assert attempts.enter("OUT", peer) and not attempts.enter("OUT", peer)
    assert attempts.enter("KAFKA", peer), "another listener's connection may come from the same port"
    attempts.leave("OUT", peer)
    assert attempts.enter("OUT", peer)


def test_an_address_of_ipv6_has_no_more_places_for_having_more_addresses() -> None:
    attempts = Attempts()
    assert sum(enter(attempts, f"2001:db8::{n}") is not None for n in range(1, 100)) == OF_HOST_MAX
    assert enter(attempts, "2001:db8:0:1::1")


def test_above_the_shared_places_an_address_has_one() -> None:
    attempts = Attempts()
    for n in range(SHARED_MAX // OF_HOST_MAX):
        assert taken(attempts, f"10.1.0.{n}", 99) == OF_HOST_MAX
    first, second = enter(attempts, "10.0.0.1"), enter(attempts, "10.0.0.2")
    assert first and second and taken(attempts, "10.0.0.1", 99) == taken(attempts, "10.0.0.2", 99) == 0
    attempts.proved("10.0.0.1")
    assert taken(attempts, "10.0.0.1", 99) == 99
    attempts.leave("OUT", second)
    assert taken(attempts, "10.0.0.2", 99) == 1


def test_an_address_by_which_somebody_has_logged_in_is_heard_beside_one_that_guesses_there() -> None:
    attempts = Attempts()
    attempts.proved("10.0.0.1")
    guesses = [enter(attempts, "10.0.0.1") for _ in range(OF_PROVEN_MAX - 1)]
    assert all(guesses) and enter(attempts, "10.0.0.1"), "a client of that address"
    assert not enter(attempts, "10.0.0.1")
    assert taken(attempts, "10.0.0.2", 99) == OF_HOST_MAX, "they took no place of another address"
    for peer in guesses:
        assert peer is not None
        attempts.leave("OUT", peer)
    assert len(attempts) == OF_HOST_MAX + 1 == attempts._shared


def test_all_strangers_together_are_bounded() -> None:
    attempts = Attempts()
    attempts.proved("10.0.0.1")
    hosts = [f"10.{n // 62_500 + 1}.{n // 250 % 250}.{n % 250}" for n in range(ALL_MAX + 9)]
    assert sum(enter(attempts, host) is not None for host in hosts) == ALL_MAX
    assert not enter(attempts, "10.0.0.2") and taken(attempts, "10.0.0.1", 99) == 99


def test_places_are_given_back_and_nothing_is_kept_of_an_address() -> None:
    attempts = Attempts()
    for peer in [enter(attempts, "10.0.0.1") for _ in range(3)]:
        assert peer is not None
        attempts.leave("OUT", peer)
    last = enter(attempts, "10.0.0.2")
    assert last is not None
    attempts.leave("OUT", last)
    assert not len(attempts) and not attempts._under_way and not attempts._shared


def test_as_many_proven_addresses_are_remembered_and_the_last_to_log_in_longest() -> None:
    attempts = Attempts()
    for n in range(PROVEN_MAX):
        attempts.proved(str(n))
    attempts.proved("0")
    attempts.proved("new")
    assert attempts.is_proven("0") and attempts.is_proven("new") and not attempts.is_proven("1")
    assert len(attempts._proven) == PROVEN_MAX
