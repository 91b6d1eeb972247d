"""Heartbeats that are refused, whatever the group's state: Kafka's errors, and nothing written."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import (
    ApiError,
    InvalidRegularExpressionError,
    InvalidRequestError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from penstock.messages.groups.consumer_protocol import TopicIdPartitions
from tests.support.consumer_groups import ConsumerHere, ConsumerShard, TopicsHere

ROWS: list[tuple[dict[str, Any], type[ApiError], str]] = [
    ({"group_id": ""}, InvalidRequestError, "names no group"),
    ({"member_id": ""}, InvalidRequestError, "no member id"),
    ({"member_id": "", "member_epoch": 1, "may_make_member_id": True}, InvalidRequestError, "no member id"),
    ({"member_id": "", "member_epoch": -1, "may_make_member_id": True}, InvalidRequestError, "no member id"),
    ({"member_id": "m" * 256}, InvalidRequestError, "256 characters"),
    ({"instance_id": ""}, InvalidRequestError, "InstanceId is empty"),
    ({"instance_id": "i" * 256}, InvalidRequestError, "256 characters"),
    ({"rack_id": ""}, InvalidRequestError, "RackId is empty"),
    ({"member_epoch": -3}, InvalidRequestError, "no member epoch -3"),
    ({"member_epoch": -2}, InvalidRequestError, "group.instance.id leaves"),
    ({"rebalance_timeout_ms": -1}, InvalidRequestError, "says its rebalance time-out"),
    ({"rebalance_timeout_ms": -5}, InvalidRequestError, "-5 ms"),
    ({"owned_partitions": None}, InvalidRequestError, "owns nothing"),
    ({"owned_partitions": (TopicIdPartitions("t", (1,)),)}, InvalidRequestError, "owns nothing"),
    ({"subscribed_topic_names": None}, InvalidRequestError, "what it subscribes to"),
    ({"subscribed_topic_names": ("t",) * 10_001}, InvalidRequestError, "10001 names"),
    ({"subscribed_topic_names": tuple(f"{i:0240d}" for i in range(5_000))}, InvalidRequestError, "takes"),
    ({"subscribed_topic_names": ("huge",)}, InvalidRequestError, "200000 partitions"),
    ({"server_assignor": "best"}, UnsupportedAssignorError, "uniform, range"),
    ({"server_assignor": ""}, UnsupportedAssignorError, "uniform, range"),
    ({"subscribed_topic_regex": "("}, InvalidRegularExpressionError, "missing"),
    ({"subscribed_topic_regex": "a(?=b)"}, InvalidRegularExpressionError, "perl operator"),
    ({"subscribed_topic_regex": "(a)\\1"}, InvalidRegularExpressionError, "escape"),
    ({"subscribed_topic_regex": "a" * 1_001}, InvalidRegularExpressionError, "1000 at most"),
    ({"subscribed_topic_regex": "(x{100}){9}" * 3}, InvalidRegularExpressionError, "too large|repetition"),
    ({"subscribed_topic_regex": "\udce4"}, InvalidRegularExpressionError, "UTF-8"),
]


@pytest.mark.parametrize("fields, error, text", ROWS, ids=[f"{number}" for number in range(len(ROWS))])
def test_a_heartbeat_that_cannot_be_right_is_refused(fields: dict[str, Any], error: type[ApiError], text: str) -> None:
    here = ConsumerShard(TopicsHere(t=2, huge=200_000))
    with pytest.raises(error, match=text):
        ConsumerHere(here, "a", "t").beat(**fields)
    assert not here.log and not here.groups
    ConsumerHere(here, "b", "t").beat()
    with pytest.raises(error, match=text):
        ConsumerHere(here, "a", "t").beat(**fields)
    assert list(here.group().members) == ["b"]


def test_a_member_that_subscribes_to_too_much_later_keeps_what_it_has() -> None:
    here = ConsumerShard(TopicsHere(t=2, huge=200_000))
    member = ConsumerHere(here, "a", "t")
    member.beat()
    written = len(here.log)
    with pytest.raises(InvalidRequestError, match=r"20000\d partitions"):
        member.subscribe("huge")
    with pytest.raises(InvalidRequestError, match=r"20000\d partitions"):
        member.beat(subscribed_topic_regex="h.*")
    assert member.beat(full=True, subscribed_topic_names=("t",)).assignment == member.owned
    assert len(here.log) == written


def test_a_topic_that_grows_beyond_a_record_leaves_the_assignment_as_it_is() -> None:
    """It is not tried again with every heartbeat; more members may make it fit."""
    here = ConsumerShard(TopicsHere(t=2), record_bytes_max=4_000)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    here.topics.grow("t", 700)
    here.topics_changed("t")
    member.beat()
    written = len(here.log)
    member.beat()
    assert len(here.log) == written and here.group().state == "Assigning"
    assert len(member.partitions) == 2


def test_at_group_version_0_no_group_begins_and_those_with_members_are_served() -> None:
    topics = TopicsHere(t=2)
    here = ConsumerShard(topics)
    member = ConsumerHere(here, "a", "t")
    member.beat()
    topics.group_version = 0
    ConsumerHere(here, "b", "t").beat()
    assert sorted(here.group().members) == ["a", "b"], "a group that has members takes more of them"
    with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=classic"):
        ConsumerHere(here, "c", "t").beat(group_id="another")
    assert "another" not in here.groups
