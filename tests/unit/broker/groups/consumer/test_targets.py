"""The targets of groups: which assignor, when a new epoch, and how often a large one is computed."""

from __future__ import annotations

from broker.groups.consumer.group import ConsumerGroup
from tests.support.consumer_groups import ConsumerHere, ConsumerShard, TopicsHere, settle


def test_most_members_choose_the_assignor_and_the_first_allowed_one_is_the_default() -> None:
    here = ConsumerShard(TopicsHere(t=6, u=6))
    members = [ConsumerHere(here, f"m{number}", "t", "u") for number in range(3)]
    for member in members:
        member.beat()
    described = here.core.kinds[ConsumerGroup].described(here.turn(), here.group())
    assert described.protocol_name == "uniform"
    epoch = here.group().epoch
    members[0].beat(server_assignor="range")
    members[1].beat(server_assignor="range")
    assert here.group().epoch == epoch + 2, "an assignor that a member asks for is looked at"
    settle(*members)
    assert here.core.kinds[ConsumerGroup].described(here.turn(), here.group()).protocol_name == "range"
    ids = sorted(facts.topic_id for facts in here.topics.facts.values())
    assert sorted(sorted(member.partitions) for member in members) == [
        [(topic_id, partition) for topic_id in ids for partition in (first, first + 1)] for first in (0, 2, 4)
    ]


def test_a_node_may_allow_other_assignors() -> None:
    here = ConsumerShard(TopicsHere(t=6), group_consumer_assignors=("range",))
    ConsumerHere(here, "a", "t").beat()
    assert here.core.kinds[ConsumerGroup].described(here.turn(), here.group()).protocol_name == "range"


def test_a_large_target_is_not_computed_with_every_join() -> None:
    here = ConsumerShard(TopicsHere(t=9_000))
    members = [ConsumerHere(here, f"m{number}", "t") for number in range(4)]
    members[0].beat()
    assert len(members[0].partitions) == 9_000, "the first one is computed at once"
    for member in members[1:]:
        assert member.beat().member_epoch == 1, "it joins, and has nothing yet"
    assert here.group().state == "Assigning"
    here.pass_time(100)
    assert here.group().epoch == here.group().assignment_epoch == 4
    settle(*members)
    assert {len(member.partitions) for member in members} == {2_250}
    here.pass_time(1_000)
    members[0].leave()
    members[1].beat()
    assert here.group().state == "Reconciling", "the last one is long ago"


def test_racks_of_replicas_and_of_members_make_a_new_target() -> None:
    here = ConsumerShard(TopicsHere())
    here.topics.add("t", 2, [frozenset({"x"}), frozenset({"y"})])
    first, second = (ConsumerHere(here, one, "t", rack_id=one) for one in ("y", "x"))
    first.beat()
    second.beat()
    epoch = here.group().epoch
    facts = here.topics.facts["t"]
    here.topics.facts["t"] = facts._replace(racks=[frozenset({"y"}), frozenset({"x"})])
    here.topics_changed("t")
    first.beat()
    assert here.group().epoch == epoch + 1
    first.beat(rack_id="x")
    assert here.group().epoch == epoch + 2
