"""Memory that was taken long ago goes back where a party with little waits, from whoever has most."""

from __future__ import annotations

from broker.network.budget_shares import FLOOR_SHARE
from broker.network.giving_way import HEADROOM, giving_way
from broker.network.memory_budget import Lease, MemoryBudget

FLOOR = 1_000


def crowded(parties: int = FLOOR_SHARE) -> tuple[MemoryBudget, list[Lease]]:
    """A budget of which so many parties have a floor each, and what they have; the oldest comes first."""
    budget = MemoryBudget(FLOOR * FLOOR_SHARE, 1)
    return budget, [budget.open(f"party {number}").take(FLOOR) for number in range(parties)]


def test_nothing_gives_way_while_nobody_waits() -> None:
    _, held = crowded()
    assert giving_way(held) == set()


def test_a_party_with_little_that_waits_gets_its_bytes_and_the_next_ones_need_not_wait() -> None:
    budget, held = crowded()
    granted: list[Lease] = []
    assert budget.open("late").acquire(500, granted.append) is None
    gone = giving_way(held)
    assert gone == set(held[: HEADROOM + 1])
    for lease in gone:
        lease.release()
    assert [lease.size for lease in granted] == [500]
    assert budget.open("later").has_room(FLOOR)


def test_the_party_that_has_most_gives_way_first_and_of_its_leases_the_oldest() -> None:
    budget, held = crowded(FLOOR_SHARE - 12)
    largest = budget.open("largest")
    of_largest = [largest.take(FLOOR) for _ in range(12)]
    assert budget.open("late").acquire(500, lambda lease: None) is None
    assert giving_way([*held, *of_largest]) == set(of_largest[: HEADROOM + 1])


def test_a_party_with_little_that_waits_for_the_rest_of_a_lease_counts_with_all_of_it() -> None:
    budget, held = crowded(FLOOR_SHARE - 2)
    first = budget.open("above").take(1_900)
    growing = budget.open("late").acquire(900, lambda lease: None, come=100)
    assert growing is not None and budget.lacking() == {}
    above = budget.open("other").acquire(FLOOR, lambda lease: None, come=0)
    assert above is not None and above.grow(500, lambda lease: None), "the one above the limits"
    assert not growing.grow(200, lambda lease: None)
    assert budget.lacking() == {"late": 800}
    assert giving_way([*held, first]) == {first, *held[:8]}


def test_whoever_waits_for_its_own_share_takes_nothing_from_others() -> None:
    budget, held = crowded(FLOOR_SHARE // 2 - 1)
    greedy = budget.open("greedy")
    greedy.take(FLOOR * FLOOR_SHARE // 2)
    assert greedy.acquire(FLOOR, lambda lease: None) is None
    assert giving_way(held) == set()


def test_each_budget_is_judged_by_itself() -> None:
    (budget, held), (_, of_another) = crowded(), crowded()
    assert budget.open("late").acquire(1, lambda lease: None) is None
    assert not giving_way([*of_another, *held]) & set(of_another)
