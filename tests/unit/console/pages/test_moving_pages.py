"""Lines, events, flow and layout, from the console's memory: what a person sees of it, and what is hidden."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.admin import (
    BrokerInfo,
    ClusterInfo,
    GroupListing,
    GroupType,
    NodeStanding,
    PartitionInfo,
    ProducerState,
    TopicDescription,
)
from penstock.clock import ManualClock
from penstock.console.failures import NotFoundError
from penstock.console.fields import FieldError, Fields
from penstock.console.page import PageAsked
from penstock.console.pages.events import show_events
from penstock.console.pages.pictures import show_flow, show_layout, show_pictures
from penstock.console.pages.series import WORDS, show_series
from penstock.console.pages.watched import HIDDEN
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.last_hour import HourLimits, Subject
from penstock.console.watching.round_sample import GroupSample, RoundSample
from penstock.types import TopicPartition

SETTINGS = ConsoleSettings(bootstrap="b:1", origins=("http://h",))
OPEN, SECRET = TopicPartition("open", 0), TopicPartition("secret", 0)
STANDING = NodeStanding(1, False, 0, 0, 0, 0, 0, 0, ())


class FakeAdminOfUser:
    """Shows one topic and one group."""

    async def list_topics(self) -> list[str]:
        return ["open"]

    async def list_groups(self) -> list[Any]:
        return []

    async def describe_cluster(self) -> ClusterInfo:
        return ClusterInfo("c", 1, (BrokerInfo(1, "h", 9192, "r1"), BrokerInfo(2, "h", 9192, "r2", True)), 0, STANDING)

    async def describe_topic(self, name: str) -> TopicDescription:
        return TopicDescription(name, "id", (PartitionInfo(0, 1, 3, 0, (1, 2), (1,)),))

    async def describe_topics(self, names: Any = None, *, ask_leaders: bool = True) -> list[TopicDescription]:
        return [await self.describe_topic(name) for name in (("open",) if names is None else names)]

    async def describe_producers(self, partitions: Any) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        return {tp: (ProducerState(7, 0, 1, 1_700_000_000_000), ProducerState(8, 0, 1, 1)) for tp in partitions}


class FakeLinkOfUser:
    """Keeps no answers."""

    admin = FakeAdminOfUser()

    async def answer(self, key: object, kept_ms: int, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return await ask()


def watch() -> ClusterWatch:
    """Two looks at two topics, a group that reads both, and an election in each."""
    clock = ManualClock(10_000)
    found = ClusterWatch(SETTINGS, limits=HourLimits(step_ms=1_000, steps=60), clock=clock)
    for turn in range(2):
        topics = [
            TopicDescription(name, name, (PartitionInfo(0, 1 + turn, turn, 0, (1, 2), (1, 2)),))
            for name in ("open", "secret")
        ]
        lags = {OPEN: 5, SECRET: 6}
        sample = RoundSample(
            topics=topics,
            ends={OPEN: 10 * turn, SECRET: 99 * turn},
            groups={"g": GroupSample("Stable" if turn else "Empty", 1, {OPEN: 1, SECRET: 1}, lags)},
            probes={1: 2.5},
        )
        found.hour.observe(clock.boot_ms(), sample)
        clock.advance(1_000)
    return found


def ask(
    show: Callable[[PageAsked], Coroutine[Any, Any, Any]], user: str = "", set_by_ms: int = 0, **fields: str
) -> Any:
    """The view, after the calendar of the console's machine was set by so much."""
    kept = watch()
    assert isinstance(kept.clock, ManualClock)
    kept.clock.jump_wall(set_by_ms)
    link: Any = FakeLinkOfUser()
    return asyncio.run(show(PageAsked(link, Fields(fields), SETTINGS, kept.clock.wall_ms(), user, kept)))


def test_a_line_has_a_number_for_each_step_with_its_time() -> None:
    view = ask(show_series, subject="topic-records", name="open")
    assert [line.name for line in view.lines] == ["open"]
    assert len(view.lines[0].values) == 60 and view.lines[0].values[-1] == 10
    assert view.newest_ms % 1_000 == 0 and view.step_ms == 1_000
    assert view.table()[0] == (view.newest_ms, [10])
    assert "Records written" in view.picture() and "open: 10 records/s now" in view.picture()
    assert view.note.why_not == "the cluster has not answered yet"


@pytest.mark.parametrize("subject", [one for one in Subject if one is not Subject.PARTITION_LAG])
def test_every_subject_has_words_and_a_page_without_a_name(subject: Subject) -> None:
    view = ask(show_series, subject=subject)
    assert (view.title, view.unit) == WORDS[subject]
    assert len(view.lines) <= 8


def test_the_partitions_of_a_group_are_lines_of_their_own() -> None:
    view = ask(show_series, subject="partition-lag", name="g")
    assert [(line.name, line.values[-1]) for line in view.lines] == [("secret-0", 6), ("open-0", 5)]
    with pytest.raises(FieldError, match="name: is missing"):
        ask(show_series, subject="partition-lag")
    with pytest.raises(FieldError, match="subject: must be one of topic-records"):
        ask(show_series, subject="nonsense")


def test_who_logs_in_sees_no_line_and_no_event_of_what_the_cluster_hides() -> None:
    assert [line.name for line in ask(show_series, subject="topic-records").lines] == ["open", "secret"]
    assert [line.name for line in ask(show_series, "anna", subject="topic-records").lines] == ["open"]
    for name in ("secret", "never"):
        with pytest.raises(NotFoundError, match="that you may see"):
            ask(show_series, "anna", subject="topic-records", name=name)
    for subject in ("group-lag", "partition-lag"):
        with pytest.raises(NotFoundError, match=r"(group|partition) 'g'"):
            ask(show_series, "anna", subject=subject, name="g")
    assert ask(show_series, "anna", subject="group-lag").lines == ()
    assert [event.kind for event in ask(show_events).events] == ["group-state", "election", "election"]
    (seen,) = ask(show_events, "anna").events
    assert seen.text == "open elected broker 2 in place of 1, for partition 0"
    assert [topic.name for topic in ask(show_flow, "anna").flow.topics] == ["open"]
    assert ask(show_flow, "anna").flow.groups == ()


def test_a_group_that_a_person_sees_tells_nothing_of_topics_that_the_person_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def one_group(self: FakeAdminOfUser) -> list[Any]:
        return [GroupListing("g", "Stable", GroupType.CLASSIC, "consumer", 1)]

    monkeypatch.setattr(FakeAdminOfUser, "list_groups", one_group)
    seen = ask(show_flow, "anna")
    assert [group.topics for group in seen.flow.groups] == [("open",)] and "secret" not in seen.picture()
    assert [line.name for line in ask(show_series, "anna", subject="partition-lag", name="g").lines] == ["open-0"]
    assert [group.topics for group in ask(show_flow).flow.groups] == [("open", "secret")]


def test_errors_of_the_consoles_own_user_are_told_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterWatch, "part_errors", {"groups": "secret: no right"})
    assert ask(show_pictures, "anna").note.part_errors == {"groups": HIDDEN}
    assert ask(show_pictures).note.part_errors == {"groups": "secret: no right"}


def test_events_are_those_of_a_topic_a_broker_or_a_group_with_their_times() -> None:
    (event,) = ask(show_events, topic="open").events
    assert (event.ago_ms, event.is_bad) == (1_000, False)
    assert len(ask(show_events, broker="2").events) == 2
    assert [one.text for one in ask(show_events, group="g").events] == ["group g is Stable; before, it was Empty"]
    assert "3 events" in ask(show_events).picture()
    with pytest.raises(FieldError, match="broker: must be a whole number"):
        ask(show_events, broker="x")


def test_the_flow_has_the_busiest_topics_their_producers_and_groups() -> None:
    page = ask(show_flow)
    assert [(one.name, one.records_per_second, one.producers) for one in page.flow.topics] == [
        ("secret", 99, 1),
        ("open", 10, 1),
    ]
    assert [(one.group_id, one.lag) for one in page.flow.groups] == [("g", 11)]
    assert "g reads open, secret, lag 11" in page.picture()
    assert [one.name for one in ask(show_flow, topic="open").flow.topics] == ["open"]


@pytest.mark.parametrize("day_ms", [86_400_000, -86_400_000])
def test_a_calendar_that_is_set_by_a_day_changes_no_line_no_event_and_no_producer(day_ms: int) -> None:
    line, moved = (ask(show_series, subject="topic-records", set_by_ms=by) for by in (0, day_ms))
    assert (moved.lines, moved.newest_ms - line.newest_ms) == (line.lines, day_ms)
    events, later = (ask(show_events, set_by_ms=by).events for by in (0, day_ms))
    assert [(one.text, one.ago_ms) for one in later] == [(one.text, one.ago_ms) for one in events]
    assert {now.time_ms - before.time_ms for now, before in zip(later, events, strict=True)} == {day_ms}
    assert [(one.name, one.producers) for one in ask(show_flow, set_by_ms=day_ms).flow.topics] == [
        ("secret", 1),
        ("open", 1),
    ]


def test_the_layout_is_of_one_topic_or_of_all() -> None:
    page = ask(show_layout, topic="t")
    assert [row.label for row in page.layout.rows] == ["t-0"]
    assert [(one.broker_id, one.is_fenced) for one in page.layout.brokers] == [(1, False), (2, True)]
    assert "t-0: broker 2 is not in sync" in page.picture()
    assert [row.label for row in ask(show_layout).layout.rows] == ["open-0"]


def test_a_console_without_a_watch_says_so() -> None:
    link: Any = FakeLinkOfUser()
    asked = PageAsked(link, Fields({"subject": "topic-records"}), SETTINGS, 0)
    assert asyncio.run(show_series(asked)).note.why_not == "this console watches nothing by itself"
    assert asyncio.run(show_events(asked)).events == ()
    assert asyncio.run(show_flow(asked)).flow.topics == ()
    assert set(asyncio.run(show_pictures(asked)).charts) <= set(Subject)
