"""Bytes that come before a log-in are few, whatever frames of HTTP/2 they are, and a log-in is never too many."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Collection
from typing import cast

import pytest

from broker.connections.accepted_sockets import AcceptedSockets
from broker.connections.byte_watch import (
    CONNECTION_BYTES_A_SECOND,
    CONNECTION_BYTES_MAX,
    FIRST_CALL_BYTES,
    LEFT_BYTES,
    LOG_IN_BYTES,
    NETWORK_BYTES_MAX,
    ByteVerdict,
    ByteWatch,
)
from broker.connections.byte_watcher import LOOKS_FOR_NEWCOMERS, REFUSED_BYTES, ByteWatcher, Watched
from broker.connections.under_way import CONNECTION_BYTES, PARTY_BYTES_MIN, Carried, Shares
from broker.grpc.heard import HeardConnections
from broker.network.request_channel import Caller
from penstock.clock import SystemClock
from penstock.types import Endpoint
from tests.support.machine import THREADS

HERE = Endpoint("10.0.0.1", 4711)
NETWORK = "2001:db8::/64"
NOTHING = ByteVerdict(set(), set())
SECONDS_MAX = 60
CLOCK = SystemClock()


def watched(is_known: Callable[[Endpoint], bool], request_bytes_max: int = 1 << 40) -> Watched:
    return Watched(is_known, HeardConnections(), Shares(request_bytes_max, 0), LOG_IN_BYTES)


def test_a_connection_without_a_log_in_that_sends_much_is_cut() -> None:
    watch = ByteWatch()
    assert watch.look({HERE: CONNECTION_BYTES_MAX}, [HERE], 0) == NOTHING
    assert watch.look({HERE: CONNECTION_BYTES_MAX + 1}, [HERE], 0) == ({HERE}, set())


def test_one_that_sends_little_may_do_so_for_ever() -> None:
    watch = ByteWatch()
    for second in range(1_000):
        received = {HERE: (second + 1) * CONNECTION_BYTES_A_SECOND}
        assert watch.look(received, [HERE], second * 1_000) == NOTHING, "health checks, say"


def test_bytes_under_a_log_in_that_is_over_do_not_count() -> None:
    watch = ByteWatch()
    assert watch.look({HERE: 5_000}, [HERE], 0) == NOTHING
    assert watch.look({}, [HERE], 1_000) == NOTHING, "logged in"
    assert watch.look({HERE: 1 << 40}, [HERE], 2_000) == NOTHING, "its session is over"
    assert watch.look({HERE: (1 << 40) + CONNECTION_BYTES_MAX + 1}, [HERE], 2_100).cut == {HERE}
    assert watch.look({}, [], 3_000) == NOTHING
    assert watch.look({HERE: CONNECTION_BYTES_MAX + 1}, [HERE], 4_000).cut == {HERE}, "another connection from there"


def test_the_connections_of_a_network_share_what_it_may_send() -> None:
    watch = ByteWatch()
    each = CONNECTION_BYTES_MAX - LOG_IN_BYTES
    some = NETWORK_BYTES_MAX // each + 1
    peers = [Endpoint(f"2001:db8::{number:x}", 1) for number in range(some + 1)]
    received = dict.fromkeys(peers[: some - 1], CONNECTION_BYTES_MAX)
    assert watch.look(received, peers[: some - 1], 0) == NOTHING
    received |= {peers[-2]: CONNECTION_BYTES_MAX, peers[-1]: LOG_IN_BYTES, HERE: CONNECTION_BYTES_MAX}
    assert watch.look(received, [*received], 0) == ({peers[-2]}, {NETWORK}), "log-ins and other networks go on"


def test_a_network_that_is_shut_out_is_let_in_again_within_a_minute() -> None:
    watch, peer = ByteWatch(), Endpoint("2001:db8::1", 1)
    assert watch.look({peer: 1 << 40}, [peer], 0) == ({peer}, {NETWORK})
    assert watch.look({}, [], 30_000) == (set(), {NETWORK})
    assert watch.look({}, [], 60_000) == NOTHING


def test_however_many_clients_of_one_address_log_in_at_once_they_count_for_nothing() -> None:
    watch = ByteWatch()
    received = {Endpoint("10.0.0.1", port): LOG_IN_BYTES for port in range(5_000)}
    assert watch.look(received, [*received], 0) == NOTHING


def test_clients_of_one_address_that_begin_at_once_count_for_nothing_where_nobody_logs_in() -> None:
    watch = ByteWatch(FIRST_CALL_BYTES)
    received = {Endpoint("10.0.0.1", port): FIRST_CALL_BYTES for port in range(5_000)}
    assert watch.look(received, [*received], 0) == NOTHING, "the node is slow to hear of their first calls"


def test_connections_that_are_cut_for_refused_calls_count_against_their_network() -> None:
    watcher = ByteWatcher("OUT", AcceptedSockets((1,)), watched(lambda peer: True), int, CLOCK, THREADS)
    for _ in range(NETWORK_BYTES_MAX // REFUSED_BYTES):
        watcher.refused_too_much(Endpoint("2001:db8::1", 1), True)
    watcher.look()
    assert not watcher._shut_out, "a client that asks without a session in a loop"
    for number in range(3):
        watcher.refused_too_much(Endpoint(f"2001:db8::{number:x}", 1), True)
    watcher.look()
    assert watcher._shut_out == {NETWORK}


def test_refused_calls_alone_shut_out_no_network_from_which_somebody_is_logged_in() -> None:
    watch, neighbour = ByteWatch(), Endpoint("10.0.0.1", 1)
    log_in, sends = Endpoint("10.0.0.1", 2), Endpoint("10.0.0.1", 3)
    received = {log_in: LOG_IN_BYTES, sends: LOG_IN_BYTES + 1}
    for _ in range(100):
        watch.charge("10.0.0.1", REFUSED_BYTES)
    assert watch.look(received, [neighbour, log_in, sends], 0) == ({sends}, set()), "a log-in gets through"
    assert watch.look(received, [log_in, sends], 100).shut_out == {"10.0.0.1"}, "nobody is logged in there"
    assert watch.look(received, [neighbour, log_in, sends], 200) == NOTHING
    received[sends] += 1 << 40
    assert watch.look(received, [neighbour, log_in, sends], 300) == ({sends}, {"10.0.0.1"}), "bytes count as before"


def test_connections_that_come_and_go_without_a_log_in_shut_their_network_out_unless_somebody_is_logged_in() -> None:
    some = NETWORK_BYTES_MAX // LEFT_BYTES + 1
    visitors = [Endpoint("10.0.0.2", port) for port in range(1, some + 1)]
    watch = ByteWatch()
    assert watch.look(dict.fromkeys(visitors, 0), visitors, 0) == NOTHING, "they may all stay"
    assert watch.look({}, [], 100) == (set(), {"10.0.0.2"})
    assert watch.look({}, [], 60_000) == NOTHING
    assert watch.look(dict.fromkeys(visitors, 0), visitors, 60_000) == NOTHING
    neighbour = Endpoint("10.0.0.2", 50_000)
    assert watch.look({}, [neighbour], 60_100) == NOTHING, "somebody is logged in from there"


def test_a_network_may_have_some_connections_a_second_that_only_come_and_go() -> None:
    """Probes of its address, and commands that are done between two looks."""
    watch = ByteWatch()
    for look in range(3_000):
        visitor = Endpoint("10.0.0.2", 1 + look)
        assert watch.look({visitor: 0}, [visitor], 100 * look) == NOTHING


def test_many_clients_of_one_address_whose_sessions_are_over_are_not_shut_out_for_asking_once() -> None:
    """A broker was started again, and 1,500 calls are refused in a moment: 500 above the limit of a network."""
    watcher = ByteWatcher("OUT", AcceptedSockets((1,)), watched(lambda peer: True), int, CLOCK, THREADS)
    for port in range(500):
        watcher.refused_too_much(Endpoint("10.0.0.1", port), False)
    watcher.look()
    assert not watcher._shut_out


def test_networks_that_have_been_quiet_are_forgotten() -> None:
    watch = ByteWatch()
    for number in range(1_000):
        peer = Endpoint(f"10.0.{number >> 8}.{number & 255}", 1)
        watch.look({peer: 2 * LOG_IN_BYTES}, [peer], number * 1_000)
    assert len(watch._networks) <= 2 and len(watch._of) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
def test_a_connection_is_cut_while_nobody_reads_it_and_one_that_is_logged_in_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        with (
            socket.create_connection(address) as stranger,
            listening.accept()[0] as taken,
            socket.create_connection(address) as client,
            listening.accept()[0] as of_client,
        ):
            cuts: list[int] = []
            known = {Endpoint(*client.getsockname())}
            sockets = AcceptedSockets((address[1],))
            watcher = ByteWatcher("OUT", sockets, watched(known.__contains__), cuts.append, CLOCK, THREADS)
            watcher.start()
            try:
                until = time.monotonic() + SECONDS_MAX
                while not cuts and time.monotonic() < until:
                    for sender, receiver in ((stranger, taken), (client, of_client)):
                        try:
                            sender.sendall(bytes(16_384))
                            receiver.recv(16_384)
                        except OSError:
                            assert sender is stranger
                assert sum(cuts) == 1
                client.sendall(b"still here")
                stranger.settimeout(SECONDS_MAX)
                with pytest.raises(OSError):
                    for _ in range(100):
                        stranger.sendall(bytes(16_384))
            finally:
                watcher.stop()


class Overtaken:
    """Sockets whose connection is heard of while its bytes are counted."""

    def __init__(self) -> None:
        self.known: set[Endpoint] = set()
        self.cuts: list[Collection[Endpoint]] = []

    def descriptors(self) -> int:
        return 1

    def peers(self) -> list[Endpoint]:
        return [HERE]

    def carried(self, peers: Collection[Endpoint]) -> dict[Endpoint, Carried]:
        self.known.add(HERE)
        return {HERE: Carried(CONNECTION_BYTES_MAX + 1, 0)}

    def cut(self, peers: Collection[Endpoint]) -> None:
        self.cuts.append(peers)


def test_a_connection_whose_first_message_comes_while_bytes_are_counted_is_no_stranger() -> None:
    sockets = Overtaken()
    known = watched(sockets.known.__contains__)
    ByteWatcher("OUT", cast(AcceptedSockets, sockets), known, int, CLOCK, THREADS).look()
    assert not sockets.cuts


class Replaced(Overtaken):
    """Sockets of a stranger that closes its connection once it was found, and comes again from the same port."""

    def __init__(self) -> None:
        super().__init__()
        self.times_found = 0
        self.shut: list[Collection[str]] = []

    def peers(self) -> list[Endpoint]:
        self.times_found += 1
        return [HERE]

    def carried(self, peers: Collection[Endpoint]) -> dict[Endpoint, Carried]:
        sent = Carried(CONNECTION_BYTES_MAX + NETWORK_BYTES_MAX, 0)
        return {HERE: sent} if self.times_found > 1 else {}

    def shut_out(self, networks: Collection[str]) -> None:
        self.shut.append(networks)


def test_a_connection_that_takes_the_place_of_another_one_has_no_log_in_for_that() -> None:
    sockets = Replaced()
    watcher = ByteWatcher("OUT", cast(AcceptedSockets, sockets), watched(lambda peer: False), int, CLOCK, THREADS)
    for _ in range(LOOKS_FOR_NEWCOMERS + 1):
        watcher.look()
    assert sockets.cuts == [{HERE}] and sockets.shut == [{"10.0.0.1"}]


@pytest.mark.skipif(sys.platform != "linux", reason="sockets have filters on Linux")
def test_a_network_that_floods_a_listener_begins_no_connection_and_others_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address, cuts = listening.getsockname(), list[int]()
        sockets = AcceptedSockets((address[1],))
        watcher = ByteWatcher("OUT", sockets, watched(lambda peer: False), cuts.append, CLOCK, THREADS)
        with connected(address, "127.0.0.2") as stranger, listening.accept()[0] as taken:
            for _ in range(2 * NETWORK_BYTES_MAX // 65_536):
                stranger.sendall(bytes(65_536))
                left = 65_536
                while left:
                    left -= len(taken.recv(left))
            watcher.look()
            assert cuts == [1] and stranger.recv(1) == b""
            with pytest.raises(TimeoutError):
                connected(address, "127.0.0.2")
            connected(address, "127.0.0.3").close()


@pytest.mark.skipif(sys.platform != "linux", reason="connections are looked at by /proc")
def test_a_connection_whose_messages_come_may_send_without_end_and_one_whose_do_not_is_cut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address, cuts = listening.getsockname(), list[int]()
        with connected(address, "127.0.0.2") as one, listening.accept()[0] as taken:
            known, heard = watched(lambda peer: True, 2 * PARTY_BYTES_MIN), HeardConnections()
            known = known._replace(heard=heard)
            watcher = ByteWatcher("OUT", AcceptedSockets((address[1],)), known, cuts.append, CLOCK, THREADS)
            caller = Caller(Endpoint(*one.getsockname()), "OUT")
            heard.asked(caller)

            def send(count: int) -> None:
                for _ in range(count // 65_536):
                    one.sendall(bytes(65_536))
                    left = 65_536
                    while left:
                        left -= len(taken.recv(left))

            for _ in range(3):
                send(PARTY_BYTES_MIN)
                heard.delivered(caller, PARTY_BYTES_MIN)
                watcher.look()
            send(PARTY_BYTES_MIN + CONNECTION_BYTES // 2)
            watcher.look()
            assert not cuts
            send(CONNECTION_BYTES)
            watcher.look()
            assert cuts == [1] and one.recv(1) == b""


def connected(address: tuple[str, int], source: str) -> socket.socket:
    one = socket.socket()
    one.settimeout(0.5)
    try:
        one.bind((source, 0))
        one.connect(address)
    except OSError:
        one.close()
        raise
    return one
