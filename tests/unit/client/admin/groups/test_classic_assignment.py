"""Subscriptions and assignments of the classic protocol, and bytes that are none."""

from __future__ import annotations

import pytest

from penstock import TopicPartition
from penstock.client.admin.groups.classic_assignment import assigned_partitions, topics_of_subscription

SUBSCRIPTION = b"\0\1" + b"\0\0\0\2" + b"\0\1a" + b"\0\2\xc3\xa4" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
ASSIGNMENT = b"\0\1" + b"\0\0\0\2" + b"\0\1a\0\0\0\2\0\0\0\0\0\0\0\7" + b"\0\1b\0\0\0\0" + b"\xff\xff\xff\xff"


def test_topics_and_partitions_are_read_and_what_follows_is_left() -> None:
    assert topics_of_subscription(SUBSCRIPTION) == ("a", "ä")
    assert assigned_partitions(ASSIGNMENT) == (TopicPartition("a", 0), TopicPartition("a", 7))


@pytest.mark.parametrize("read", [topics_of_subscription, assigned_partitions])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0\0\0\0",
        b"\0\0\x7f\xff\xff\xff",  # more than the rest could hold
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\x7f\xffa",
        b"\0\0\0\0\0\1\0\1\xff\0\0\0\0",  # not UTF-8
    ],
)
def test_other_bytes_are_nothing(read: object, data: bytes) -> None:
    assert callable(read) and read(data) == ()


def test_a_part_of_the_bytes_is_nothing_and_none_raises() -> None:
    whole_at = ASSIGNMENT.index(b"\xff\xff\xff\xff")
    for size in range(len(ASSIGNMENT)):
        assert assigned_partitions(ASSIGNMENT[:size]) == (assigned_partitions(ASSIGNMENT) if size >= whole_at else ())
