"""Promises of the memory of groups: a tenant that fills its share is refused, in every way to grow, and others are
served; what gives memory back, or needs none, never is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.coordination.record_log import TxnProducer
from broker.coordination.turn import Client, TopicFacts
from broker.load.party_shares import NOBODY
from penstock.errors import ApiError, GroupMaxSizeReachedError, ResourceExhaustedError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from penstock.messages.groups.listing import DeleteGroupsRequest
from penstock.messages.groups.offsets import OffsetCommitPartition, OffsetCommitRequest, OffsetDeleteRequest
from penstock.messages.transactions.producers import TxnOffsetCommitRequest
from penstock.types import TopicPartition
from tests.support.shard_core import NO_RACK, SESSION_MS, ShardCore

TENANT, VICTIM = (Client("app", "/10.0.0.1", party=f"User:{name}") for name in ("tenant", "victim"))
LIMIT, MANY = 1 << 20, 1_500
ONE = "m" * 22


class Node(ShardCore):
    """A shard whose requests have senders."""

    def commits(
        self, client: Client, group_id: str, *partitions: int, note: str = "", topic: str = "t"
    ) -> list[ApiError | None]:
        places = tuple(OffsetCommitPartition(TopicPartition(topic, one), 5, metadata=note) for one in partitions)
        return [one.error for one in self.ask(OffsetCommitRequest(group_id, places), client=client).partitions]

    def pends(
        self, client: Client, group_id: str, producer: int, *partitions: int, note: str = "", epoch: int = 0
    ) -> list[Any]:
        places = tuple(OffsetCommitPartition(TopicPartition("t", one), 6, metadata=note) for one in partitions)
        answer = self.ask(TxnOffsetCommitRequest("tx", group_id, producer, epoch, places), client=client)
        return [one.error for one in answer.partitions]

    def filled(self, client: Client, name: str = "t") -> int:
        """Makes groups until one is refused; how many there are."""
        count = 0
        while self.commits(client, f"{name}-{count}", 0) == [None]:
            count += 1
            assert count < MANY, "never refused"
        return count

    def beats(self, client: Client, group_id: str, member_id: str = ONE, epoch: int = 0, **said: Any) -> Any:
        said.setdefault("subscribed_topic_names", ("t",))
        request = ConsumerGroupHeartbeatRequest(
            group_id, member_id, epoch, rebalance_timeout_ms=60_000, owned_partitions=(), **said
        )
        return self.ask(request, client=client)

    def held_by(self, client: Client) -> int:
        return self.memory.lasting.held_by(client.party)


def refused(found: list[ApiError | None]) -> bool:
    return all(isinstance(one, GroupMaxSizeReachedError) for one in found)


def test_a_tenant_that_fills_its_share_with_groups_is_refused_and_a_second_principal_is_served() -> None:
    node = Node(bytes_max=LIMIT)
    count = node.filled(TENANT)
    assert count > 100 and LIMIT * 0.45 < node.held_by(TENANT) <= LIMIT / 2
    (error,) = node.commits(TENANT, "one-more", 0)
    assert "User:tenant holds about" in str(error) and "group.coordinator.memory.max.bytes" in str(error)
    assert isinstance(node.beats(TENANT, "c"), GroupMaxSizeReachedError)
    assert node.commits(VICTIM, "v", 0, 1, 2, note="n" * 4_000) == [None] * 3
    assert isinstance(node.beats(VICTIM, "w"), ConsumerGroupHeartbeatResponse)
    node.client = VICTIM
    assert node.classic_member("x")
    assert node.filled(TENANT, "z") == 0


def test_what_existing_groups_commit_is_bounded() -> None:
    node = Node(bytes_max=LIMIT)
    node.topics = type(node.topics)("t", partitions=500)
    assert node.commits(TENANT, "t-0", *range(500)) == [None] * 500
    answers = node.commits(TENANT, "t-0", *range(500), note="n" * 4_000)
    assert answers.count(None) > 50 and isinstance(answers[-1], GroupMaxSizeReachedError)
    assert node.held_by(TENANT) <= LIMIT / 2
    assert node.commits(VICTIM, "v", 0) == [None]


def test_at_the_limit_commits_that_overwrite_and_those_that_shrink_are_taken() -> None:
    node = Node(bytes_max=LIMIT)
    assert node.commits(TENANT, "t-0", 0, 1, note="n" * 4_000) == [None, None]
    node.filled(TENANT, "u")
    assert node.commits(TENANT, "t-0", 0, note="m" * 4_000) == [None]
    new, same = node.commits(TENANT, "t-0", 2, 1, note="n" * 4_000)
    assert isinstance(new, GroupMaxSizeReachedError) and same is None, "each partition has its own answer"
    held = node.held_by(TENANT)
    assert node.commits(TENANT, "t-0", 0, note="") == [None]
    assert node.held_by(TENANT) < held - 4_000
    assert node.commits(TENANT, "t-0", 2) == [None]


def test_at_the_limit_members_go_on_leave_and_groups_and_offsets_are_deleted() -> None:
    node = Node(bytes_max=LIMIT)
    node.client = TENANT
    member_id = node.classic_member("classic")
    assert isinstance(node.beats(TENANT, "consumer"), ConsumerGroupHeartbeatResponse)
    node.commits(TENANT, "t-0", 0, 1, 2)
    node.filled(TENANT, "u")
    assert isinstance(node.ask(HeartbeatRequest("classic", 1, member_id)), HeartbeatResponse)
    assert isinstance(node.beats(TENANT, "consumer", epoch=1), ConsumerGroupHeartbeatResponse)
    left = node.ask(LeaveGroupRequest("classic", (LeavingMember(member_id),)))
    assert left.members[0].error is None
    assert isinstance(node.beats(TENANT, "consumer", epoch=-1), ConsumerGroupHeartbeatResponse)
    assert node.ask(OffsetDeleteRequest("t-0", (TopicPartition("t", 1),))).partitions[0].error is None
    answer = node.ask(DeleteGroupsRequest(("classic", "consumer", "t-0", "u-0")))
    assert [one.error for one in answer.groups] == [None] * 4
    assert node.commits(TENANT, "again", 0) == [None]


def test_a_join_that_makes_a_member_larger_is_refused_and_the_same_again_is_not() -> None:
    node = Node(bytes_max=LIMIT)

    def join(size: int, ticket: int, client: Client = TENANT) -> Any:
        protocols = (JoinGroupProtocol("range", b"m" * size),)
        request = JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", protocols, "static")
        return node.ask(request, ticket, client)

    assert join(100_000, 1) is None
    node.filled(TENANT)
    assert join(100_000, 2) is None
    assert isinstance(join(200_000, 3), GroupMaxSizeReachedError)


def test_assignments_for_which_there_is_no_memory_are_refused_and_the_members_join_again() -> None:
    node = Node(bytes_max=LIMIT)
    node.client = TENANT
    member_id = node.classic_member("g")
    node.filled(TENANT)

    def synced(generation: int, size: int) -> Any:
        assigned = (MemberAssignment(member_id, b"a" * size),)
        return node.ask(SyncGroupRequest("g", generation, member_id, assignments=assigned))

    def joined(ticket: int) -> int:
        protocols = (JoinGroupProtocol("range", b"\x00\x00\x00\x00\x00\x00"),)
        node.ask(JoinGroupRequest("g", SESSION_MS, 60_000, member_id, "consumer", protocols), ticket)
        return int(node.answers[ticket].generation_id)

    assert isinstance(synced(joined(5_001), 100_000), GroupMaxSizeReachedError)
    assert isinstance(synced(joined(5_002), 8), SyncGroupResponse)


def test_a_wider_subscription_is_refused_and_the_member_goes_on_with_the_narrow_one() -> None:
    node = Node(bytes_max=LIMIT)
    node.topics._facts["wide"] = TopicFacts("id-wide".ljust(22, "A"), "wide", 5_000, [NO_RACK] * 5_000)
    assert isinstance(node.beats(TENANT, "g"), ConsumerGroupHeartbeatResponse)
    for said in ({"subscribed_topic_names": ("t", "wide")}, {"subscribed_topic_regex": "w.*"}):
        assert isinstance(node.beats(TENANT, "g", epoch=1, **said), GroupMaxSizeReachedError)
    assert isinstance(node.beats(TENANT, "g", epoch=1), ConsumerGroupHeartbeatResponse)
    assert node.held_by(TENANT) < 10_000


def test_what_a_member_was_let_in_for_is_not_refused_when_it_comes() -> None:
    """The share is nearly used up by the time that the member has its partitions."""
    node = Node(bytes_max=LIMIT)
    node.topics._facts["wide"] = TopicFacts("id-wide".ljust(22, "A"), "wide", 2_000, [NO_RACK] * 2_000)
    answer = node.beats(TENANT, "g", subscribed_topic_names=("wide",))
    assert [len(one.partitions) for one in answer.assignment] == [2_000]
    assert node.held_by(TENANT) > 2 * 2_000 * 60


def test_topics_that_grow_make_groups_larger_within_the_share_alone_and_are_read_when_there_is_room() -> None:
    node = Node(bytes_max=LIMIT)
    for number in range(20):
        assert isinstance(node.beats(TENANT, f"g-{number}"), ConsumerGroupHeartbeatResponse)
    node.topics._facts["t"] = node.topics._facts["t"]._replace(partitions=1_000, racks=[NO_RACK] * 1_000)
    turn = node.turn()
    node.shard.topics_changed(turn, frozenset({"t"}), frozenset())
    node.done(turn)
    for epoch in (1, 2, 2):
        for number in range(20):
            found = node.beats(TENANT, f"g-{number}", epoch=epoch)
            assert isinstance(found, ConsumerGroupHeartbeatResponse | ApiError)
    assert node.held_by(TENANT) <= LIMIT / 2
    assert node.commits(VICTIM, "v", 0) == [None]
    waits = [number for number in range(20) if _partitions(node, f"g-{number}") == 3]
    assert waits, "not all of them got the new partitions"
    for number in range(20):
        if number not in waits:
            node.beats(TENANT, f"g-{number}", epoch=-1)
            node.ask(DeleteGroupsRequest((f"g-{number}",)))
    node.advance(31_000)
    assert _partitions(node, f"g-{waits[0]}") == 1_000, "tried again by itself"


def _partitions(node: Node, group_id: str) -> int:
    group: Any = node.shard.groups[group_id]
    return sum(map(len, group.target_of(ONE).values()))


# -- transactions ------------------------------------------------------------------------------------------------------


def test_offsets_of_transactions_that_make_a_group_larger_count_as_committed_ones_do() -> None:
    node = Node(bytes_max=LIMIT)
    count = 0
    while node.pends(TENANT, f"t-{count}", count, 0) == [None]:
        count += 1
        assert count < MANY, "never refused"
    assert refused(node.pends(TENANT, "more", 9_999, 0)) and refused(node.commits(TENANT, "more", 0))
    for producer in range(count):
        node.end_transaction(TxnProducer(producer, 0))
    assert node.memory.lasting.held_by(NOBODY) == 0, "the tenant's, also after the ends of its transactions"
    assert node.held_by(TENANT) <= LIMIT / 2
    assert node.commits(VICTIM, "v", 0) == [None]


def test_a_transaction_cannot_put_longer_notes_in_the_place_of_short_ones_past_the_share() -> None:
    node = Node(bytes_max=LIMIT)
    node.topics = type(node.topics)("t", partitions=500)
    node.commits(TENANT, "g", *range(500))
    answers = node.pends(TENANT, "g", 7, *range(500), note="n" * 4_000)
    assert answers.count(None) < 130 and isinstance(answers[-1], GroupMaxSizeReachedError)
    node.end_transaction(TxnProducer(7, 0))
    assert node.held_by(TENANT) <= LIMIT / 2


def test_at_the_limit_transactions_commit_where_they_committed_before() -> None:
    node = Node(bytes_max=LIMIT)
    node.commits(TENANT, "g", 0, 1, 2)
    node.filled(TENANT)
    for producer in range(20):
        assert node.pends(TENANT, "g", producer, 0, 1, 2) == [None] * 3
        node.end_transaction(TxnProducer(producer, 0))
    assert node.memory.passing.used == 0


def test_what_waits_for_the_ends_of_transactions_is_bounded_and_comes_back_with_them() -> None:
    node = Node(bytes_max=LIMIT)
    node.commits(TENANT, "g", 0, 1, 2)
    producer = 0
    while node.pends(TENANT, "g", producer, 0, 1, 2) == [None] * 3:
        producer += 1
        assert producer < MANY, "never refused"
    assert producer > 100
    (error, *_) = node.pends(TENANT, "g", 9_999, 0)
    assert isinstance(error, ResourceExhaustedError) and error.retriable
    node.commits(VICTIM, "v", 0)
    assert node.pends(VICTIM, "v", 10_000, 0) == [None]
    for number in range(producer):
        node.end_transaction(TxnProducer(number, 0), is_committed=bool(number % 2))
    assert node.pends(TENANT, "g", 9_999, 0) == [None]


# -- failovers ---------------------------------------------------------------------------------------------------------


def test_after_a_failover_state_is_nobodys_until_its_party_uses_it_and_others_are_served() -> None:
    node = Node(bytes_max=LIMIT)
    count = node.filled(TENANT)
    used, held = node.memory.used, node.held_by(TENANT)
    node.reloaded()
    assert node.memory.used == used and node.held_by(TENANT) == 0
    assert node.commits(VICTIM, "v", 0) == [None]
    for number in range(count):
        assert node.commits(TENANT, f"t-{number}", 0) == [None], "it overwrites"
    assert node.held_by(TENANT) == held
    assert refused(node.commits(TENANT, "one-more", 0))


def test_a_request_that_is_refused_takes_nothing_over() -> None:
    node = Node(bytes_max=LIMIT)
    node.client = VICTIM
    node.classic_member("g")
    node.reloaded()
    assert isinstance(node.ask(HeartbeatRequest("g", 1, "nobody"), client=TENANT), ApiError)
    assert node.held_by(TENANT) == 0


def test_a_members_bytes_stay_its_partys_when_another_partys_member_leads_the_group() -> None:
    node = Node(bytes_max=LIMIT)
    large = (JoinGroupProtocol("range", b"m" * 50_000),)
    for ticket, client in enumerate((VICTIM, TENANT), 1):
        request = JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", large, f"static-{ticket}")
        assert node.ask(request, ticket, client) is None
    node.advance(10_000)
    leader, other = node.answers[1], node.answers[2]
    assert leader.leader == leader.member_id
    assigned = (MemberAssignment(other.member_id, b"a" * 500),)
    node.ask(SyncGroupRequest("g", 1, leader.member_id, "static-1", assignments=assigned), client=VICTIM)
    assert node.held_by(TENANT) > 50_000 and node.held_by(VICTIM) < 60_000


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_when_everything_is_gone_nothing_is_held(is_reloaded: bool) -> None:
    node = Node(bytes_max=LIMIT)
    node.client = TENANT
    node.commits(TENANT, "g", 0, 1, note="n" * 100)
    node.pends(TENANT, "h", 3, 0, 1)
    node.beats(TENANT, "c")
    node.classic_member("k")
    node.end_transaction(TxnProducer(3, 0))
    if is_reloaded:
        node.reloaded()
    node.advance(120_000)
    node.ask(DeleteGroupsRequest(("g", "h", "c", "k")))
    assert node.memory.used == 0 and node.shard.statistics().bytes == 0


# -- groups of both protocols, and patterns ----------------------------------------------------------------------------


def classic_join(group_id: str, member_id: str = "") -> JoinGroupRequest:
    protocols = (JoinGroupProtocol("range", b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"),)
    return JoinGroupRequest(
        group_id, SESSION_MS, 60_000, member_id, "consumer", protocols, requires_known_member_id=False
    )


def test_a_classic_member_that_joins_a_consumer_group_is_refused_at_the_limit_and_served_below_it() -> None:
    node = Node(bytes_max=LIMIT)
    node.beats(TENANT, "g")
    node.filled(TENANT)
    assert isinstance(node.ask(classic_join("g"), client=TENANT), GroupMaxSizeReachedError)
    joined = node.ask(classic_join("g"), client=VICTIM)
    assert joined.error is None and node.held_by(VICTIM) > 2_000


def test_a_group_that_goes_back_to_the_classic_protocol_by_a_time_out_stays_its_partys() -> None:
    node = Node(bytes_max=LIMIT)
    node.beats(TENANT, "g")
    joined = node.ask(classic_join("g"), client=TENANT)
    for _ in range(20):  # the member of the consumer protocol is not heard any more
        node.advance(5_000)
        node.ask(HeartbeatRequest("g", joined.generation_id, joined.member_id), client=TENANT)
        if type(node.shard.groups["g"]).__name__ == "ClassicGroup":
            break
    assert type(node.shard.groups["g"]).__name__ == "ClassicGroup"
    assert node.memory.lasting.held_by(NOBODY) == 0 < node.held_by(TENANT) == node.memory.used


def test_a_pattern_that_comes_to_stand_for_more_topics_grows_within_the_share_alone() -> None:
    node = Node(bytes_max=LIMIT)
    for number in range(10):
        assert isinstance(
            node.beats(TENANT, f"g-{number}", subscribed_topic_names=None, subscribed_topic_regex="x.*"),
            ConsumerGroupHeartbeatResponse,
        )
    came = {f"x{'y' * 200}{number}" for number in range(250)}
    for name in came:
        node.topics._facts[name] = TopicFacts(f"id-{name[-4:]}".ljust(22, "A"), name, 0, [])
    turn = node.turn()
    node.shard.topics_changed(turn, frozenset(came), frozenset())
    node.done(turn)
    for number in range(10):
        node.beats(TENANT, f"g-{number}", epoch=1, subscribed_topic_names=None)
    groups: list[Any] = [node.shard.groups[f"g-{number}"] for number in range(10)]
    read = [bool(group.regexes["x.*"].topics) for group in groups]
    assert True in read and False in read and node.held_by(TENANT) <= LIMIT / 2
    assert node.commits(VICTIM, "v", 0) == [None]


@pytest.mark.parametrize("kind", ["client id", "instance", "many protocols", "many names", "letters of four bytes"])
def test_whatever_a_member_or_a_commit_says_is_counted(kind: str) -> None:
    """Each of these makes a member or a group large, and is chosen by its client."""
    node, client = Node(bytes_max=LIMIT), TENANT
    protocols = (JoinGroupProtocol("range", b""),)
    instance = None
    if kind == "client id":
        client = TENANT._replace(client_id="c" * 50_000)
    elif kind == "instance":
        instance = "i" * 50_000
    elif kind == "many protocols":
        protocols = tuple(JoinGroupProtocol(f"p-{number}", b"") for number in range(500))
    for number in range(20):
        if kind == "many names":
            names = tuple(f"{number}" for number in range(600))
            answer = node.beats(client, f"g-{number}", subscribed_topic_names=names)
        elif kind == "letters of four bytes":
            answer = node.commits(client, f"g-{number}", *range(3), note="\N{SNOWMAN}" + "n" * 4_000)[0]
            answer = answer or node.commits(client, f"h-{number}", *range(3), note="\N{SNOWMAN}" + "n" * 4_000)[2]
        else:
            request = JoinGroupRequest(
                f"g-{number}", SESSION_MS, 60_000, "", "consumer", protocols, instance, requires_known_member_id=False
            )
            answer = node.ask(request, 9_000 + number, client)
    assert isinstance(answer, GroupMaxSizeReachedError)
    assert LIMIT * 0.3 < node.held_by(client) <= LIMIT / 2


def test_a_load_counts_what_the_decisions_counted() -> None:
    """Seeded: commits, transactions, their ends and deletions at random; then the log is loaded again."""
    for seed in range(12):
        rng, node = random.Random(seed), Node(bytes_max=1 << 30)
        epochs = dict.fromkeys(range(4), 0)
        for _ in range(120):
            client, group_id = rng.choice((TENANT, VICTIM)), rng.choice("ghi")
            partitions, note = rng.sample(range(3), rng.randint(1, 3)), "n" * rng.choice((0, 0, 10, 300))
            match rng.randint(0, 9):
                case 0 | 1 | 2 | 3:
                    node.commits(client, group_id, *partitions, note=note)
                case 4 | 5 | 6:
                    producer = rng.randrange(4)
                    places = tuple(
                        OffsetCommitPartition(TopicPartition("t", one), 6, metadata=note) for one in partitions
                    )
                    node.ask(TxnOffsetCommitRequest("tx", group_id, producer, epochs[producer], places), client=client)
                case 7 | 8:
                    producer = rng.randrange(4)
                    node.end_transaction(TxnProducer(producer, epochs[producer]), is_committed=rng.random() < 0.7)
                    epochs[producer] += 1
                case _:
                    node.ask(DeleteGroupsRequest((group_id,)))
        used = node.memory.lasting.used, node.memory.passing.used
        parties = (TENANT.party, VICTIM.party, NOBODY)
        assert sum(node.memory.lasting.held_by(party) for party in parties) == used[0], seed
        node.reloaded()
        assert (node.memory.lasting.used, node.memory.passing.used) == used, seed
