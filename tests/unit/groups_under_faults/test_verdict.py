"""The judge of the campaign of groups finds each anomaly, and takes a member that was put out for no owner."""

from __future__ import annotations

from typing import Any

from tests.groups_under_faults.verdict import Facts, Span, Struck, judge, times


def event(at: float, what: str, **facts: Any) -> dict[str, Any]:
    return {"at": at, "what": what, **facts}


def read(at: float, first: int, last: int) -> dict[str, Any]:
    return event(at, "processed", spans={"0": [first, last]})


def committed(at: float, offset: int) -> list[dict[str, Any]]:
    return [event(at, "commits", offsets={"0": offset}), event(at + 0.01, "committed", offsets={"0": offset})]


def test_a_run_in_which_a_member_dies_and_another_goes_on_has_no_anomaly() -> None:
    stories = {
        "a": [event(0, "assigned", partitions=[0]), read(1, 0, 9), *committed(2, 10), read(3, 10, 14)],
        "b": [event(10, "assigned", partitions=[0]), read(11, 10, 19), *committed(12, 20), event(13, "ends")],
    }
    facts = Facts({0: 20}, deaths={"a": 4.0})
    assert not judge(stories, facts).anomalies
    (found,) = times(stories, facts, [Struck("killed", 4.0, 20.0)])
    assert found.stable_s == 16.0 and found.stall_s == 9.0  # "b" has left, so nobody has the partition in the end


def test_a_record_that_nobody_has_processed_is_named() -> None:
    stories = {"a": [read(1, 0, 4), read(2, 6, 9)]}
    assert judge(stories, Facts({0: 12})).examples == [
        "unread: partition 0: offsets 5 to 5",
        "unread: partition 0: offsets 10 to 11",
    ]


def test_two_owners_at_one_time_are_named_and_a_lost_partition_was_over_with_its_session() -> None:
    stories = {
        "a": [event(0, "assigned", partitions=[0]), event(9, "revoked", partitions=[0])],
        "b": [event(8, "assigned", partitions=[0]), event(20, "lost", partitions=[0])],
        "c": [event(15, "assigned", partitions=[0])],
    }
    assert judge(stories, Facts({}, session_s=6.0)).examples == [
        "twice: partition 0: a and b for 1.000 s, from 8.000 on"
    ]


def test_a_member_that_stands_still_for_longer_than_its_session_owns_nothing_meanwhile() -> None:
    stories = {
        "a": [event(0, "assigned", partitions=[0]), event(30, "revoked", partitions=[0])],
        "b": [event(10, "assigned", partitions=[0]), event(40, "ends")],
    }
    assert judge(stories, Facts({}, pauses={"a": [Span(2.0, 20.0)]})).anomalies == {}
    assert judge(stories, Facts({}, pauses={"a": [Span(2.0, 4.0)]})).anomalies == {"twice": 1}


def test_a_commit_ahead_of_what_was_processed_or_back_behind_another_is_named() -> None:
    stories = {"a": [read(1, 0, 9), *committed(2, 11), *committed(3, 8)]}
    assert judge(stories, Facts({0: 10})).examples == [
        "ahead: partition 0: a committed 11, 10 was processed",
        "back: partition 0: a committed 8 after 11",
    ]
