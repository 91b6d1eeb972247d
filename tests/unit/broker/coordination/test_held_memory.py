"""Promises of the bytes that a shard holds: whose they are when they come, when they go, and after a failover."""

from __future__ import annotations

import random
import tracemalloc

from broker.coordination.held_memory import UNIT_BYTES, HeldMemory, ShardMemory
from broker.coordination.memory_shares import CoordinatorMemory, MemoryWords
from broker.load.party_shares import NOBODY, PartyShares
from penstock.errors import GroupMaxSizeReachedError, ResourceExhaustedError

WORDS = MemoryWords("the groups", "some.key", GroupMaxSizeReachedError, "delete", ResourceExhaustedError, "again")
A, B = "User:a", "User:b"


def held_by(shares: PartyShares, *parties: str) -> tuple[int, ...]:
    return tuple(shares.held_by(party) for party in parties)


def test_bytes_belong_to_the_party_that_brought_them_also_in_a_group_of_two_parties() -> None:
    shares = PartyShares(1_000)
    held = HeldMemory(shares)
    held.changed("g", 10, A)
    held.changed("g", 30, B)
    assert held_by(shares, A, B) == (10, 30) and held.holder_of("g") == B and held.bytes == 40


def test_bytes_that_go_are_first_those_of_whoever_asks_then_nobodys_then_the_largest() -> None:
    shares = PartyShares(1_000)
    held = HeldMemory(shares)
    held.changed("g", 5, NOBODY)
    held.changed("g", 10, A)
    held.changed("g", 30, B)
    held.changed("g", -12, A)
    assert held_by(shares, A, NOBODY, B) == (0, 3, 30)
    held.changed("g", -13, A)
    assert held_by(shares, A, NOBODY, B) == (0, 0, 20)


def test_what_a_timer_or_a_marker_brings_belongs_to_the_holder_of_the_group() -> None:
    shares = PartyShares(1_000)
    held = HeldMemory(shares)
    held.changed("g", 10, A)
    held.changed("g", 90, NOBODY)
    assert held_by(shares, A, NOBODY) == (100, 0)


def test_what_was_loaded_is_nobodys_until_a_party_uses_the_group() -> None:
    shares = PartyShares(1_000)
    held = HeldMemory(shares)
    held.changed("g", 100, NOBODY)
    held.changed("other", 100, NOBODY)
    held.changed("g", 7, A)
    held.claim("g", NOBODY)
    assert held_by(shares, A, NOBODY) == (7, 200)
    held.claim("g", A)
    held.claim("g", B)
    held.claim("unknown", B)
    assert held_by(shares, A, B, NOBODY) == (107, 0, 100) and shares.used == 207


def test_a_shard_that_goes_gives_everything_back() -> None:
    memory = CoordinatorMemory(1_000, WORDS)
    mine, other = ShardMemory(memory), ShardMemory(memory)
    with mine.deciding_for(A):
        mine.grown("g", 10)
        mine.grown_for_now("g", 5)
    other.grown("h", 3)
    assert mine.bytes == 15 and memory.used == 18
    mine.give_up()
    assert (mine.bytes, memory.used, memory.lasting.held_by(A)) == (0, 3, 0)


def test_a_decision_within_another_one_does_not_change_whose_the_rest_is() -> None:
    memory = CoordinatorMemory(1_000, WORDS)
    shard = ShardMemory(memory)
    with shard.deciding_for(A):
        with shard.deciding_for(B):
            shard.grown("g", 1)
        shard.grown("h", 2)
    assert held_by(memory.lasting, A, B) == (2, 1)


def test_the_sums_are_right_whatever_comes_and_goes() -> None:
    """Seeded: the sums of parties, units and all are those of a dumb count."""
    for seed in range(30):
        rng, shares = random.Random(seed), PartyShares(1 << 30)
        held, sizes = HeldMemory(shares), dict.fromkeys("ghi", 0)
        for _ in range(300):
            unit, party = rng.choice("ghi"), rng.choice((A, B, NOBODY))
            by = rng.randint(-sizes[unit], 50)
            sizes[unit] += by
            held.changed(unit, by, party)
            if rng.random() < 0.05:
                held.claim(unit, party)
            assert held.bytes == shares.used == sum(sizes.values()) == sum(held_by(shares, A, B, NOBODY)), seed
            assert all(count >= 0 for count in held_by(shares, A, B, NOBODY)), seed
            assert len(held) == sum(size > 0 for size in sizes.values()), seed
        held.give_up()
        assert shares.used == 0 == sum(held_by(shares, A, B, NOBODY))


def test_the_counts_of_a_unit_take_about_as_much_memory_as_the_estimates_say() -> None:
    held, units = HeldMemory(PartyShares(1 << 40)), [f"group-{number}" for number in range(20_000)]
    tracemalloc.start()
    try:
        for unit in units:
            held.changed(unit, 5_000, A)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * UNIT_BYTES < taken / len(units) < 1.2 * UNIT_BYTES, taken / len(units)
