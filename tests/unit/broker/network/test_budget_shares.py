"""Nobody who could go on waits, and a release looks at no party that cannot, however many wait."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from broker.network.budget_shares import BudgetShares, WaitingParties
from broker.network.memory_budget import Account, Lease, MemoryBudget

BUDGET, STREAM_SHARE = 1 << 20, 8
FLOOR = BUDGET // 64


@dataclass
class Wait:
    size: int
    more: int


@dataclass
class Party:
    name: str
    announced: int = 0
    used: int = 0
    growing: deque[Wait] = field(default_factory=deque)
    waiting: deque[Wait] = field(default_factory=deque)


def shares(free: int) -> BudgetShares:
    made = BudgetShares(BUDGET, STREAM_SHARE)
    made.used = BUDGET - free
    return made


def test_a_party_is_looked_at_once_as_much_is_free_as_it_needs() -> None:
    of = shares(511)
    parties: WaitingParties[Party] = WaitingParties(of)
    for name in ("a", "b"):
        parties.note(Party(name, waiting=deque([Wait(4_096, 512)])))
    assert not parties.may_fit
    of.used -= 1
    assert parties.may_fit


def test_a_party_with_a_share_needs_as_much_free_for_others() -> None:
    parties: WaitingParties[Party] = WaitingParties(shares(FLOOR + 1_000))
    party = Party("a", FLOOR, FLOOR, growing=deque([Wait(FLOOR + 600, 600)]))
    parties.note(party)
    assert not parties.may_fit
    party.used -= 600  # what it has and takes is no more than its floor
    parties.note(party)
    assert parties.may_fit


def test_a_look_in_vain_makes_the_least_exact() -> None:
    of = shares(600)
    parties: WaitingParties[Party] = WaitingParties(of)
    small = Party("a", waiting=deque([Wait(10, 10)]))
    parties.note(small)
    parties.note(Party("b", waiting=deque([Wait(4_096, 1_000)])))
    small.waiting.clear()
    parties.note(small)
    assert parties.may_fit  # nobody has looked
    parties.nobody_fits()
    assert not parties.may_fit
    assert [party.name for party in parties] == ["b"]


def test_a_lease_that_is_to_grow_is_urgent_and_one_that_begins_only_if_it_is_large() -> None:
    parties: WaitingParties[Party] = WaitingParties(shares(0))
    parties.note(Party("a", waiting=deque([Wait(4_096, 512)])))
    assert not parties.may_be_urgent
    parties.note(Party("b", growing=deque([Wait(4_096, 512)])))
    assert parties.may_be_urgent
    parties.nobody_is_urgent()
    parties.note(Party("c", waiting=deque([Wait(BUDGET // 4, BUDGET // 4)])))
    assert parties.may_be_urgent


class Stream:
    """A connection that asks for leases, lets them grow, and gives them back."""

    def __init__(self, budget: MemoryBudget, party: str) -> None:
        self.account: Account = budget.open(party)
        self.lease: Lease | None = None
        self.size = 0
        self.waits = False

    def granted(self, lease: Lease) -> None:
        self.lease, self.waits = lease, False

    def step(self, rng: random.Random) -> None:
        if self.waits:
            if rng.random() < 0.1:
                self.account.withdraw()
                if self.lease is not None:
                    self.lease.release()
                self.lease, self.waits = None, False
        elif self.lease is None:
            self.size = rng.choice((0, 300, 5_000, 20_000, 100_000, 400_000))
            self.waits = True
            first = min(self.size, 512)
            found = self.account.acquire(self.size, self.granted, rng.choice((first, None)))
            if found is not None:
                self.granted(found)
        elif self.lease.size < self.size and rng.random() < 0.7:
            self.waits = True
            if self.lease.grow(min(self.size, self.lease.size * 2), self.granted):
                self.waits = False
        else:
            self.lease.release()
            self.lease = None


@pytest.mark.parametrize("seed", range(20))
def test_nobody_waits_who_could_go_on(seed: int) -> None:
    rng = random.Random(seed)
    budget = MemoryBudget(BUDGET, STREAM_SHARE)
    streams = [Stream(budget, f"User:{rng.randrange(40)}") for _ in range(120)]
    waited = 0
    for _ in range(3_000):
        rng.choice(streams).step(rng)
        waited += len(budget._turns)
        if budget._overtaken < 64:  # else the turn of one goes to no other
            assert not [party for party in budget._turns if budget._first_fits(party)]
            assert budget.top is not None or not [p for p in budget._turns if budget._turns.is_urgent(p)]
    assert waited > 3_000
    for stream in streams:
        stream.account.withdraw()
    for stream in streams:
        if stream.lease is not None:
            stream.lease.release()
    assert (budget.statistics().used_bytes, len(budget._turns)) == (0, 0)


@pytest.mark.parametrize("networks", (100, 2_000))
def test_a_log_in_costs_no_look_at_networks_that_wait(networks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = MemoryBudget(BUDGET, STREAM_SHARE)
    holders = [budget.open(f"User:{n}") for n in range(64)]
    kept: list[Any] = [account.take(FLOOR) for account in holders]
    for n in range(networks):
        account = budget.open(f"10.0.{n >> 8}.{n & 255}")
        assert account.acquire(60_000, kept.append, 512) is None
    looks = 0
    first_fits = MemoryBudget._first_fits

    def counted(self: MemoryBudget, party: Any) -> bool:
        nonlocal looks
        looks += 1
        return first_fits(self, party)

    monkeypatch.setattr(MemoryBudget, "_first_fits", counted)
    user = budget.open("User:anna")
    for _ in range(10):
        user.take(300).release()
    assert looks <= 10
