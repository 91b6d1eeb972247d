"""The judge of a campaign with two releases sees what it is for: losses, doubles, disorder, and clients that slept."""

from __future__ import annotations

import pytest

from tests.upgrades.judge import Line, contradictions

LOG: list[Line] = [[0, 0, "a", 1], [0, 1, "a", 2], [1, 0, "b", 1]]


def _judged(read: list[Line], other: list[Line] | None = None) -> list[str]:
    return contradictions({"writer": LOG}, {"one": read, "two": read if other is None else other})


def test_what_was_acked_and_read_by_both_is_right() -> None:
    assert _judged(LOG) == []


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (LOG[:2], "one does not have [1, 0, 'b', 1], acked to writer"),
        ([*LOG[:2], [1, 0, "b", 7]], "one does not have [1, 0, 'b', 1], acked to writer"),
        ([*LOG, [1, 1, "b", 1]], "one has ('b', 1) 2 times"),
        ([LOG[1], LOG[0], LOG[2]], "one read 1 of a behind 2"),
        ([LOG[1], LOG[0], LOG[2]], "one read offset 0 of partition 0 behind 1"),
        ([*LOG, [1, 1, "a", 3]], "one read a in partitions 0 and 1"),
        ([], "a client did nothing"),
    ],
)
def test_a_contradiction_is_said(read: list[Line], words: str) -> None:
    assert any(words in one for one in _judged(read))


@pytest.mark.parametrize(("value", "is_lost"), [(1, False), (9, True)])
def test_an_ack_without_an_offset_is_one_of_a_record_wherever_it_is(value: int, is_lost: bool) -> None:
    """librdkafka's, of a batch whose answer it did not hear, when the next one was taken."""
    found = contradictions({"writer": [[0, None, "a", value]]}, {"one": LOG})
    assert bool(found) == is_lost
    assert contradictions({"writer": [[1, None, "a", 1]]}, {"one": LOG}), "in its partition"


def test_readers_that_differ_are_told_of() -> None:
    assert any("the readers differ" in one for one in _judged(LOG, [*LOG, [1, 1, "b", 2]]))
