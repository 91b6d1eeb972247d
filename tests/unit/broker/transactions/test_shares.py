"""Promises of the memory of transactions: a tenant that fills its share is refused, and others are served; what gives
memory back never is. An error after which a client would ask for ever is one that ends it, and says why."""

from __future__ import annotations

import pytest

from broker.coordination.turn import Client
from broker.load.party_shares import NOBODY
from penstock.errors import PolicyViolationError, ResourceExhaustedError
from penstock.types import TopicPartition
from tests.support.transaction_core import P0, P1, TransactionsHere

TENANT, VICTIM = (Client("app", "/10.0.0.1", party=f"User:{name}") for name in ("tenant", "victim"))
BROKER = Client("broker-2", "/10.0.0.7")
LIMIT, MANY = 1 << 18, 1_500
DAY_MS = 24 * 3_600_000


class Node(TransactionsHere):
    """A shard whose requests have senders."""

    def __init__(self) -> None:
        super().__init__(memory_bytes=LIMIT)
        self.failover()

    def by(self, client: Client) -> Node:
        self.client = client
        return self

    def filled(self, name: str = "t") -> int:
        """Makes ids until one is refused; how many there are."""
        count = 0
        while True:
            try:
                self.init(f"{name}-{count}")
            except PolicyViolationError:
                return count
            count += 1
            assert count < MANY, "never refused"

    def held_by(self, client: Client) -> int:
        return self.memory.lasting.held_by(client.party)


def test_a_tenant_that_fills_its_share_with_ids_is_refused_and_a_second_principal_is_served() -> None:
    node = Node()
    assert node.by(TENANT).filled() > 100 and LIMIT * 0.45 < node.held_by(TENANT) <= LIMIT / 2
    with pytest.raises(PolicyViolationError, match=r"User:tenant holds .*transactional\.id\.expiration\.ms") as found:
        node.init("one-more")
    assert not found.value.retriable, "the room may not come for days"
    producer = node.by(VICTIM).init("v")
    assert node.add(producer, P0, P1, name="v") == [None, None]
    node.end(producer, name="v")


def test_at_the_limit_ids_that_are_there_are_used_fenced_and_forgotten() -> None:
    node = Node()
    count = node.by(TENANT).filled()
    assert node.init("t-0")[1] == 1
    producer = node.init("t-1")
    assert node.add(producer, P0, name="t-1") == [None]
    node.end(producer, name="t-1")
    node.markers_written()
    node.wait(8 * DAY_MS)
    assert node.memory.used == 0
    assert node.filled("u") == count


def test_open_transactions_of_a_tenant_are_bounded_by_its_share_and_others_go_on() -> None:
    node = Node()
    node.topics.make("wide", 10_000)
    many = [TopicPartition("wide", number) for number in range(10_000)]
    producer = node.by(TENANT).init("t")
    with_room = node.add(producer, *many[:500], name="t")
    assert set(with_room) == {None}
    refused = node.add(producer, *many, name="t")
    assert all(isinstance(one, ResourceExhaustedError) and one.retriable for one in refused)
    victim = node.by(VICTIM).init("v")
    assert set(node.add(victim, *many[:200], name="v")) == {None}
    node.by(TENANT).end(producer, name="t")
    node.markers_written()
    assert node.memory.passing.held_by(TENANT.party) == 0 < node.memory.passing.held_by(VICTIM.party)


def test_partitions_that_a_leader_adds_count_as_those_of_whoever_has_the_id() -> None:
    node = Node()
    producer = node.by(TENANT).init("t")
    node.by(BROKER).add(producer, P0, P1, name="t")
    assert node.memory.passing.held_by(TENANT.party) == node.memory.passing.used > 0
    node.topics.make("wide", 10_000)
    many = [TopicPartition("wide", number) for number in range(10_000)]
    (error, *_) = node.add(producer, *many, name="t")
    assert isinstance(error, ResourceExhaustedError) and "User:tenant" in str(error)


def test_after_a_failover_ids_are_nobodys_until_their_party_uses_them_and_others_are_served() -> None:
    node = Node()
    count = node.by(TENANT).filled()
    producer = node.init("t-0")
    node.add(producer, P0, name="t-0")
    used, held = node.memory.used, node.held_by(TENANT)
    node.failover()
    assert (node.memory.used, node.held_by(TENANT)) == (used, 0)
    node.by(BROKER).add(producer, P1, name="t-0")
    assert node.held_by(TENANT) == 0 and node.memory.passing.held_by(NOBODY) > 0, "a leader takes nothing over"
    node.by(VICTIM).init("v")
    node.by(TENANT).end(producer, name="t-0")
    node.markers_written()
    for number in range(count):
        node.init(f"t-{number}")
    assert node.held_by(TENANT) == held and node.memory.passing.used == 0
    with pytest.raises(PolicyViolationError):
        node.init("one-more")
