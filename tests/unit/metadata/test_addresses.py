"""The addresses of one machine are known to be one's."""

from __future__ import annotations

import pytest

from penstock.addresses import network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_the_addresses_of_one_machine_count_as_one(host: str, network: str) -> None:
    assert network_of(host) == network
