"""The flow: the busiest topics, the groups that lag, and a bound for many of both."""

from __future__ import annotations

from penstock.console.pictures.flow_picture import (
    GROUPS_MAX,
    TOPICS_MAX,
    FlowGroup,
    FlowTopic,
    RecordFlow,
    flow_svg,
    thickness,
)


def test_producers_topics_and_groups_are_joined_by_bands() -> None:
    topics = [
        FlowTopic("orders", 1_200.0, 2, "/topic?name=orders"),
        FlowTopic("idle", None, 0),
        FlowTopic("some", 1.0, 1),
    ]
    groups = [
        FlowGroup("billing", ("orders", "gone"), 42, "Stable", "/group?id=billing"),
        FlowGroup("x", ("some",), None),
    ]
    text = flow_svg(RecordFlow.of(topics, groups))
    assert text.count('class="band"') == 4, "two producers, two groups"
    assert "1,200 records/s" in text and "rate not known" in text
    assert "2 producers<" in text and "1 producer<" in text
    assert "lag 42" in text and "lag not known" in text and 'class="box lagging"' in text
    assert 'href="/topic?name=orders"' in text and 'href="/group?id=billing"' in text
    assert "billing reads orders, gone, lag 42" in text


def test_many_are_cut_to_the_busiest_and_those_that_lag_most() -> None:
    topics = [FlowTopic(f"t{n:04}", float(n)) for n in range(1_000)]
    groups = [FlowGroup(f"g{n:03}", (f"t{n + 500:04}",), n) for n in range(500)]
    groups += [FlowGroup(f"h{n:03}", ("t0999",), 1_000 + n) for n in range(50)]
    flow = RecordFlow.of(topics, groups)
    assert [topic.name for topic in flow.topics[:2]] == ["t0999", "t0998"]
    assert (len(flow.topics), flow.topics_left_out) == (TOPICS_MAX, 980)
    assert (len(flow.groups), flow.groups_left_out) == (GROUPS_MAX, 520)
    assert flow.groups[0].group_id == "h049"
    assert len(flow_svg(flow)) < 40_000


def test_nothing_is_a_picture_too() -> None:
    assert "Topics: none. Groups: none." in flow_svg(RecordFlow.of([], []))
    assert (thickness(None), thickness(0)) == (1, 1)
    assert thickness(1e9) == 12
