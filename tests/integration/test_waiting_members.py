"""Requests about groups that wait for other members: only their answer, their client, or the node's stop ends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import grpc
import pytest

from broker.kafka.schemas.groups.classic import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from penstock.messages.groups import classic_protocol as ours
from penstock.messages.groups.group_apis import JOIN_GROUP
from penstock.testing import Cluster
from penstock.wire.error_trailer import error_in_trailer
from penstock.wire.message_codec import request_codec
from tests.support.kafka_socket import KafkaSocket
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
IDLE_MS, REBALANCE_MS, SESSION_MS = 2_500, 6_000, 30_000
LOADING, UNAVAILABLE, NOT_COORDINATOR, NEEDS_ID = 14, 15, 16, 79
JOIN, SYNC, HEARTBEAT, DESCRIBE = 9, 5, 4, 6
QUICK = {
    "listener.name.kafka.connections.max.idle.ms": IDLE_MS,
    "listener.name.broker.connections.max.idle.ms": IDLE_MS,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(1, QUICK) as made:
        yield made


def join(group: str, member_id: str = "", rebalance_ms: int = REBALANCE_MS) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def new_member(socket: KafkaSocket, group: str) -> str:
    """The id of a member that may join."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = socket.ask(join(group), JOIN, JoinGroupResponse)
        if answer.error_code == NEEDS_ID:
            return answer.member_id
        assert answer.error_code in (LOADING, UNAVAILABLE, NOT_COORDINATOR) and time.monotonic() < deadline, answer
        time.sleep(0.05)


def stable_group(socket: KafkaSocket, group: str, rebalance_ms: int = REBALANCE_MS) -> str:
    """The id of its only member, which is in generation 1 and will not join again."""
    member = new_member(socket, group)
    answer = socket.ask(join(group, member, rebalance_ms), JOIN, JoinGroupResponse)
    assert (answer.error_code, answer.generation_id) == (0, 1)
    synced = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"all")],
    )
    assert socket.ask(synced, SYNC, SyncGroupResponse).error_code == 0
    return member


def member_count(socket: KafkaSocket, group: str) -> int:
    (answer,) = socket.ask(DescribeGroupsRequest(groups=[group]), DESCRIBE, DescribeGroupsResponse).groups
    return len(answer.members)


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_join_that_waits_is_not_idle_and_its_connection_waits_with_it(cluster: Cluster) -> None:
    with KafkaSocket(cluster.kafka_bootstrap) as first, KafkaSocket(cluster.kafka_bootstrap) as second:
        stable_group(first, "g")
        member = new_member(second, "g")
        began = time.monotonic()
        joining = second.send(join("g", member), JOIN)
        behind = second.send(HeartbeatRequest(group_id="g", generation_id=2, member_id=member), HEARTBEAT)
        found = second.answer_to(joining, JOIN, JoinGroupResponse)
        waited_ms = (time.monotonic() - began) * 1000
        assert (found.error_code, found.generation_id, found.leader) == (0, 2, member)
        assert [one.member_id for one in found.members] == [member], "the other one did not join again in time"
        assert IDLE_MS * 2 < REBALANCE_MS - 100 < waited_ms
        assert second.answer_to(behind, HEARTBEAT, HeartbeatResponse).error_code == 0
        assert first.is_closed(), "the first one was idle meanwhile"


def test_a_client_that_leaves_while_it_waits_holds_up_nobody(cluster: Cluster) -> None:
    with KafkaSocket(cluster.kafka_bootstrap) as stays, ExitStack() as leaving:
        member = stable_group(stays, "g", rebalance_ms=60_000)
        by_kafka = leaving.enter_context(KafkaSocket(cluster.kafka_bootstrap))
        by_kafka.send(join("g", new_member(by_kafka, "g"), 60_000), JOIN)
        channel = leaving.enter_context(grpc.insecure_channel(cluster.bootstrap))
        static = ours.JoinGroupRequest(
            "g", SESSION_MS, 60_000, "", "consumer", (ours.JoinGroupProtocol("range", b""),), "static"
        )
        call = channel.unary_unary(JOIN_GROUP.method).future(request_codec(JOIN_GROUP).encode(static))
        eventually(lambda: member_count(stays, "g") == 3)
        call.cancel()
        leaving.close()
        answer = stays.ask(join("g", member, 60_000), JOIN, JoinGroupResponse)
        assert (answer.error_code, answer.generation_id) == (0, 2)


def test_what_waits_when_the_node_stops_is_told_to_ask_another_one(cluster: Cluster) -> None:
    with (
        KafkaSocket(cluster.kafka_bootstrap) as first,
        KafkaSocket(cluster.kafka_bootstrap) as second,
        grpc.insecure_channel(cluster.bootstrap) as channel,
    ):
        stable_group(first, "g", rebalance_ms=60_000)
        joining = second.send(join("g", new_member(second, "g"), 60_000), JOIN)
        static = ours.JoinGroupRequest(
            "g", SESSION_MS, 60_000, "", "consumer", (ours.JoinGroupProtocol("range", b""),), "static"
        )
        call = channel.unary_unary(JOIN_GROUP.method).future(request_codec(JOIN_GROUP).encode(static))
        eventually(lambda: member_count(first, "g") == 3)
        stopping = threading.Thread(target=cluster.stop, args=(0,))
        stopping.start()
        try:
            assert second.answer_to(joining, JOIN, JoinGroupResponse).error_code == NOT_COORDINATOR
            failed = call.exception(TIMEOUT_S)
            assert isinstance(failed, grpc.RpcError)
            error = error_in_trailer(failed.trailing_metadata(), failed.details())  # type: ignore[attr-defined]
            assert error is not None and error.code == NOT_COORDINATOR
        finally:
            stopping.join(TIMEOUT_S)


def test_a_join_that_is_larger_than_a_groups_record_ends_its_connection(cluster: Cluster) -> None:
    with KafkaSocket(cluster.kafka_bootstrap) as socket:
        large = join("g")
        large.protocols[0].metadata = bytes(1 << 20)
        socket.send(large, JOIN)
        assert socket.is_closed()
    wait_until(lambda: "it may have 1048576 at most" in cluster.log_path(0).read_text())
