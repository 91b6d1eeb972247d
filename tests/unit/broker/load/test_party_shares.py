"""Promises of the shares of one limited thing: a party gets half of what is free, and may give it back."""

from __future__ import annotations

import random

import pytest

from broker.load.party_shares import NOBODY, PartyShares


def filled(shares: PartyShares, party: str, step: int = 1) -> int:
    """The party adds as long as it may; what it holds then."""
    while shares.has_room(party, step):
        shares.changed(party, step)
        assert shares.used <= shares.limit
    return shares.held_by(party)


def test_one_party_alone_gets_half_of_the_limit() -> None:
    assert filled(PartyShares(1_000), "User:a") == 500


def test_the_next_party_gets_half_of_what_is_free_and_the_greedy_one_nothing_more() -> None:
    shares = PartyShares(1_000)
    filled(shares, "User:greedy")
    assert filled(shares, "User:b") == 250
    assert filled(shares, "User:greedy") == 500
    assert filled(shares, "User:c") == 125


@pytest.mark.parametrize("parties", [2, 3, 9])
def test_parties_that_take_turns_get_the_same_and_as_much_is_left(parties: int) -> None:
    shares, names = PartyShares(10_000), [f"User:{number}" for number in range(parties)]
    for _ in range(10_000):
        for name in names:
            if shares.has_room(name, 1):
                shares.changed(name, 1)
    fair = 10_000 // (parties + 1)
    assert all(abs(shares.held_by(name) - fair) <= parties for name in names)
    assert 10_000 - shares.used >= fair - parties


def test_what_gives_some_back_or_needs_none_is_never_refused() -> None:
    shares = PartyShares(100)
    shares.changed("User:a", 100)
    assert shares.has_room("User:a", 0) and shares.has_room("User:a", -1) and shares.has_room("User:b", 0)
    assert not shares.has_room("User:b", 1)


def test_a_single_large_addition_counts_as_many_small_ones_do() -> None:
    shares = PartyShares(1_000)
    assert shares.has_room("User:a", 500) and not shares.has_room("User:a", 501)


def test_whatever_a_party_did_another_one_has_room() -> None:
    """Seeded: one party adds and gives back at random, as much as it may."""
    for seed in range(20):
        rng, shares = random.Random(seed), PartyShares(100_000)
        for _ in range(500):
            by = rng.randint(1, 20_000)
            if rng.random() < 0.3:
                shares.changed("User:greedy", -rng.randint(0, shares.held_by("User:greedy")))
            elif shares.has_room("User:greedy", by):
                shares.changed("User:greedy", by)
            assert shares.has_room("User:other", 25_000), seed


def test_the_metrics_name_the_largest_parties_alone_and_never_nobody() -> None:
    shares = PartyShares(1 << 30)
    for number in range(100):
        shares.changed(f"User:{number}", number)
    shares.changed(NOBODY, 10_000)
    assert [row.party for row in shares.largest()] == ["User:99", "User:98", "User:97", "User:96", "User:95"]


def test_nothing_is_kept_of_a_party_that_holds_nothing() -> None:
    shares = PartyShares(1_000)
    shares.changed("User:a", 10)
    shares.changed("User:a", -10)
    assert repr(shares) == "PartyShares(0 of 1000, 0 parties)"
