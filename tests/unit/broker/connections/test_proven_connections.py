"""Connections whose certificate has proved somebody are known until they end, and streams count by network."""

from __future__ import annotations

import pytest

from broker.connections.proven_connections import ProvenConnections
from broker.connections.stream_quotas import StreamQuotas
from penstock.errors import ResourceExhaustedError
from penstock.types import Endpoint

ANNA, BERT = Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 1)


def test_a_connection_is_known_from_its_first_call_until_a_look_does_not_find_it() -> None:
    proven = ProvenConnections()
    proven.note(ANNA, "User:anna")
    assert proven.all() == {ANNA: "User:anna"}
    proven.looked(())
    assert proven.all() == {ANNA: "User:anna"}, "the look may have come before the connection"
    proven.note(ANNA, "User:anna")
    proven.note(BERT, "User:bert")
    proven.looked([BERT])
    assert proven.all() == {BERT: "User:bert"}


def test_the_streams_of_one_network_of_64_bits_count_together() -> None:
    quotas = StreamQuotas(10, 2)
    peers = [Endpoint(f"2001:db8::{number:x}", 1) for number in range(3)]
    for peer in peers[:2]:
        quotas.connected(peer)
    with pytest.raises(ResourceExhaustedError, match=r"2001:db8::/64 has max.connections.per.ip=2"):
        quotas.connected(peers[2])
    quotas.connected(ANNA)
    quotas.disconnected(peers[0])
    quotas.connected(peers[2])
