"""Refuses heartbeats that no state could make right, with Kafka's errors and words. Pure."""

from __future__ import annotations

from typing import Final

from broker.groups.group_config import GroupConfig
from penstock.errors import InvalidRequestError, UnsupportedAssignorError
from penstock.messages.groups.consumer_protocol import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerGroupHeartbeatRequest,
)

ID_CHARACTERS_MAX: Final = 255
"""A member's id, its instance's id and its rack have so many at most: they stand in every record of the member."""
SUBSCRIBED_NAMES_MAX: Final = 10_000
"""A member subscribes to so many names at most; more are a pattern's work."""


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, config: GroupConfig) -> None:
    if not request.group_id:
        raise InvalidRequestError("GroupId can't be empty.")
    for name, text in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text == "":
            raise InvalidRequestError(f"{name} can't be empty.")
    for name, text in (
        ("MemberId", request.member_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and len(text) > ID_CHARACTERS_MAX:
            raise InvalidRequestError(f"{name} has {len(text)} characters; {ID_CHARACTERS_MAX} at most.")
    joins = request.member_epoch == JOINS
    if not request.member_id and not (joins and request.may_make_member_id):
        raise InvalidRequestError("MemberId can't be empty.")
    if request.member_epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if request.member_epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequestError("InstanceId can't be null.")
    if joins:
        _check_join(request)
    if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
        return
    names = request.subscribed_topic_names
    if names is not None and len(names) > SUBSCRIBED_NAMES_MAX:
        raise InvalidRequestError(f"SubscribedTopicNames has {len(names)} names; {SUBSCRIBED_NAMES_MAX} at most.")
    if request.rebalance_timeout_ms < -1:
        raise InvalidRequestError("RebalanceTimeoutMs is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.group_consumer_assignors:
        supported = ", ".join(config.group_consumer_assignors)
        raise UnsupportedAssignorError(f"ServerAssignor {assignor} is not supported. Supported assignors: {supported}.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.owned_partitions is None or request.owned_partitions:
        raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )
