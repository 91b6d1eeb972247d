"""Events between two looks at a cluster: brokers, the controller, elections, ISR, moves, topics and groups."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.admin import BrokerInfo, ClusterInfo, NodeStanding, PartitionInfo, TopicDescription
from penstock.console.watching.changes import ClusterChanges
from penstock.console.watching.timeline import TimelineEvent

STANDING = NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ())


def part(
    number: int, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3), coming: tuple[int, ...] = ()
) -> PartitionInfo:
    return PartitionInfo(number, leader, epoch, 0, (1, 2, 3, *coming), isr, adding_replicas=coming)


def topic(name: str, *partitions: PartitionInfo, topic_id: str = "id") -> TopicDescription:
    return TopicDescription(name, topic_id, partitions)


def cluster(controller: int, *fenced: int, brokers: Iterable[int] = (1, 2, 3), cordoned: int = 0) -> ClusterInfo:
    found = tuple(BrokerInfo(n, "h", 9192, fenced=n in fenced, cordoned=n == cordoned) for n in brokers)
    return ClusterInfo("c", controller, found, 0, STANDING)


def lines(events: Iterable[TimelineEvent]) -> list[str]:
    return [f"{event.kind}: {event.text}" for event in events]


def test_the_first_look_is_no_event() -> None:
    changes = ClusterChanges()
    assert lines(changes.of_cluster(cluster(1, 3))) == []
    assert lines(changes.of_topics([topic("a", part(0, 1, 4, isr=(1,)))])) == []
    assert lines(changes.of_groups({"g": "Empty"})) == []


def test_a_broker_goes_comes_back_joins_and_is_forgotten() -> None:
    changes = ClusterChanges()
    list(changes.of_cluster(cluster(1)))
    assert lines(changes.of_cluster(cluster(2, 3, brokers=(1, 2, 3, 4)))) == [
        "broker-gone: broker 3 went out of service",
        "broker-registered: broker 4 was registered",
        "controller: the controller is broker 2 now; before, it was 1",
    ]
    assert lines(changes.of_cluster(cluster(-1, cordoned=2))) == [
        "broker-cordoned: broker 2 gets no new replicas: it is cordoned",
        "broker-back: broker 3 is in service again",
        "broker-forgotten: broker 4 is not registered any more",
        "controller: no controller answers; before, it was 2",
    ]
    assert lines(changes.of_cluster(cluster(1))) == [
        "broker-cordoned: broker 2 gets new replicas again",
        "controller: the controller is broker 1 now",
    ]


def test_a_broker_that_was_restarted_between_two_looks_is_told_by_the_epoch_of_its_registration() -> None:
    def look(epoch: int, *, fenced: bool = False) -> ClusterInfo:
        return ClusterInfo("c", 1, (BrokerInfo(1, "h", 9192, fenced=fenced, broker_epoch=epoch),), 0, STANDING)

    changes = ClusterChanges()
    list(changes.of_cluster(look(7)))
    assert lines(changes.of_cluster(look(7))) == []
    assert lines(changes.of_cluster(look(9))) == [
        "broker-restarted: broker 1 was restarted, and was back before the next look"
    ]
    assert lines(changes.of_cluster(look(11, fenced=True))) == ["broker-gone: broker 1 went out of service"]
    assert lines(changes.of_cluster(look(13))) == ["broker-back: broker 1 is in service again"]
    for epoch in (0, 13, 0):  # an older node answers, which tells none
        assert lines(changes.of_cluster(look(epoch))) == []


def test_a_silent_broker_is_told_once_and_again_when_it_answers() -> None:
    changes = ClusterChanges()
    assert lines(changes.of_probes({1: 1.5, 2: None})) == ["broker-silent: broker 2 does not answer the console"]
    assert lines(changes.of_probes({1: 1.5, 2: None})) == []
    assert lines(changes.of_probes({1: 1.5})) == []  # it was not asked
    assert changes.silent == {2}
    assert lines(changes.of_probes({2: 3.0})) == ["broker-answers: broker 2 answers again"]


def test_a_silent_broker_that_comes_back_into_service_or_is_forgotten_is_silent_no_more() -> None:
    changes = ClusterChanges()
    list(changes.of_cluster(cluster(1, 3)))
    list(changes.of_probes({2: None, 3: None}))
    list(changes.of_cluster(cluster(1, 2)))
    assert changes.silent == {2}
    list(changes.of_cluster(cluster(1, brokers=(1, 3))))
    assert changes.silent == frozenset()


def test_elections_are_told_by_leader_and_epoch() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([topic("a", part(0, 1, 4), part(1, 1, 4), part(2, 2, 4), part(3, -1, 4))]))
    moved = [topic("a", part(0, 2, 5), part(1, 2, 5), part(2, 2, 6), part(3, 3, 5))]
    assert lines(changes.of_topics(moved)) == [
        "election: a has a leader of partition 3 again: broker 3",
        "election: a elected broker 2 in place of 1, for partitions 0, 1",
        "election: a elected broker 2 once more, for partition 2",
    ]
    lost = [topic("a", part(0, -1, 6), part(1, 2, 5), part(2, 2, 6), part(3, 3, 5))]
    (event,) = changes.of_topics(lost)
    assert lines([event]) == ["offline: a has no leader of partition 0; it was broker 2"]
    assert (event.topics, event.brokers, event.count) == (("a",), (2,), 1)


def test_an_isr_shrinks_and_grows() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([topic("a", part(0, 1, 4), part(1, 1, 4))]))
    shrunk = [topic("a", part(0, 1, 4, isr=(1, 2)), part(1, 1, 4, isr=(2, 1)))]
    assert lines(changes.of_topics(shrunk)) == ["isr-shrink: a lost broker 3 from the ISR of partitions 0, 1"]
    exchanged = [topic("a", part(0, 1, 4, isr=(1, 2)), part(1, 1, 4, isr=(1, 3)))]
    assert lines(changes.of_topics(exchanged)) == [
        "isr-shrink: a lost broker 2 from the ISR of partition 1",
        "isr-expand: a has broker 3 in the ISR of partition 1 again",
    ]
    reordered = [topic("a", part(0, 1, 4, isr=(2, 1)), part(1, 1, 4, isr=(3, 1)))]
    assert lines(changes.of_topics(reordered)) == []


def test_a_move_begins_and_ends_or_is_given_up() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([topic("a", part(0, 1, 4), part(1, 1, 4))]))
    moving = [topic("a", part(0, 1, 4, coming=(5,)), part(1, 1, 4, coming=(6,)))]
    assert lines(changes.of_topics(moving)) == ["move-began: a begins to move partitions 0, 1 to brokers 5, 6"]
    ended = PartitionInfo(0, 1, 4, 0, (5, 1, 2), (5, 1, 2))
    assert lines(changes.of_topics([topic("a", ended, part(1, 1, 4))])) == [
        "isr-shrink: a lost broker 3 from the ISR of partition 0",
        "isr-expand: a has broker 5 in the ISR of partition 0 again",
        "move-ended: a has moved partition 0",
        "move-ended: a has given up the move of partition 1",
    ]


def test_a_move_of_a_topic_that_is_new_since_the_last_look_is_told_too() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([]))
    assert lines(changes.of_topics([topic("a", part(0, 1, 4, coming=(5,)))])) == [
        "topic-created: a was created",
        "move-began: a begins to move partition 0 to broker 5",
    ]
    again = topic("a", part(0, 1, 0, coming=(6,)), topic_id="other")
    assert lines(changes.of_topics([again])) == [
        "topic-created: a was created",
        "move-began: a begins to move partition 0 to broker 6",
    ]


def test_a_move_that_began_and_ended_between_two_looks_is_told_by_the_replicas() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([topic("a", *(part(n, 1, 4) for n in range(4)))]))
    moved = [PartitionInfo(n, 1, 4, 0, (1, 2, 5), (1, 2, 3)) for n in (0, 1)]
    grown, reordered = (
        PartitionInfo(2, 1, 4, 0, (1, 2, 3, 4), (1, 2, 3)),
        PartitionInfo(3, 1, 4, 0, (3, 2, 1), (1, 2, 3)),
    )
    assert lines(changes.of_topics([topic("a", *moved, grown, reordered)])) == [
        "move-ended: a has moved partition 2 to broker 4, between two looks",
        "move-ended: a has moved partitions 0, 1 from broker 3 to broker 5, between two looks",
    ]
    assert lines(changes.of_topics([topic("a", *moved, grown, reordered)])) == []


def test_a_move_that_gets_another_goal_is_told_as_one_that_begins() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([topic("a", part(0, 1, 4, coming=(5,)))]))
    assert lines(changes.of_topics([topic("a", part(0, 1, 4, coming=(5,)))])) == []
    assert lines(changes.of_topics([topic("a", part(0, 1, 4, coming=(6,)))])) == [
        "move-began: a begins to move partition 0 to broker 6"
    ]


def test_topics_are_created_deleted_made_anew_and_grow() -> None:
    changes = ClusterChanges()
    list(changes.of_topics([topic("a", part(0, 1, 4)), topic("b", part(0, 1, 4))]))
    after = [topic("a", part(0, 1, 4), part(1, 2, 0)), topic("b", part(0, 2, 0), topic_id="other"), topic("c")]
    assert lines(changes.of_topics(after)) == [
        "topic-grew: a has 1 more partition: 2",
        "topic-created: b was created",
        "topic-created: c was created",
    ]
    assert lines(changes.of_topics(after[1:])) == ["topic-deleted: a was deleted, or may not be seen any more"]


def test_topics_beyond_the_limit_are_not_told_of_as_new() -> None:
    changes = ClusterChanges(partitions_max=2)
    many = [topic(name, part(0, 1, 4)) for name in "abc"]
    list(changes.of_topics(many))
    assert lines(changes.of_topics(many)) == []
    assert lines(changes.of_topics(many[1:])) == ["topic-deleted: a was deleted, or may not be seen any more"]
    assert repr(changes) == "ClusterChanges(0 brokers, 2 topics)"


def test_a_group_changes_its_state() -> None:
    changes = ClusterChanges()
    list(changes.of_groups({"g": "Stable", "h": "Stable"}))
    assert lines(changes.of_groups({"g": "Empty"})) == ["group-state: group g is Empty; before, it was Stable"]
    changes.keep_groups(frozenset({"h"}))
    assert lines(changes.of_groups({"g": "Stable", "h": "Stable"})) == []
