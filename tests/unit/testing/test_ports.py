"""The ports of a local cluster: fixed ones, free ones, and those for Kafka's clients, which pass over what is taken."""

from __future__ import annotations

import random
import socket

import pytest

from penstock.errors import ConfigError
from penstock.testing.ports import (
    EVERY_ADDRESS,
    HOST,
    HeldPorts,
    NodePorts,
    fixed_ports,
    free_kafka_ports,
    free_ports,
    is_free,
    more_ports,
)


def test_fixed_ports_leave_room_between_the_kinds() -> None:
    assert fixed_ports(2, 9192) == (NodePorts(9192, 9292, 9392, 9492, 9592), NodePorts(9193, 9293, 9393, 9493, 9593))
    with pytest.raises(ConfigError, match="out of range"):
        fixed_ports(3, 65_300)


def test_free_ports_are_distinct_and_below_the_ephemeral_ones() -> None:
    ports = [port for node in free_ports(5) for port in node]
    assert len(set(ports)) == 25 and max(ports) < 32_768


def test_more_ports_are_of_the_kind_of_the_first_ones() -> None:
    assert more_ports(fixed_ports(1, 9192), 3) == fixed_ports(3, 9192)
    chosen = tuple(node._replace(kafka=9092) for node in fixed_ports(1, 9192))
    assert more_ports(chosen, 2)[1] == fixed_ports(2, 9192)[1], "another port for Kafka's clients changes nothing else"
    without = tuple(node._replace(kafka=0) for node in free_ports(2))
    assert more_ports(without, 4)[:2] == without and {node.kafka for node in more_ports(without, 4)} == {0}


def test_a_port_for_kafkas_clients_that_is_taken_is_passed_over() -> None:
    ports = fixed_ports(3, 9092)
    with socket.create_server((HOST, 0)) as taken:
        first = taken.getsockname()[1]
        assert not is_free(HOST, first) and not is_free(EVERY_ADDRESS, first)
        found = free_kafka_ports((first, first, 0), ports, HOST)
        assert first not in found and first < found[0] < found[1] and found[2] == 0
    assert free_kafka_ports((9092, 9093, 9094), ports, HOST)[0] > 9094, "the brokers' own ports are taken, too"
    with pytest.raises(ConfigError, match="no port from 65535 to 65535 is free"):
        free_kafka_ports((65_535, 65_535), ports[:2], HOST)


def test_the_ports_of_a_node_that_is_down_are_given_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, held = free_ports(1), HeldPorts()
    known = set(mine[0])
    others = iter([*sorted(known), *(port for port in range(20_000, 30_000) if port not in known)])

    class Draw:
        """Draws the ports of the node that is down before any other."""

        def randint(self, low: int, high: int) -> int:
            return next(others)

    monkeypatch.setattr(random, "SystemRandom", Draw)
    held.hold(mine)
    try:
        assert not known & set(free_ports(1)[0])
        with socket.create_server((HOST, mine[0].broker)):  # as a node listens: with SO_REUSEADDR
            assert not is_free(HOST, mine[0].broker)
        assert is_free(HOST, mine[0].broker), "the node itself comes back"
    finally:
        held.release()
    others = iter(sorted(known))
    assert known == set(free_ports(1)[0]), "the cluster is gone"


def test_holding_again_and_a_port_of_somebody_else_change_nothing() -> None:
    held = HeldPorts()
    with socket.create_server((HOST, 0)) as taken:
        ports = (NodePorts(taken.getsockname()[1], *free_ports(1)[0][1:]),)
        try:
            held.hold(ports)
            held.hold(ports)
        finally:
            held.release()
    assert all(is_free(HOST, port) for port in ports[0])
