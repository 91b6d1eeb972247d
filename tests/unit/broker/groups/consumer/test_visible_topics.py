"""A pattern stands for topics alone that all who subscribe by it may describe, and follows their rights."""

from __future__ import annotations

import pytest

from broker.network.request_ports import Visibility
from penstock.errors import TopicAuthorizationFailedError
from penstock.messages.groups.classic_protocol import SyncGroupRequest
from penstock.wire.consumer_protocol import decode_assignment
from tests.support.classic_consumer import ClassicConsumer
from tests.support.consumer_groups import CLIENT, ConsumerHere, ConsumerShard, ManyTopicsHere, TopicsHere, settle


class Rights:
    """The topics that principals may describe."""

    def __init__(self, **of: str) -> None:
        self._version: object = object()
        self.of = {principal: set(topics.split()) for principal, topics in of.items()}
        self.asked: list[str] = []

    def now(self, **of: str) -> None:
        """Others than before."""
        self._version = object()
        self.of |= {principal: set(topics.split()) for principal, topics in of.items()}

    def visibility(self, principal: str) -> Visibility:
        sees, version = frozenset(self.of[principal]), self._version

        def may(topic: str) -> bool:
            self.asked.append(topic)
            return topic in sees

        return Visibility(principal, version, may)


def member(here: ConsumerShard, rights: Rights, principal: str, member_id: str, pattern: str = "a.*") -> ConsumerHere:
    made = ConsumerHere(here, member_id, subscribed_topic_regex=pattern)
    as_of(made, rights, principal)
    return made


def as_of(one: ConsumerHere, rights: Rights, principal: str) -> None:
    """Its next heartbeats come with the rights of now."""
    one.client = CLIENT._replace(visibility=rights.visibility(principal))


def topics_of(here: ConsumerShard, *members: ConsumerHere) -> set[str]:
    names = {facts.topic_id: name for name, facts in here.topics.facts.items()}
    return {names[topic_id] for one in members for topic_id, _ in one.partitions}


def test_a_pattern_does_not_tell_of_hidden_topics_at_any_time() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=1, a2=1)), Rights(anna="a1")
    one = member(here, rights, "anna", "m")
    one.beat()
    settle(one)
    assert topics_of(here, one) == {"a1"} and here.group().regexes["a.*"].topics == {"a1"}
    epoch, written = one.epoch, len(here.log)
    here.topics.add("a3", 1)
    here.topics_changed("a3")
    one.beat()
    del here.topics.facts["a2"]
    here.topics_changed("a2")
    one.beat()
    assert one.epoch == epoch and len(here.log) == written, "the epoch would tell that a topic came or went"


def test_a_right_that_comes_later_brings_the_topic_with_the_next_heartbeat() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=1, a2=1)), Rights(anna="a1")
    one = member(here, rights, "anna", "m")
    settle(one)
    rights.now(anna="a1 a2")
    as_of(one, rights, "anna")
    one.beat()
    assert topics_of(here, one) == {"a1", "a2"}
    rights.now(anna="a2")
    as_of(one, rights, "anna")
    settle(one)
    assert topics_of(here, one) == {"a2"}


def test_nothing_is_looked_at_again_while_rights_and_topics_stay() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=1, a2=1)), Rights(anna="a1 a2")
    one, other = member(here, rights, "anna", "m"), member(here, rights, "anna", "n")
    settle(one, other)
    rights.asked.clear()
    late = member(here, rights, "anna", "o")
    for each in (one, other, late):
        each.beat()
        as_of(each, rights, "anna")
        each.beat()
    assert rights.asked == []
    rights.now()
    for each in (one, other, late):
        as_of(each, rights, "anna")
        each.beat()
    assert sorted(rights.asked) == ["a1", "a2"], "once for the principal, not for each of its members"


def test_whoever_joins_with_fewer_rights_is_told_of_no_more_by_the_others() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=2, a2=2, a3=2)), Rights(anna="a1 a2", bert="a2 a3")
    anna = member(here, rights, "anna", "m")
    settle(anna)
    assert topics_of(here, anna) == {"a1", "a2"}
    bert = member(here, rights, "bert", "n")
    bert.beat()
    settle(anna, bert)
    assert topics_of(here, anna, bert) == {"a2"} and topics_of(here, bert) == {"a2"}
    here.topics.add("a4", 1)
    here.topics_changed("a4")
    settle(anna, bert)
    assert topics_of(here, anna, bert) == {"a2"}
    anna.leave()
    settle(bert)
    assert topics_of(here, bert) == {"a2", "a3"}


def test_patterns_of_one_group_are_judged_each_by_its_own_members() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=1, b1=1)), Rights(anna="a1", bert="b1")
    anna, bert = member(here, rights, "anna", "m", "a.*"), member(here, rights, "bert", "n", "b.*")
    settle(anna, bert)
    assert (topics_of(here, anna), topics_of(here, bert)) == ({"a1"}, {"b1"})


def test_a_member_that_changes_its_pattern_leaves_the_old_one_to_the_others() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=1, a2=1, b1=1)), Rights(anna="a1 a2", bert="a1 b1")
    anna, bert = member(here, rights, "anna", "m"), member(here, rights, "bert", "n")
    settle(anna, bert)
    assert topics_of(here, anna, bert) == {"a1"}
    bert.fields["subscribed_topic_regex"] = "b.*"
    bert.beat(subscribed_topic_regex="b.*")
    settle(anna, bert)
    assert (topics_of(here, anna), topics_of(here, bert)) == ({"a1", "a2"}, {"b1"})


def test_after_a_load_a_pattern_gets_no_topic_before_all_its_members_were_heard() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=2)), Rights(anna="a1 a2", bert="a1")
    anna, bert = member(here, rights, "anna", "m"), member(here, rights, "bert", "n")
    settle(anna, bert)
    here.topics.add("a2", 2)
    here.reload()
    for _ in range(3):
        anna.beat()
    assert topics_of(here, anna) == {"a1"} and here.group().regexes["a.*"].topics == {"a1"}
    rights.now(bert="a1 a2")
    as_of(bert, rights, "bert")
    settle(anna, bert)
    assert topics_of(here, anna, bert) == {"a1", "a2"}, "nobody waits for another change"


def test_after_a_load_a_member_that_never_comes_again_holds_nothing_up() -> None:
    here, rights = ConsumerShard(TopicsHere(a1=1)), Rights(anna="a1 a2", bert="a1")
    anna, bert = member(here, rights, "anna", "m"), member(here, rights, "bert", "n")
    settle(anna, bert)
    here.topics.add("a2", 1)
    here.reload()
    anna.beat()
    bert.leave()
    settle(anna)
    assert topics_of(here, anna) == {"a1", "a2"}


def test_a_group_without_an_authorizer_keeps_nothing_of_rights() -> None:
    here = ConsumerShard(TopicsHere(a1=1))
    one = ConsumerHere(here, "m", subscribed_topic_regex="a.*")
    settle(one)
    visible_topics = here.group().visible_topics
    assert (
        not visible_topics.principals
        and visible_topics.unheard is None
        and not visible_topics._of
        and not visible_topics._resolved
    )


def test_a_member_that_may_not_describe_a_topic_any_more_is_refused_and_told_nothing_of_it() -> None:
    here, rights = ConsumerShard(TopicsHere(a=1, b=1)), Rights(anna="a b", bert="a b")
    anna, bert = ConsumerHere(here, "m", "a", "b"), ConsumerHere(here, "n", "a", "b")
    for one, principal in ((anna, "anna"), (bert, "bert")):
        as_of(one, rights, principal)
    settle(anna, bert)
    rights.now(anna="a")
    as_of(anna, rights, "anna")
    as_of(bert, rights, "bert")
    here.topics.add("b", 5)
    here.topics_changed("b")
    with pytest.raises(TopicAuthorizationFailedError, match="'b'"):
        anna.beat()
    bert.beat()
    rights.now(anna="a b")
    as_of(anna, rights, "anna")
    settle(anna, bert)
    assert topics_of(here, anna, bert) == {"a", "b"}


def test_names_are_judged_again_only_when_rights_have_changed() -> None:
    here, rights = ConsumerShard(TopicsHere(a=1)), Rights(anna="a")
    one = ConsumerHere(here, "m", "a")
    as_of(one, rights, "anna")
    settle(one)
    assert rights.asked == ["a"]
    rights.now()
    as_of(one, rights, "anna")
    one.beat()
    one.beat()
    assert rights.asked == ["a", "a"]


@pytest.mark.parametrize("name", ["hidden", "missing"])
def test_a_classic_member_is_assigned_nothing_of_a_topic_that_it_may_not_describe(name: str) -> None:
    """Its coordinator assigns: a name of its subscription would be answered with the topic's partitions."""
    here, rights = ConsumerShard(TopicsHere(a=1, hidden=3)), Rights(mallory="a")
    client = CLIENT._replace(visibility=rights.visibility("mallory"))
    new = ConsumerHere(here, "B", "a")
    as_of(new, rights, "mallory")
    new.beat()
    epoch = here.group().epoch
    old = ClassicConsumer(here, name)
    old.owned = frozenset([(name, 0)])
    joined = here.send(old.join_request(member_id="of its own"), client)
    assert joined.error is None and joined.generation_id == here.group().epoch == epoch + 1
    assert here.group().members["of its own"].names == frozenset()
    synced = here.send(SyncGroupRequest("g", joined.generation_id, "of its own"), client)
    assert decode_assignment(synced.assignment).assigned_partitions == []


def test_a_classic_member_is_not_told_of_what_it_was_assigned_before_its_right_went() -> None:
    here, rights = ConsumerShard(TopicsHere(a=1, b=1)), Rights(anna="a b")
    new, old = ConsumerHere(here, "B", "a"), ClassicConsumer(here, "a", "b")
    as_of(new, rights, "anna")
    new.beat()
    joined = here.send(old.join_request(member_id="m"), CLIENT._replace(visibility=rights.visibility("anna")))
    sync = SyncGroupRequest("g", joined.generation_id, "m")
    for now, visible in (("a b", ["b"]), ("a", [])):
        rights.now(anna=now)
        answer = here.send(sync, CLIENT._replace(visibility=rights.visibility("anna")))
        names = [row.topic for row in decode_assignment(answer.assignment).assigned_partitions]
        assert [name for name in names if name == "b"] == visible


def test_patterns_that_wait_for_their_turn_are_not_begun_anew_by_each_heartbeat() -> None:
    here, rights = ConsumerShard(ManyTopicsHere(a1=1, a2=1, a3=1, b1=1)), Rights(anna="a1 a2 b1")
    patterns = ["a.*", "(a|c).*", "(a|d).*", "(a|b).*"]
    members = [member(here, rights, "anna", f"m{n}", pattern) for n, pattern in enumerate(patterns)]
    settle(*members)
    here.pass_time(10_000)
    rights.now(anna="a1 a3 b1")
    for one in members:
        as_of(one, rights, "anna")
    members[0].beat()
    assert len(here.group().unresolved) == 2
    rights.asked.clear()
    for one in members[2:]:
        one.beat()
    assert rights.asked == [] and len(here.group().unresolved) == 2
    here.pass_time(10_000)
    settle(*members)
    here.pass_time(10_000)
    settle(*members)
    assert topics_of(here, *members) == {"a1", "a3", "b1"} and not here.group().unresolved
