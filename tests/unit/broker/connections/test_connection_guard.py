"""Promises of the guard: limits hold, whoever was here first stays, and so does an address with few connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import pytest

from broker.connections.accepted_sockets import AcceptedSockets, peer_of
from broker.connections.connection_guard import ConnectionGuard
from broker.connections.connection_watch import ConnectionWatch, NoStreams
from broker.connections.shared_connections import CreationRate, ListenerConnections, SharedConnections
from penstock.clock import SystemClock
from penstock.types import Endpoint
from tests.support.machine import THREADS
from tests.support.virtual_time import run_virtual, virtual_clock


def peers(host: str, *ports: int) -> list[Endpoint]:
    return [Endpoint(host, port) for port in ports]


def test_over_the_limit_of_an_address_the_silent_go_first_and_of_these_the_youngest() -> None:
    guard = ConnectionGuard(100, 3, 1_000)
    old = peers("a", 1, 2, 3)
    assert guard.look(old, (), 0) == set()
    young = Endpoint("a", 4)
    assert guard.look([*old, young], {young}, 1) == {Endpoint("a", 3)}
    assert guard.look([*peers("a", 1, 2, 5), young], (), 2) == {Endpoint("a", 5)}, (
        "the youngest of those without a stream"
    )


def test_over_the_limit_of_all_the_address_with_the_most_connections_loses_them() -> None:
    guard = ConnectionGuard(10, 100, 1_000)
    honest = [*peers("honest", 1, 2), *peers("other", 1)]
    hostile = peers("hostile", *range(600))
    cut = guard.look([*hostile, *honest], (), 0)
    assert len(cut) == 593 and {peer.host for peer in cut} == {"hostile"}
    assert guard.statistics().open == 10 and guard.statistics().cut_over_limit == 593


def test_addresses_with_as_many_connections_are_brought_down_alike() -> None:
    guard = ConnectionGuard(10, 100, 1_000)
    cut = guard.look([peer for host in "abc" for peer in peers(host, *range(20))], (), 0)
    left = {host: 20 - sum(peer.host == host for peer in cut) for host in "abc"}
    assert sorted(left.values()) == [3, 3, 4]


def test_a_connection_that_does_not_read_its_answer_goes_after_the_time_that_is_stated() -> None:
    guard = ConnectionGuard(10, 10, 30_000)
    writing = {Endpoint("a", 1): 1_000, Endpoint("a", 2): 900}
    assert guard.stalled(writing, 30_950) == {Endpoint("a", 2)}
    assert guard.statistics().cut_stalled == 1


def test_grpcs_names_of_peers_are_those_of_their_sockets() -> None:
    assert peer_of("ipv4:127.0.0.1:4711") == Endpoint("127.0.0.1", 4711)
    assert peer_of("ipv6:%5B::1%5D:4711") == Endpoint("::1", 4711) == peer_of("ipv6:[::1]:4711")
    assert peer_of("unix:/tmp/x").port == 0


class Writing(NoStreams):
    """A listener with an answer that has been under way since the machine's start."""

    def __init__(self) -> None:
        self.since_ms: dict[Endpoint, int] = {}

    def writing_since_ms(self) -> Mapping[Endpoint, int]:
        return self.since_ms


def test_connections_are_found_among_the_descriptors_and_cut_whether_or_not_they_speak() -> None:
    streams = Writing()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        port = server.getsockname()[1]
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        accepted = [server.accept()[0] for _ in clients]
        other = socket.create_connection(elsewhere.getsockname())
        try:
            guard, executor = ConnectionGuard(3, 3, 1_000), THREADS.executor("look", 1)
            watch = ConnectionWatch(
                "TEST", AcceptedSockets({port}), guard, streams, SystemClock(), executor, lambda: 0.0
            )
            asyncio.run(watch.look())
            assert watch.statistics().open == 3 and watch.statistics().cut_over_limit == 2
            for client in clients:
                client.settimeout(0.05)
            assert sum(ended(client) for client in clients) == 2
            assert not ended(other)
            alive = next(client for client in clients if not ended(client))
            streams.since_ms = {Endpoint(*alive.getsockname()): 0}
            asyncio.run(watch.look())
            assert ended(alive) and watch.statistics().cut_stalled == 1
        finally:
            for one in (*clients, *accepted, other):
                one.close()


def test_the_count_of_descriptors_rises_with_each_connection() -> None:
    sockets = AcceptedSockets({1})
    before = sockets.descriptors()
    with contextlib.ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(socket.socket())
        assert sockets.descriptors() == before + 20


def test_a_descriptor_that_was_used_again_is_another_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sockets = AcceptedSockets({server.getsockname()[1]})
        found: list[Endpoint] = []
        numbers: set[int] = set()
        for _ in range(3):
            with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
                numbers.add(accepted.fileno())
                assert sockets.peers() == sockets.peers() == [Endpoint(*client.getsockname())]
                found += sockets.peers()
        assert len(numbers) == 1 and len(set(found)) == 3 and sockets.peers() == []


def ended(client: socket.socket) -> bool:
    client.settimeout(0.05)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False


class Sockets:
    """The connections that a test says are there, and when each was cut."""

    def __init__(self) -> None:
        self.open: list[Endpoint] = []
        self.cut_at: dict[Endpoint, float] = {}

    def descriptors(self) -> int:
        return 50 + len(self.open)

    def peers(self) -> list[Endpoint]:
        return list(self.open)

    def cut(self, peers: Collection[Endpoint]) -> int:
        for peer in peers:
            self.open.remove(peer)
            self.cut_at[peer] = asyncio.get_running_loop().time()
        return len(peers)


@pytest.mark.parametrize(
    ("per_ip", "together", "address"), [(3, 99, "10.0.0.1"), (99, 3, "10.0.0.2"), (3, 3, "10.0.0.1")]
)
def test_a_connection_over_a_limit_is_cut_within_a_second(per_ip: int, together: int, address: str) -> None:
    async def main() -> None:
        sockets, clock = Sockets(), virtual_clock()
        guard = ConnectionGuard(together, per_ip, 60_000)
        watch = ConnectionWatch("TEST", cast(Any, sockets), guard, NoStreams(), clock, cast(Any, None), lambda: 0.0)
        watch._in_thread = at_once  # type: ignore[method-assign, assignment]
        sockets.open = [Endpoint("10.0.0.1", port) for port in range(3)]
        watch.start()
        await asyncio.sleep(2.1)
        assert guard.room() == 0 and not sockets.cut_at
        late = Endpoint(address, 99)
        sockets.open.append(late)
        came = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        assert late in sockets.cut_at or len(sockets.cut_at) == 1
        assert all(at - came <= 0.5 for at in sockets.cut_at.values())
        await watch.stop()

    run_virtual(main())


@pytest.mark.parametrize(("takes_processor", "looks"), [(False, range(15, 25)), (True, range(2, 4))])
def test_a_look_that_waited_for_a_processor_is_not_rested_from_as_one_that_used_it(
    takes_processor: bool, looks: range
) -> None:
    """Ten new connections come each 0.1 s and a look takes 0.5 s. Within 16 s that is a look each 0.75 s where it
    waited, and one each 10.5 s where it worked."""

    async def main() -> int:
        sockets, asked = Sockets(), itertools.count()

        async def slowly(work: Callable[[], Any]) -> Any:
            await asyncio.sleep(0.25)
            return work()

        def processor_seconds() -> float:
            """An eighth of a second more whenever it is asked, or nothing: half a second for a look's four pieces."""
            return next(asked) / 8 if takes_processor else 0.0

        guard = ConnectionGuard(3, 3, 60_000)
        watch = ConnectionWatch(
            "TEST", cast(Any, sockets), guard, NoStreams(), virtual_clock(), cast(Any, None), processor_seconds
        )
        watch._in_thread = slowly  # type: ignore[method-assign]
        watch.start()
        for number in range(1_600):
            sockets.open.append(Endpoint("10.0.0.1", number))
            await asyncio.sleep(0.01)
        await watch.stop()
        return len(set(sockets.cut_at.values()))

    assert run_virtual(main()) in looks


STRANGERS = [Endpoint(f"2001:db8::{number:x}", 1) for number in range(1, 101)]
NETWORKS = [Endpoint(f"192.0.2.{number}", 1) for number in range(1, 101)]


def test_the_addresses_of_one_network_of_64_bits_count_as_one() -> None:
    guard, honest = ConnectionGuard(100, 100, 30_000), Endpoint("10.0.0.1", 4711)
    guard.look(STRANGERS, (), 0)
    assert guard.look([*STRANGERS, honest], (), 1) == {STRANGERS[-1]}, "the largest network loses its youngest"
    few = ConnectionGuard(1_000, 3, 30_000)
    assert few.look(STRANGERS[:5], (), 0) == set(STRANGERS[3:5]), "max.connections.per.ip, too"


def test_of_networks_with_as_many_connections_the_youngest_connection_goes() -> None:
    guard, honest = ConnectionGuard(100, 100, 30_000), Endpoint("10.0.0.1", 4711)
    guard.look([honest], (), 0)
    assert guard.look([honest, *NETWORKS], (), 1) == {NETWORKS[-1]}
    assert guard.look([honest, *NETWORKS[:-1], Endpoint("198.51.100.7", 1)], (), 2) == {Endpoint("198.51.100.7", 1)}


def test_connections_of_strangers_cut_none_by_which_somebody_has_logged_in() -> None:
    guard = ConnectionGuard(40, 100, 30_000)
    logged_in = dict.fromkeys(peers("10.0.0.1", *range(30)), "User:anna")
    cut = guard.look([*logged_in, *NETWORKS], NETWORKS, 0, logged_in)
    assert len(cut) == 90 and not cut & logged_in.keys(), "though one address has 30 of them, and theirs have streams"


def test_a_quarter_is_kept_for_whoever_has_still_to_log_in() -> None:
    guard = ConnectionGuard(40, 100, 30_000)
    tenants = dict.fromkeys(peers("10.0.0.1", *range(38)), "User:anna") | {Endpoint("10.0.0.2", 1): "User:bert"}
    cut = guard.look([*tenants, *peers("10.0.0.3", *range(20))], (), 0, tenants)
    kept = tenants.keys() - cut
    assert len(kept) == 30 and Endpoint("10.0.0.2", 1) in kept, "the principal with the most makes room"
    assert guard.statistics().open == 40
    alone = ConnectionGuard(40, 100, 30_000)
    assert not alone.look([*tenants], (), 0, tenants), "nobody else is there"


def test_a_principal_with_many_machines_has_one_share() -> None:
    guard = ConnectionGuard(20, 100, 30_000)
    many = {Endpoint(f"10.0.0.{number}", 1): "User:anna" for number in range(30)}
    few = dict.fromkeys(peers("10.1.0.1", *range(5)), "User:bert")
    cut = guard.look([*many, *few], (), 0, many | few)
    assert len(cut) == 15 and cut <= many.keys()


def test_strangers_at_one_listener_cut_no_logged_in_client_of_another() -> None:
    shared = SharedConnections(40, CreationRate(1_000))
    outside, inside = (ConnectionGuard(40, 100, 30_000, shared=shared.of(name)) for name in ("OUTSIDE", "INSIDE"))
    logged_in = dict.fromkeys(peers("10.0.0.1", *range(30)), "User:anna")
    outside.look(NETWORKS, (), 0)
    assert inside.look([*logged_in], (), 0, logged_in) == set()
    assert len(outside.look(NETWORKS, (), 1)) == 90, "these make room"
    assert shared.room() == 0


def test_above_the_rate_of_new_connections_those_that_have_logged_in_are_cut_last() -> None:
    guard = ConnectionGuard(1_000, 1_000, 30_000, CreationRate(1))
    logged_in = dict.fromkeys(peers("10.0.0.1", *range(8)), "User:anna")
    cut = guard.look([*logged_in, *NETWORKS], (), 0, logged_in)
    assert len(cut) == 98 and not cut & logged_in.keys()


async def at_once(work: Any) -> Any:
    """In the place of a thread."""
    return work()


def test_room_is_that_of_the_fullest_address_of_the_listener_and_of_all_listeners() -> None:
    shared = SharedConnections(10, CreationRate(1_000))
    shared.note("OTHER", ListenerConnections(4))
    guard = ConnectionGuard(8, 3, 60_000, shared=shared.of("TEST"))
    assert guard.room() == 0, "until the first look"
    guard.look([Endpoint("10.0.0.1", 1)], (), 0)
    assert guard.room() == 2
    guard.look([Endpoint(f"10.0.0.{host}", 1) for host in range(5)], (), 0)
    assert guard.room() == 1, "10 - 4 - 5"
