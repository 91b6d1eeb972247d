"""Subscriptions by pattern: RE2, whole names, followed as topics come and go, and bounded whatever a client writes."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import pytest

from broker.coordination.regex import matching
from broker.groups.consumer import group_epochs
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import MATCHES_MAX, MATCHES_PER_MS
from broker.groups.records.consumer_records import ConsumerGroupRegularExpressionKey
from metadata.internal_topics import INTERNAL_TOPICS
from metadata.patterns import PROGRAM_SIZE_MAX
from penstock.errors import InvalidRegularExpressionError, InvalidRequestError
from penstock.topic_names import INTERNAL_NAMES
from tests.support.consumer_groups import ConsumerHere, ConsumerShard, ManyTopicsHere, TopicsHere, settle


def by_pattern(here: ConsumerShard, member_id: str, pattern: str) -> ConsumerHere:
    return ConsumerHere(here, member_id, subscribed_topic_regex=pattern)


def topics_of(here: ConsumerShard, member: ConsumerHere) -> set[str]:
    names = {facts.topic_id: name for name, facts in here.topics.facts.items()}
    return {names[topic_id] for topic_id, _ in member.partitions}


def test_a_pattern_means_whole_names() -> None:
    assert matching("a.*|b", ["a", "ab", "b", "bc", "cab"]) == {"a", "ab", "b"}
    assert matching("", ["a"]) == set()


def test_no_pattern_means_a_topic_of_the_clusters_own() -> None:
    assert matching(".*", ["clicks", "__clicks", *INTERNAL_TOPICS]) == {"clicks", "__clicks"}
    assert INTERNAL_TOPICS.keys() == INTERNAL_NAMES


def test_a_pattern_is_resolved_with_the_join_and_follows_topics() -> None:
    here = ConsumerShard(TopicsHere(orders_eu=2, orders_us=2, other=2))
    member = by_pattern(here, "a", "orders_.*")
    member.beat()
    assert topics_of(here, member) == {"orders_eu", "orders_us"}
    here.topics.add("orders_jp", 1)
    here.topics_changed("orders_jp")
    del here.topics.facts["orders_eu"]
    here.topics_changed("orders_eu")
    settle(member)
    assert topics_of(here, member) == {"orders_us", "orders_jp"}
    here.topics.add("strange", 1)
    written = len(here.log)
    here.topics_changed("strange")
    member.beat()
    assert len(here.log) == written


def test_what_changed_while_no_coordinator_looked_is_found_after_a_load() -> None:
    here = ConsumerShard(TopicsHere(a1=1))
    member = by_pattern(here, "a", "a.")
    member.beat()
    here.topics.add("a2", 1)
    here.reload()
    settle(member)
    assert topics_of(here, member) == {"a1", "a2"}


def test_names_and_a_pattern_add_up_and_a_pattern_nobody_has_is_dropped() -> None:
    here = ConsumerShard(TopicsHere(a1=1, a2=1, b=1))
    member = ConsumerHere(here, "a", "b", subscribed_topic_regex="a.")
    member.beat()
    assert topics_of(here, member) == {"a1", "a2", "b"}
    assert here.group().is_subscribed("a1") and here.group().is_subscribed("b")
    member.fields["subscribed_topic_regex"] = ""
    member.beat(subscribed_topic_regex="")
    settle(member)
    assert topics_of(here, member) == {"b"}
    assert here.group().regexes == {} and not here.group().is_subscribed("a1")
    tombstones = [key for key, value in here.decoded() if value is None]
    assert ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.") in tombstones


def test_members_with_one_pattern_share_what_it_stands_for() -> None:
    here = ConsumerShard(TopicsHere(a1=2, a2=2))
    first, second = by_pattern(here, "x", "a."), by_pattern(here, "y", "a.")
    first.beat()
    second.beat()
    settle(first, second)
    assert len(first.partitions) == len(second.partitions) == 2
    first.leave()
    assert list(here.group().regexes) == ["a."]
    second.leave()
    assert here.group().regexes == {}


def test_a_pattern_that_means_more_than_a_record_holds_is_refused() -> None:
    here = ConsumerShard(TopicsHere(**{f"t{number:0200d}": 1 for number in range(6)}), record_bytes_max=1_700)
    with pytest.raises(InvalidRequestError, match="fit into no record"):
        by_pattern(here, "a", "t.*").beat()
    assert not here.log


@pytest.mark.parametrize(
    "pattern", ["(a|b)*a(a|b){12}", "(a*)*b", "(.*a){20}", "[a-z]{1,30}[a-z]{1,30}x", "(?:a?){300}a{300}"]
)
def test_a_hostile_pattern_takes_time_linear_in_the_names(pattern: str) -> None:
    """In the mean well below a tenth of a millisecond a name; a backtracking engine would not come back."""
    names = ["ab" * 120 + str(number) for number in range(300)]
    began = process_time()
    try:
        matching(pattern, names)
    except InvalidRegularExpressionError:
        return
    assert process_time() - began < 3, "the largest program that is let in took too long"


def test_a_pattern_has_a_size_at_most() -> None:
    with pytest.raises(InvalidRegularExpressionError, match="too large"):
        matching(f"(?:abcdefghij){{{PROGRAM_SIZE_MAX // 10}}}abc", ["a"])
    with pytest.raises(InvalidRegularExpressionError, match="1000 at most"):
        matching("a|" * 600, ["a"])


def test_after_a_load_many_patterns_are_matched_with_every_name_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group of 1,000 patterns beside 50,000 topics stopped its coordinator for a minute, and then the next one."""
    looked_at: list[str] = []

    def counted(pattern: str, names: Sequence[str]) -> frozenset[str]:
        looked_at.append(pattern)
        return matching(pattern, names)

    monkeypatch.setattr(group_epochs, "matching", counted)
    here = ConsumerShard(ManyTopicsHere(a1=1, a2=1))
    members = [by_pattern(here, f"m{number}", f"(a|b{number}).*") for number in range(5)]
    settle(*members)
    for number in range(5):
        here.topics.add(f"b{number}x", 1)
    here.reload()
    looked_at.clear()
    for _ in range(3):
        members[0].beat()
    assert looked_at == [f"(a|b{number}).*" for number in range(2)], "so many names, and those of one pattern more"
    here.pass_time(MATCHES_MAX // 5 // MATCHES_PER_MS + 10)
    assert len(looked_at) == 3, "the others as time goes by"
    here.topics.add("b4y", 1)
    here.topics_changed("b4y")
    members[0].beat()
    here.pass_time(10_000)
    assert sorted(set(looked_at)) == [f"(a|b{number}).*" for number in range(5)]
    settle(*members)
    assert {name for member in members for name in topics_of(here, member)} == here.topics.facts.keys()


def test_neither_news_of_topics_nor_a_join_asks_each_pattern_for_each_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """500 new topics took 0.1 s of the event loop beside 200 groups of 5 patterns, before any heartbeat."""

    def asked(group: ConsumerGroup, topic: str) -> bool:
        raise AssertionError(topic)

    here = ConsumerShard(TopicsHere(a1=1, b1=1))
    pattern, named = by_pattern(here, "m", "a.*"), ConsumerHere(here, "n", "b1", "b2", group_id="named")
    settle(pattern, named)
    monkeypatch.setattr(ConsumerGroup, "is_subscribed", asked)
    other = by_pattern(here, "o", "(a|b).*")
    other.beat()
    other.leave()
    for name in ("a2", "b2", "c"):
        here.topics.add(name, 1)
    here.topics_changed("a2", "b2", "c")
    monkeypatch.undo()
    settle(pattern, named)
    assert (topics_of(here, pattern), topics_of(here, named)) == ({"a1", "a2"}, {"b1", "b2"})
