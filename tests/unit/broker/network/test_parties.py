"""Who pays for what is used: the principal of a caller that proved its identity, and the network of any other."""

from __future__ import annotations

import pytest

from broker.network.parties import party, party_of
from broker.network.request_channel import ANONYMOUS, Caller
from penstock.types import Endpoint


def test_a_principal_is_one_party_from_every_address() -> None:
    assert party("User:anna", "10.0.0.1") == party("User:anna", "2001:db8::1") == "User:anna"


def test_two_principals_behind_one_address_are_two_parties() -> None:
    assert party("User:anna", "10.0.0.1") != party("User:bill", "10.0.0.1")


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"),
        ("unix:", "unix:"),
    ],
)
def test_an_anonymous_caller_is_its_network(host: str, network: str) -> None:
    assert party_of(Caller(Endpoint(host, 1), principal=ANONYMOUS)) == network
