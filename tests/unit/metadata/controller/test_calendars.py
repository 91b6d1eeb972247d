"""A calendar is trusted if more than half of the brokers tell nearly the same, and only then is one apart or right."""

from __future__ import annotations

import pytest

from metadata.controller.calendars import CALENDARS_APART_MS, BrokerCalendars
from penstock.messages.nodes.brokers import CalendarVerdict as Verdict
from tests.unit.metadata.harness import Cluster

DAY_MS = 86_400_000
NOW_MS = 1_796_000_000_000


def verdicts(*off_ms: int | None, live: int | None = None, registered: int | None = None) -> list[Verdict]:
    """Brokers have calendars that are off by so much; None: one of an older release. Above `live` they are silent."""
    calendars, all_ids = BrokerCalendars(), range(registered or len(off_ms))
    for broker_id, off in enumerate(off_ms):
        calendars.note(broker_id, 0 if off is None else NOW_MS + off, 77)
    living = all_ids[: live or len(off_ms)]
    return [calendars.judge(broker_id, living, all_ids)[0] for broker_id in living]


AGREES, APART, ALONE, UNSETTLED, NONE = (
    Verdict.AGREES,
    Verdict.APART,
    Verdict.ALONE,
    Verdict.UNSETTLED,
    Verdict.UNSPECIFIED,
)


@pytest.mark.parametrize("wrong_ms", [30 * DAY_MS, -30 * DAY_MS, -NOW_MS + 1, CALENDARS_APART_MS + 6])
def test_one_of_three_is_apart_and_the_two_others_agree(wrong_ms: int) -> None:
    assert verdicts(0, wrong_ms, 5) == [AGREES, APART, AGREES]


def test_calendars_within_an_hour_agree() -> None:
    assert verdicts(0, CALENDARS_APART_MS, 30_000) == [AGREES, AGREES, AGREES]


def test_of_two_that_differ_neither_is_believed() -> None:
    assert verdicts(0, DAY_MS) == [APART, APART]


def test_of_three_that_all_differ_none_is_believed() -> None:
    assert verdicts(0, DAY_MS, 3 * DAY_MS) == [APART, APART, APART]


def test_the_only_broker_has_nothing_to_be_compared_with() -> None:
    assert verdicts(30 * DAY_MS) == [ALONE]


def test_a_broker_whose_neighbours_are_silent_is_not_taken_for_a_majority() -> None:
    assert verdicts(30 * DAY_MS, live=1, registered=3) == [UNSETTLED]


def test_brokers_of_older_releases_tell_none_and_are_not_waited_for() -> None:
    assert verdicts(0, None, None) == [ALONE, NONE, NONE]
    assert verdicts(0, 0, None) == [AGREES, AGREES, NONE]


def test_after_an_election_the_first_to_be_heard_waits_for_the_others() -> None:
    calendars = BrokerCalendars()
    calendars.note(1, NOW_MS + 30 * DAY_MS, 0)
    assert calendars.judge(1, (0, 1, 2), (0, 1, 2))[0] is UNSETTLED
    calendars.note(0, NOW_MS, 0)
    assert calendars.judge(0, (0, 1, 2), (0, 1, 2))[0] is calendars.judge(1, (0, 1, 2), (0, 1, 2))[0] is UNSETTLED
    calendars.note(2, NOW_MS + 900, 900)
    assert calendars.judge(1, (0, 1, 2), (0, 1, 2)) == (APART, 30 * DAY_MS)
    assert calendars.judge(0, (0, 1, 2), (0, 1, 2)) == (AGREES, 0)


def test_brokers_that_come_to_one_that_was_alone_have_no_verdict_before_that_one_has_another() -> None:
    """It leads by its own calendar until then, and would lead what is made for all of them."""
    calendars = BrokerCalendars()
    calendars.note(2, 1, 0)  # 1970
    assert calendars.judge(2, (2,), (2,)) == (ALONE, 0)
    for broker_id in (0, 1):
        calendars.note(broker_id, NOW_MS, 0)
    assert {calendars.judge(one, (0, 1, 2), (0, 1, 2))[0] for one in (0, 1)} == {UNSETTLED}
    assert calendars.judge(2, (0, 1, 2), (0, 1, 2)) == (APART, 1 - NOW_MS)
    assert {calendars.judge(one, (0, 1, 2), (0, 1, 2))[0] for one in (0, 1)} == {AGREES}


def test_nobody_waits_for_a_broker_that_was_alone_and_is_gone() -> None:
    calendars = BrokerCalendars()
    calendars.note(2, 1, 0)
    assert calendars.judge(2, (2,), (2,))[0] is ALONE
    for broker_id in (0, 1):
        calendars.note(broker_id, NOW_MS, 0)
    assert {calendars.judge(one, (0, 1), (0, 1, 2))[0] for one in (0, 1)} == {AGREES}


def test_a_heartbeat_is_answered_with_the_verdict() -> None:
    cluster = Cluster(brokers=3)
    note = {broker_id: NOW_MS + (broker_id == 2) * DAY_MS for broker_id in cluster.image.brokers}
    answers = {broker_id: cluster.heartbeat(broker_id, calendar_ms=ms) for broker_id, ms in note.items()}
    answers = {broker_id: cluster.heartbeat(broker_id, calendar_ms=ms) for broker_id, ms in note.items()}
    assert {one.calendar for broker_id, one in answers.items() if broker_id != 2} == {AGREES}
    assert (answers[2].calendar, answers[2].calendar_off_ms) == (APART, DAY_MS)


def test_a_heartbeat_that_tells_of_a_failed_log_dir_is_answered_with_the_verdict_too() -> None:
    """A broker without a verdict believes its own calendar."""
    cluster = Cluster()
    for broker_id in range(3):
        cluster.start(broker_id, log_dirs=(f"a-{broker_id}", f"b-{broker_id}"))
    for broker_id in (0, 1, 2, 0):
        cluster.heartbeat(broker_id, calendar_ms=NOW_MS)
    answer = cluster.heartbeat(2, offline=("a-2",), calendar_ms=NOW_MS + DAY_MS)
    assert (answer.calendar, answer.calendar_off_ms) == (APART, DAY_MS)


@pytest.mark.parametrize("calendar_ms", [-(1 << 63), (1 << 63) - 1])
def test_a_calendar_beyond_all_leaves_the_answers_of_the_others_their_64_bits(calendar_ms: int) -> None:
    calendars = BrokerCalendars()
    calendars.note(0, NOW_MS, 77)
    calendars.note(1, calendar_ms, 77)
    for broker_id in (0, 1):
        verdict, off_ms = calendars.judge(broker_id, (0, 1), (0, 1))
        assert verdict is APART and -(1 << 63) <= off_ms < 1 << 63
