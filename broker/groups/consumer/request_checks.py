"""Refuses heartbeats that no state could make right, with Kafka's errors. Pure."""

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
"""The most characters of a member's id, its instance's id and its rack: they stand in every record of the member."""
SUBSCRIBED_NAMES_MAX: Final = 10_000
"""The most names that a member subscribes to. A member that needs more subscribes by a pattern."""


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, config: GroupConfig) -> None:
    if not request.group_id:
        raise InvalidRequestError("the heartbeat names no group: give the group an id")
    for name, text in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if text == "":
            raise InvalidRequestError(f"{name} is empty: leave it out, or give it a value")
    for name, text in (
        ("MemberId", request.member_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and len(text) > ID_CHARACTERS_MAX:
            raise InvalidRequestError(f"{name} has {len(text)} characters; {ID_CHARACTERS_MAX} at most")
    joins = request.member_epoch == JOINS
    if not request.member_id and not (joins and request.may_make_member_id):
        raise InvalidRequestError("the heartbeat has no member id: a member makes one for itself when it starts")
    if request.member_epoch < LEAVES_FOR_A_WHILE:
        raise InvalidRequestError(
            f"there is no member epoch {request.member_epoch}: 0 joins, -1 leaves, -2 leaves for a while"
        )
    if request.member_epoch == LEAVES_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequestError("only a member with a group.instance.id leaves for a while: leave with epoch -1")
    if joins:
        _check_join(request)
    if request.member_epoch in (LEAVES, LEAVES_FOR_A_WHILE):
        return
    names = request.subscribed_topic_names
    if names is not None and len(names) > SUBSCRIBED_NAMES_MAX:
        raise InvalidRequestError(
            f"the member subscribes to {len(names)} names, and {SUBSCRIBED_NAMES_MAX} is the most: use a pattern"
        )
    if request.rebalance_timeout_ms < -1:
        raise InvalidRequestError(f"the rebalance time-out is {request.rebalance_timeout_ms} ms: it cannot be negative")
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.group_consumer_assignors:
        supported = ", ".join(config.group_consumer_assignors)
        raise UnsupportedAssignorError(f"there is no assignor {assignor!r} here: choose one of {supported}")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("a member that joins says its rebalance time-out")
    if request.owned_partitions is None or request.owned_partitions:
        raise InvalidRequestError("a member that joins owns nothing: send an empty list of owned partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError(
            "a member that joins says what it subscribes to: names, which may be none, or a pattern"
        )
