"""Places for attempts: few for each address, one for everybody, and those of proven addresses are safe."""

from __future__ import annotations

from broker.authentication.attempts import ALL_MAX, OF_HOST_MAX, PROVEN_MAX, SHARED_MAX, Attempts


def taken(attempts: Attempts, host: str, times: int) -> int:
    return sum(attempts.enter(host) for _ in range(times))


def test_an_address_of_ipv6_has_no_more_places_for_having_more_addresses() -> None:
    attempts = Attempts()
    assert sum(attempts.enter(f"2001:db8::{n}") for n in range(1, 100)) == OF_HOST_MAX
    assert attempts.enter("2001:db8:0:1::1")


def test_above_the_shared_places_an_address_has_one() -> None:
    attempts = Attempts()
    for n in range(SHARED_MAX // OF_HOST_MAX):
        assert taken(attempts, f"10.1.0.{n}", 99) == OF_HOST_MAX
    assert taken(attempts, "10.0.0.1", 99) == taken(attempts, "10.0.0.2", 99) == 1
    attempts.proved("10.0.0.1")
    assert taken(attempts, "10.0.0.1", 99) == OF_HOST_MAX - 1
    attempts.leave("10.0.0.2")
    assert taken(attempts, "10.0.0.2", 99) == 1


def test_all_strangers_together_are_bounded() -> None:
    attempts = Attempts()
    attempts.proved("10.0.0.1")
    assert (
        sum(attempts.enter(f"10.{n // 62_500 + 1}.{n // 250 % 250}.{n % 250}") for n in range(ALL_MAX + 9)) == ALL_MAX
    )
    assert not attempts.enter("10.0.0.2") and taken(attempts, "10.0.0.1", 99) == OF_HOST_MAX


def test_places_are_given_back_and_nothing_is_kept_of_an_address() -> None:
    attempts = Attempts()
    assert taken(attempts, "10.0.0.1", 3) == 3
    for _ in range(3):
        attempts.leave("10.0.0.1")
    attempts.enter("10.0.0.2")
    attempts.leave("10.0.0.2")
    assert not len(attempts) and not attempts._under_way


def test_as_many_proven_addresses_are_remembered_and_the_last_to_log_in_longest() -> None:
    attempts = Attempts()
    for n in range(PROVEN_MAX):
        attempts.proved(str(n))
    attempts.proved("0")
    attempts.proved("new")
    assert attempts.is_proven("0") and attempts.is_proven("new") and not attempts.is_proven("1")
    assert len(attempts._proven) == PROVEN_MAX
