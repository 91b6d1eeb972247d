"""Groups that move between the protocols, and classic members in consumer groups: as Kafka 4.3.1 answered."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.classic.group import ClassicGroup
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import MemberState
from broker.groups.records.classic_records import GroupMetadataKey
from penstock.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupProtocol,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from penstock.messages.groups.listing import GroupType
from penstock.wire.consumer_protocol import decode_assignment
from tests.support.classic_consumer import SESSION_MS, ClassicConsumer
from tests.support.consumer_groups import REBALANCE_MS, ConsumerHere, ConsumerShard, TopicsHere


def upgraded(**config: Any) -> tuple[ConsumerShard, ClassicConsumer, ConsumerHere]:
    """A classic member with all four partitions, and one of the consumer protocol that has just joined."""
    here = ConsumerShard(TopicsHere(t=4), **config)
    old, new = ClassicConsumer(here, "t"), ConsumerHere(here, "B", "t")
    old.join()
    assert len(old.owned) == 4 and old.generation == 1
    new.beat()
    return here, old, new


def go_on(*members: ClassicConsumer | ConsumerHere, rounds: int = 8) -> None:
    for _ in range(rounds):
        for member in members:
            member.step() if isinstance(member, ClassicConsumer) else member.beat()


def test_a_classic_group_is_upgraded_and_its_members_give_up_what_others_get() -> None:
    here, old, new = upgraded()
    group = here.groups["g"]
    assert isinstance(group, ConsumerGroup) and group.epoch == 2
    assert new.epoch == 2 and not new.partitions
    with pytest.raises(RebalanceInProgressError):
        here.send(HeartbeatRequest("g", 1, old.member_id))
    answer = here.send(old.join_request())
    assert (answer.generation_id, answer.leader, answer.members) == (1, "", ())
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert group.members[old.member_id].state is MemberState.UNREVOKED_PARTITIONS
    with pytest.raises(RebalanceInProgressError):
        here.send(HeartbeatRequest("g", 1, old.member_id))
    assigned = decode_assignment(here.send(SyncGroupRequest("g", 1, old.member_id)).assignment).assigned_partitions
    assert len(assigned[0].partitions) == 2
    new.beat()
    assert not new.partitions, "the classic member has not said yet that it gave up"
    old.owned = frozenset(("t", partition) for partition in assigned[0].partitions)
    assert here.send(old.join_request()).generation_id == 2
    here.send(HeartbeatRequest("g", 2, old.member_id))
    new.beat()
    assert len(new.partitions) == 2 and group.state == "Stable"
    described = here.core.kinds[ConsumerGroup].described(here.turn(), group)
    assert {one.member_type for one in described.members} == {GroupType.CLASSIC, GroupType.CONSUMER}


@pytest.mark.parametrize("eager", [False, True])
def test_both_protocols_share_a_group_until_the_last_new_member_is_gone(eager: bool) -> None:
    here = ConsumerShard(TopicsHere(t=6))
    old, older, new = ClassicConsumer(here, "t", eager=eager), ClassicConsumer(here, "t"), ConsumerHere(here, "B", "t")
    go_on(old, older)
    assert isinstance(here.groups["g"], ClassicGroup)
    assert len(old.owned) == len(older.owned) == 3
    go_on(old, older, new)
    assert here.group().state == "Stable"
    assert len(old.owned) == len(older.owned) == len(new.partitions) == 2
    generation = old.generation
    new.leave()
    group = here.groups["g"]
    assert isinstance(group, ClassicGroup) and group.generation == generation
    with pytest.raises(RebalanceInProgressError):
        here.send(HeartbeatRequest("g", generation, old.member_id))
    with pytest.raises(RebalanceInProgressError):
        here.send(SyncGroupRequest("g", generation, old.member_id))
    with pytest.raises(IllegalGenerationError):
        here.send(HeartbeatRequest("g", generation + 1, old.member_id))
    go_on(old, older)
    assert old.generation > generation
    assert len(old.owned) == len(older.owned) == 3


def test_a_coordinator_that_loads_a_downgraded_group_makes_its_members_join_again() -> None:
    """Nobody else would: each of them has its generation and its assignment, and that is no longer everything."""
    here, old, new = upgraded()
    go_on(old, new)
    assert len(old.owned) == 2
    new.leave()
    here.reload()
    go_on(old)
    assert len(old.owned) == 4
    here.reload()
    generation = old.generation
    go_on(old)
    assert old.generation == generation, "a group that was assigned since goes on"


def test_a_group_that_is_downgraded_and_upgraded_again_gives_away_nothing_that_is_held() -> None:
    here, old, new = upgraded()
    old.step()  # told to give up, and has not said that it did
    new.leave()
    assert isinstance(here.groups["g"], ClassicGroup)
    again = ConsumerHere(here, "C", "t")
    again.beat()
    again.beat()
    owned = {(here.topics.facts[name].topic_id, partition) for name, partition in old.owned}
    assert owned.isdisjoint(again.partitions)
    go_on(old, again)
    assert len(old.owned) == len(again.partitions) == 2


@pytest.mark.parametrize("policy, up, down", [("disabled", 0, 0), ("upgrade", 1, 0), ("downgrade", 0, 1)])
def test_the_policy_says_which_way_groups_move(policy: str, up: bool, down: bool) -> None:
    here = ConsumerShard(TopicsHere(t=4), group_consumer_migration_policy=policy)
    old, new = ClassicConsumer(here, "t"), ConsumerHere(here, "B", "t")
    old.join()
    if up:
        new.beat()
    else:
        with pytest.raises(GroupIdNotFoundError, match="does not let it"):
            new.beat()
        old.leave()
        new.beat()
        old = ClassicConsumer(here, "t")
    go_on(old, new)
    assert len(old.owned) == len(new.partitions) == 2
    new.leave()
    assert isinstance(here.groups["g"], ClassicGroup) == down
    go_on(old)
    assert len(old.owned) == 4


def test_a_group_without_members_changes_hands_whatever_the_policy_is() -> None:
    here = ConsumerShard(TopicsHere(t=4), group_consumer_migration_policy="disabled")
    old, new = ClassicConsumer(here, "t"), ConsumerHere(here, "B", "t")
    for _ in range(2):
        old.join()
        assert isinstance(here.groups["g"], ClassicGroup) and len(old.owned) == 4
        old.leave()
        new.beat()
        assert isinstance(here.groups["g"], ConsumerGroup) and len(new.partitions) == 4
        new.leave()
    before = here.groups["g"]
    here.reload()
    assert here.groups["g"] == before
    assert here.read(here.compacted())["g"] == before


def test_groups_that_are_none_of_consumers_are_not_upgraded() -> None:
    for type_, metadata, text in (("connect", b"zz", "no consumers of topics"), ("consumer", b"zz", "cannot be read")):
        here = ConsumerShard(TopicsHere(t=4))
        old = ClassicConsumer(here, "t")
        protocols = (JoinGroupProtocol("p", metadata),)
        here.ask(old.join_request(protocol_type=type_, protocols=protocols, requires_known_member_id=False))
        with pytest.raises(GroupIdNotFoundError, match=text):
            ConsumerHere(here, "B", "t").beat()
        assert isinstance(here.groups["g"], ClassicGroup)


def test_an_upgrade_answers_those_who_wait_and_takes_over_their_sessions() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    old, late = ClassicConsumer(here, "t"), ClassicConsumer(here, "t")
    old.join()
    late.join()
    assert late.joins is not None
    ConsumerHere(here, "B", "t").beat()
    assert isinstance(here.answers[late.joins], RebalanceInProgressError)
    here.pass_time(SESSION_MS)
    assert not isinstance(here.groups.get("g"), ConsumerGroup) or not here.groups["g"].members


def test_classic_requests_that_a_consumer_group_refuses() -> None:
    here, old, new = upgraded()
    go_on(old, new)
    for request, error in (
        (HeartbeatRequest("g", 1, old.member_id), IllegalGenerationError),
        (HeartbeatRequest("g", 2, "nobody"), UnknownMemberIdError),
        (HeartbeatRequest("g", 2, "B"), UnknownMemberIdError),
        (HeartbeatRequest("g", 2, old.member_id, "i"), UnknownMemberIdError),
        (SyncGroupRequest("g", 9, old.member_id), IllegalGenerationError),
        (SyncGroupRequest("g", 2, old.member_id, protocol_name="other"), InconsistentGroupProtocolError),
        (SyncGroupRequest("g", 2, old.member_id, protocol_type="connect"), InconsistentGroupProtocolError),
        (SyncGroupRequest("g", 2, "B"), UnknownMemberIdError),
        (old.join_request(session_timeout_ms=1), InvalidSessionTimeoutError),
        (old.join_request(member_id="", protocol_type="connect"), InconsistentGroupProtocolError),
        (old.join_request(member_id="", protocols=()), InconsistentGroupProtocolError),
        (
            old.join_request(member_id="", protocols=(JoinGroupProtocol("other", old.metadata()),)),
            InconsistentGroupProtocolError,
        ),
        (
            old.join_request(member_id="", protocols=(JoinGroupProtocol("range", b"zz"),)),
            InconsistentGroupProtocolError,
        ),
    ):
        with pytest.raises(error):
            here.send(request)
    assert here.send(old.join_request(member_id="")).error.kafka_name == "MEMBER_ID_REQUIRED"
    assert here.send(old.join_request(member_id="", requires_known_member_id=False)).generation_id == 3


def test_leaving_members_may_be_of_either_protocol() -> None:
    here, old, _new = upgraded()
    third = ConsumerHere(here, "C", "t", instance_id="i")
    third.beat()
    leaving = (
        LeavingMember(old.member_id),
        LeavingMember("nobody"),
        LeavingMember("", "i"),
        LeavingMember("", "j"),
        LeavingMember("B", "i"),
    )
    answer = here.send(LeaveGroupRequest("g", leaving))
    assert [one.error and one.error.kafka_name for one in answer.members] == [
        None,
        "UNKNOWN_MEMBER_ID",
        None,
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
    ]
    assert list(here.group().members) == ["B"]


def test_a_static_member_changes_its_protocol_in_both_ways() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    old, other = ClassicConsumer(here, "t", instance_id="i"), ConsumerHere(here, "B", "t")
    old.join()
    other.beat()
    new = ConsumerHere(here, "A2", "t", instance_id="i")
    new.beat()
    assert len(new.partitions) == 2, "it goes on from the classic member's place"
    with pytest.raises(FencedInstanceIdError):
        here.send(old.join_request())
    go_on(new, other)
    back = ClassicConsumer(here, "t", instance_id="i")
    back.join()
    assert len(back.owned) == 2
    with pytest.raises(FencedInstanceIdError):
        new.beat()
    last = ClassicConsumer(here, "t")
    other.leave()
    assert isinstance(here.groups["g"], ClassicGroup)
    go_on(back, last)
    assert len(back.owned) == len(last.owned) == 2


def test_the_last_new_member_may_be_replaced_by_a_classic_one() -> None:
    here = ConsumerShard(TopicsHere(t=4))
    new, old = ConsumerHere(here, "A", "t", instance_id="i"), ClassicConsumer(here, "t")
    new.beat()
    go_on(new, old)
    back = ClassicConsumer(here, "t", instance_id="i")
    back.join()
    assert isinstance(here.groups["g"], ClassicGroup)
    go_on(back, old)
    assert len(back.owned) == len(old.owned) == 2


def test_a_classic_member_has_its_own_session_and_the_rebalance_timeout_for_each_step() -> None:
    here, old, new = upgraded()
    go_on(old, new)
    for _ in range(3):
        here.pass_time(20_000)
        old.step()
        new.beat()
    here.pass_time(30_000)
    new.beat()
    here.pass_time(15_000)
    assert list(here.groups["g"].members) == ["B"], "it was silent for its session's time"
    old.step()
    assert old.generation < 0
    old.step()
    go_on(old, new)
    here.topics.grow("t", 6)
    here.topics_changed("t")
    for _ in range(REBALANCE_MS // 20_000):
        with pytest.raises(RebalanceInProgressError):
            here.send(HeartbeatRequest("g", old.generation, old.member_id))
        new.beat()
        here.pass_time(20_000)
    assert list(here.groups["g"].members) == ["B"], "it was told to join, and did not"


def test_a_downgrade_too_large_for_one_record_is_not_done() -> None:
    here = ConsumerShard(TopicsHere(t=40), record_bytes_max=1_500)
    olds = [ClassicConsumer(here, "t") for _ in range(24)]
    new = ConsumerHere(here, "B", "t")
    new.beat()
    go_on(*olds, new)
    new.leave()
    assert isinstance(here.groups["g"], ConsumerGroup)
    go_on(*olds)
    assert sum(len(one.owned) for one in olds) == 40
    assert not any(isinstance(key, GroupMetadataKey) for key, _ in here.decoded())
