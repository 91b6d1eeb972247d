"""Promises of the requests by which somebody removes another one's member: each is known for one, in both protocols,
and no member that leaves by itself is."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordination.turn import Client
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
)
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest
from tests.support.shard_core import SESSION_MS, ShardCore

OWN = Client("app", "/10.0.0.1", party="User:victim")
SAME_PRINCIPAL_ELSEWHERE = OWN._replace(client_host="/10.0.0.2")
MALLORY = OWN._replace(party="User:mallory")
SENDERS = [(OWN, False), (SAME_PRINCIPAL_ELSEWHERE, True), (MALLORY, True), (OWN._replace(client_id="tool"), True)]
ONE = "m" * 22


def classic() -> tuple[ShardCore, str]:
    core = ShardCore()
    core.client = OWN
    return core, core.classic_member("g")


def consumer(instance: str | None = None) -> ShardCore:
    core = ShardCore()
    core.ask(beat(0, instance), client=OWN)
    return core


def beat(epoch: int, instance: str | None = None) -> ConsumerGroupHeartbeatRequest:
    said: dict[str, Any] = {"subscribed_topic_names": ("t",), "owned_partitions": ()} if not epoch else {}
    return ConsumerGroupHeartbeatRequest("g", ONE, epoch, instance_id=instance, rebalance_timeout_ms=60_000, **said)


def static_join() -> JoinGroupRequest:
    return JoinGroupRequest(
        "g", SESSION_MS, 60_000, "", "consumer", (JoinGroupProtocol("range", b""),), "static",
        requires_known_member_id=False,
    )  # fmt: skip


@pytest.mark.parametrize(("sender", "is_act"), SENDERS)
def test_whoever_leaves_for_another_ones_member_of_a_classic_group_acts(sender: Client, is_act: bool) -> None:
    core, member_id = classic()
    assert core.shard.removes_another(LeaveGroupRequest("g", (LeavingMember(member_id),)), sender) is is_act


@pytest.mark.parametrize(("sender", "is_act"), SENDERS)
@pytest.mark.parametrize("epoch", [-1, -2])
def test_whoever_leaves_for_another_ones_member_of_a_consumer_group_acts(
    sender: Client, is_act: bool, epoch: int
) -> None:
    core = consumer("static")
    assert core.shard.removes_another(beat(epoch, "static"), sender) is is_act
    assert core.shard.removes_another(LeaveGroupRequest("g", (LeavingMember(ONE),)), sender) is is_act


def test_one_own_member_among_others_makes_no_request_harmless() -> None:
    core, member_id = classic()
    two = LeaveGroupRequest("g", (LeavingMember("unknown"), LeavingMember(member_id)))
    assert core.shard.removes_another(two, MALLORY) and not core.shard.removes_another(two, OWN)


def test_a_static_member_that_another_principal_takes_over_is_removed_by_it_and_a_restart_is_no_act() -> None:
    core = ShardCore()
    core.ask(static_join(), client=OWN)
    assert core.shard.removes_another(static_join(), MALLORY)
    assert not core.shard.removes_another(static_join(), SAME_PRINCIPAL_ELSEWHERE)
    away = consumer("static")
    away.ask(beat(-2, "static"), client=OWN)
    assert away.shard.removes_another(beat(0, "static"), MALLORY)
    assert not away.shard.removes_another(beat(0, "static"), SAME_PRINCIPAL_ELSEWHERE)


def test_heartbeats_joins_without_an_instance_and_unknown_groups_are_no_act() -> None:
    core, member_id = classic()
    for request in (
        HeartbeatRequest("g", 1, member_id),
        JoinGroupRequest("g", SESSION_MS, 60_000, "", "consumer", ()),
        LeaveGroupRequest("unknown", (LeavingMember(member_id),)),
        LeaveGroupRequest("g", (LeavingMember("unknown"),)),
        beat(0),
    ):
        assert not core.shard.removes_another(request, MALLORY)


def test_after_a_failover_the_client_and_its_host_tell_and_the_principal_from_its_next_heartbeat_on() -> None:
    core, member_id = classic()
    core.reloaded()
    leave = LeaveGroupRequest("g", (LeavingMember(member_id),))
    assert core.shard.removes_another(leave, SAME_PRINCIPAL_ELSEWHERE)
    assert not core.shard.removes_another(leave, MALLORY), "not known yet"
    core.ask(HeartbeatRequest("g", 1, member_id), client=OWN)
    assert core.shard.removes_another(leave, MALLORY) and not core.shard.removes_another(leave, OWN)
