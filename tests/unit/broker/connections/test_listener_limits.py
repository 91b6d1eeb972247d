"""Limits of several listeners of one node: what one floods, the others keep."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.connections.connection_guard import ConnectionGuard
from broker.connections.listener_limits import listener_limits, shared_by_clients
from broker.connections.shared_connections import CreationRate, ListenerConnections, SharedConnections
from broker.connections.stream_quotas import StreamQuotas
from broker.grpc.broker_listeners import ServedListeners
from broker.load.busy_time import BusyTimes
from broker.network.listeners import BrokerService
from broker.network.request_channel import Caller, Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.node.process.descriptors import plan_descriptors
from penstock.errors import NotLeaderOrFollowerError, ResourceExhaustedError
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint
from tests.support.machine import NOW_NS

NOBODY: Collection[Endpoint] = ()
FLOOD, LOOKS = 1_500, 5


def configured(**changes: object) -> NodeConfig:
    values: dict[str, object] = {
        "node.id": 1,
        "process.roles": "broker,controller",
        "listeners": [f"{name}://127.0.0.1:{9192 + at}" for at, name in enumerate(NAMES)],
        "controller.quorum.voters": "1@127.0.0.1:9195",
        "log.dirs": "/nowhere/a",
    }
    return parse_config(values | {name.replace("_", "."): value for name, value in changes.items()})


NAMES = ("BROKER", "OUTSIDE", "INTERNAL", "CONTROLLER")
DESCRIPTORS = plan_descriptors(4096)


def guards(**changes: object) -> dict[str, ConnectionGuard]:
    """The guards of a whole node."""
    config = configured(**changes)
    shared = shared_by_clients(config, DESCRIPTORS.client_connections_max)
    of_clients = {
        name: listener_limits(config, name, DESCRIPTORS.client_connections_max).guard(name, shared)
        for name in config.client_listeners
    }
    of_nodes = {
        name: listener_limits(config, name, DESCRIPTORS.node_connections_max).guard(name)
        for name in ("INTERNAL", "CONTROLLER")
    }
    return of_clients | of_nodes


def peers(host: str, count: int, first: int = 1) -> list[Endpoint]:
    return [Endpoint(host, first + number) for number in range(count)]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"max_connections": 100},
        {"max_connection_creation_rate": 1},
        {"listener_name_outside_max_connections": 50, "listener_name_outside_max_connection_creation_rate": 1},
    ],
)
def test_a_flood_at_a_listener_for_clients_takes_nothing_from_the_listeners_of_the_nodes(
    limits: dict[str, object],
) -> None:
    at = guards(**limits)
    old = {name: peers("node", 20) for name in ("INTERNAL", "CONTROLLER")}
    open_at_clients: list[Endpoint] = []
    for look in range(LOOKS):
        now_ms = 1_000 * look
        flood = [*open_at_clients, *peers("hostile", FLOOD, 1 + FLOOD * look)]
        gone = at["OUTSIDE"].look(flood, NOBODY, now_ms)
        open_at_clients = [peer for peer in flood if peer not in gone]
        assert len(open_at_clients) <= DESCRIPTORS.client_connections_max
        for name, nodes in old.items():
            nodes.append(Endpoint("new node", look))
            assert at[name].look(nodes, NOBODY, now_ms) == set(), f"{name} lost a connection"
    found = at["OUTSIDE"].statistics()
    assert found.cut_over_limit + found.cut_over_rate >= LOOKS * FLOOD - DESCRIPTORS.client_connections_max


def test_a_flood_at_one_listener_for_clients_leaves_the_few_connections_of_another_alone() -> None:
    at = guards(max_connections=100)
    few = peers("honest", 30)
    assert at["BROKER"].look(few, NOBODY, 0) == set()
    left = 500 - len(at["OUTSIDE"].look(peers("hostile", 500), NOBODY, 1))
    assert left == 70, "together they have what both may"
    assert at["BROKER"].look([*few, *peers("honest", 20, 100)], NOBODY, 2) == set(), "it may have as many as the other"
    assert len(at["OUTSIDE"].look(peers("hostile", left), NOBODY, 3)) == 20


@pytest.mark.parametrize(
    ("sizes", "most", "kept"),
    [([5, 5], 10, [5, 5]), ([9, 1], 10, [9, 1]), ([90, 1], 10, [9, 1]), ([90, 90, 2], 10, [4, 4, 2]), ([3], 0, [0])],
)
def test_listeners_that_have_too_many_together_are_brought_down_alike(
    sizes: list[int], most: int, kept: list[int]
) -> None:
    shared = SharedConnections(most, CreationRate(1))
    for at, size in enumerate(sizes):
        shared.note(str(at), ListenerConnections(size))
    assert [shared.of(str(at)).allowed(ListenerConnections(size)).others for at, size in enumerate(sizes)] == kept


def test_the_connections_of_proven_callers_come_before_all_others_but_for_a_quarter() -> None:
    shared = SharedConnections(40, CreationRate(1))
    shared.note("a", ListenerConnections(100, 10))
    assert shared.allowed("b", ListenerConnections(100, 15)) == ListenerConnections(7, 15), (
        "15 are left for the others of both"
    )
    assert shared.allowed("b", ListenerConnections(0, 50)) == ListenerConnections(0, 20), (
        "10 are kept for others, and a has 10 of 30"
    )
    shared.note("a", ListenerConnections(0, 10))
    assert shared.allowed("b", ListenerConnections(0, 50)) == ListenerConnections(0, 30), "there are no others"


def test_a_listener_has_no_more_than_its_own_limit_and_its_clients_are_told_its_name() -> None:
    config = configured(listener_name_outside_max_connections=2, max_connections=3)
    memory = RequestMemory(1 << 20)
    service = BrokerService(
        channel=RequestChannel(1, BusyTimes(NOW_NS), NOW_NS),
        new_session=lambda host: None,  # type: ignore[arg-type, return-value]
        prepare=lambda body: None,
        client_requests=memory,
        node_requests=memory,
        client_connections_max=100,
        node_connections_max=100,
        shared=shared_by_clients(config, 100),
    )
    served = {one.name: one for one in ServedListeners(config, service).all}
    assert [served[name].limits.connections_max for name in NAMES[:3]] == [3, 2, 3]
    outside, inside = served["OUTSIDE"].held.connections, served["BROKER"].held.connections
    for port in (1, 2):
        outside.connected(Endpoint("10.0.0.1", port))
    with pytest.raises(ResourceExhaustedError, match=r"listener\.name\.outside\.max\.connections=2"):
        outside.connected(Endpoint("10.0.0.1", 3))
    inside.connected(Endpoint("10.0.0.1", 4))
    with pytest.raises(ResourceExhaustedError, match=r"has max\.connections=3 streams"):
        inside.connected(Endpoint("10.0.0.1", 5))
    outside.disconnected(Endpoint("10.0.0.1", 1))
    inside.connected(Endpoint("10.0.0.1", 5))
    assert inside.peers() == [Endpoint("10.0.0.1", 4), Endpoint("10.0.0.1", 5)], "a listener knows its own streams only"


def test_a_listener_closes_what_is_silent_after_its_own_time() -> None:
    config = configured(connections_max_idle_ms=9_000, listener_name_outside_connections_max_idle_ms=700)
    idle = {name: listener_limits(config, name, 100).idle_ms_max for name in NAMES}
    assert idle == {"BROKER": 9_000, "OUTSIDE": 700, "INTERNAL": 9_000, "CONTROLLER": 9_000}


def test_a_refused_stream_is_counted_nowhere() -> None:
    together = StreamQuotas(1, 1)
    one, other = StreamQuotas(5, 5, together), StreamQuotas(5, 5, together)
    one.connected(Endpoint("a", 1))
    with pytest.raises(ResourceExhaustedError):
        other.connected(Endpoint("b", 1))
    assert other.peers() == [] and other.total == 0
    one.disconnected(Endpoint("a", 1))
    other.connected(Endpoint("b", 1))
    assert together.total == 1


def test_new_connections_above_the_rate_are_cut_and_those_that_are_there_stay() -> None:
    guard = ConnectionGuard(1_000, 1_000, 1_000, CreationRate(2))
    there = peers("a", 20)
    assert guard.look(there, NOBODY, 0) == set(), "what comes in 10 s may come at once"
    new = [*peers("a", 1, 100), *peers("flood", 9)]
    cut = guard.look([*there, *new], [Endpoint("flood", 9)], 1_000)
    assert len(cut) == 8 and cut < set(peers("flood", 9)) and Endpoint("flood", 9) not in cut, (
        "two a second; a stream stays"
    )
    assert guard.look([peer for peer in (*there, *new) if peer not in cut], NOBODY, 1_100) == set()
    assert guard.statistics().cut_over_rate == 8 and guard.statistics().cut_over_limit == 0
    assert guard.look([], NOBODY, 100_000) == set()
    assert len(guard.look(peers("b", 25), NOBODY, 100_000)) == 5, "no more than 10 s are saved up"


def test_a_clock_that_goes_back_gives_no_room() -> None:
    rate = CreationRate(1)
    rate.came(rate.room(10_000))
    assert [rate.room(at) for at in (5_000, 5_000, 6_000)] == [0, 0, 1]


def test_the_rate_of_all_clients_is_shared_and_the_one_of_a_listener_its_own() -> None:
    at = guards(max_connection_creation_rate=10, listener_name_outside_max_connection_creation_rate=1)
    assert len(at["OUTSIDE"].look(peers("a", 50), NOBODY, 0)) == 40
    assert len(at["BROKER"].look(peers("a", 100), NOBODY, 0)) == 10
    assert at["INTERNAL"].look(peers("node", 200), NOBODY, 0) == set()


class _Sink:
    def response_ready(self, request: Request) -> None:
        """Nobody waits."""


def test_one_error_in_the_answers_of_two_listeners_names_the_endpoint_of_each() -> None:
    hint = LeaderHint(1, 7, Endpoint("inside", 1), "id", (ListenerEndpoint("OUTSIDE", Endpoint("outside", 2)),))
    error = NotLeaderOrFollowerError("moved", leader=hint)

    def named(listener: str) -> Endpoint | None:
        request = Request("Produce", None, _Sink(), Caller(Endpoint("a", 1), listener), NOW_NS)
        request.fail(error)
        return request.encoded(lambda _: error.leader.endpoint if error.leader is not None else None)

    assert [named(name) for name in ("OUTSIDE", "BROKER", "LAB", "OUTSIDE")] == [
        ("outside", 2),
        ("inside", 1),
        None,
        ("outside", 2),
    ]
    assert error.leader is hint
