"""The timeline keeps a bounded number of events, and merges those of many topics at one moment."""

from __future__ import annotations

from penstock.console.watching.timeline import (
    TOPICS_NAMED_MAX,
    EventKind,
    Timeline,
    TimelineEvent,
    named_partitions,
)


def election(topic: str) -> TimelineEvent:
    return TimelineEvent(EventKind.ELECTION, f"{topic} elected broker 1", (topic,), (1, 2), count=12)


def test_events_are_numbered_and_the_newest_comes_first() -> None:
    timeline = Timeline(events_max=3)
    for moment in range(5):
        timeline.note([election(f"t{moment}")], now_ms=moment)
    assert [(event.number, event.at_ms, event.topics) for event in timeline.since()] == [
        (5, 4, ("t4",)),
        (4, 3, ("t3",)),
        (3, 2, ("t2",)),
    ]
    assert [event.number for event in timeline.since(4)] == [5]
    assert [event.number for event in timeline.since(limit=1)] == [5]
    assert (timeline.newest_number, len(timeline)) == (5, 3)


def test_many_topics_at_one_moment_are_one_event_that_names_a_few() -> None:
    timeline = Timeline()
    gone = TimelineEvent(EventKind.BROKER_GONE, "broker 2 went out of service", brokers=(2,))
    timeline.note([gone, *(election(f"t{n:03}") for n in range(1_000))], now_ms=7)
    merged, first = timeline.since()
    assert first.text == gone.text
    assert merged.count == 12_000
    assert len(merged.topics) == TOPICS_NAMED_MAX
    assert merged.brokers == (1, 2)
    assert merged.text == (
        "election, 12000 times at once: t000 elected broker 1; t001 elected broker 1; t002 elected broker 1;"
        " and 997 more"
    )


def test_a_page_finds_the_events_of_its_topic_broker_or_group() -> None:
    timeline = Timeline()
    group = TimelineEvent(EventKind.GROUP_STATE, "group g is Empty", groups=("g",))
    shrink = TimelineEvent(EventKind.ISR_SHRINK, "b lost broker 3", ("b",), (3,))
    timeline.note([election("a"), shrink, group], now_ms=1)
    assert [event.kind for event in timeline.about(topic="a")] == [EventKind.ELECTION]
    assert [event.kind for event in timeline.about(broker=3)] == [EventKind.ISR_SHRINK]
    assert [event.kind for event in timeline.about(group="g")] == [EventKind.GROUP_STATE]
    assert timeline.about(topic="never") == []
    assert [event.is_bad for event in timeline.about(broker=3)] == [True]


def test_texts_and_names_are_of_a_bounded_length() -> None:
    timeline = Timeline()
    timeline.note([TimelineEvent(EventKind.TOPIC_CREATED, "x" * 10_000, ("x" * 10_000,), groups=("y" * 10_000,))], 1)
    (event,) = timeline.since()
    assert (len(event.text), len(event.topics[0]), len(event.groups[0])) == (1_000, 255, 255)


def test_partitions_are_named_up_to_a_few() -> None:
    assert named_partitions([3]) == "partition 3"
    assert named_partitions(range(10)) == "partitions 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
