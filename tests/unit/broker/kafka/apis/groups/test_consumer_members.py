"""Promises of ConsumerGroupHeartbeat at Kafka's listener: what is said, and what is not said again, crosses as it
is."""

from __future__ import annotations

from typing import Any

import pytest

from broker.kafka.api_row import failed_answer
from broker.kafka.apis.groups.consumer_members import consumer_group_heartbeat
from broker.kafka.schemas.groups.consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from penstock.errors import ApiError, FencedMemberEpochError, NetworkError
from penstock.messages.groups import consumer_protocol as messages
from tests.support.kafka_plans import asked, ended, first_ask, parts_of, read_by_client
from tests.support.kafka_rows import GROUPS, rows_over

TOPIC = "T" * 21 + "A"
ROW = next(row for row in rows_over(parts_of(), *GROUPS) if row.name == "ConsumerGroupHeartbeat")


def request(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 0, **fields})


@pytest.mark.parametrize("version", range(2))
def test_the_first_heartbeat_says_everything(version: int) -> None:
    body = request(
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=["t", "u"],
        server_assignor="range",
        topic_partitions=[],
        **({"subscribed_topic_regex": "t.*"} if version else {}),
    )
    assert first_ask(consumer_group_heartbeat(asked(version), body), "ConsumerGroupHeartbeat") == (
        messages.ConsumerGroupHeartbeatRequest(
            "g",
            "m",
            0,
            "i",
            "r",
            5_000,
            ("t", "u"),
            "t.*" if version else None,
            "range",
            (),
            may_make_member_id=version == 0,
        )
    )


def test_a_later_heartbeat_says_nothing_twice() -> None:
    body = first_ask(consumer_group_heartbeat(asked(1), request(member_epoch=7)), "ConsumerGroupHeartbeat")
    assert body == messages.ConsumerGroupHeartbeatRequest("g", "m", 7)
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=TOPIC, partitions=[2, 0])]
    body = first_ask(
        consumer_group_heartbeat(asked(1), request(member_epoch=7, topic_partitions=owned)), "ConsumerGroupHeartbeat"
    )
    assert body.owned_partitions == (messages.TopicIdPartitions(TOPIC, (2, 0)),)


@pytest.mark.parametrize("version", range(2))
def test_an_assignment_is_told_only_when_there_is_a_new_one(version: int) -> None:
    for assigned in (None, (), (messages.TopicIdPartitions(TOPIC, (0, 1), "t"),)):
        plan = consumer_group_heartbeat(asked(version), request())
        next(plan)
        answer = messages.ConsumerGroupHeartbeatResponse("m", 3, 5_000, assigned)
        read = read_by_client(ended(plan, answer), version)
        assert (read.error_code, read.member_id, read.member_epoch, read.heartbeat_interval_ms) == (0, "m", 3, 5_000)
        if assigned is None:
            assert read.assignment is None
        else:
            found = [(one.topic_id, tuple(one.partitions)) for one in read.assignment.topic_partitions]
            assert found == [(one.topic_id, one.partitions) for one in assigned]


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("error", "code"), [(FencedMemberEpochError("join anew"), 110), (NetworkError("join anew"), 15)]
)
def test_an_error_has_its_text(version: int, error: ApiError, code: int) -> None:
    read = read_by_client(failed_answer(ROW, asked(version), request(), error), version)
    assert (read.error_code, read.error_message, read.member_id, read.assignment) == (code, "join anew", None, None)
