"""Promises of who pays for the memory of a request, in both protocols: a principal, or an anonymous caller's
network."""

from __future__ import annotations

from typing import Any

import pytest

from broker.coordination.joined_answers import client_of
from broker.load.party_shares import NOBODY
from broker.network.request_channel import Caller, Request
from penstock.types import CLIENT_LISTENER, Endpoint, ListenerType

SINK: Any = None


def party(caller: Caller) -> str:
    return client_of(Request("OffsetCommit", None, SINK, caller, lambda: 0)).party


@pytest.mark.parametrize("listener_type", list(ListenerType))
def test_a_principal_pays_from_whatever_address_it_comes(listener_type: ListenerType) -> None:
    callers = [
        Caller(Endpoint(host, 1), CLIENT_LISTENER, "User:anna", listener_type) for host in ("10.0.0.1", "10.0.0.2")
    ]
    assert {party(caller) for caller in callers} == {"User:anna"}


@pytest.mark.parametrize("listener_type", list(ListenerType))
def test_anonymous_callers_of_one_network_pay_together(listener_type: ListenerType) -> None:
    hosts = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")
    callers = [Caller(Endpoint(host, 1), listener_type=listener_type) for host in hosts]
    assert len({party(caller) for caller in callers}) == 2


def test_a_node_of_this_cluster_asks_for_others_so_nobody_pays() -> None:
    assert party(Caller(Endpoint("10.0.0.1", 1), "BROKER", "User:node-1", node_id=1)) == NOBODY
