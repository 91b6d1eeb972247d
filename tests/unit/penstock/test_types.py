"""Values that every part shares: which hosts mean every address of a machine, however they are spelt."""

from __future__ import annotations

import pytest

from penstock.types import Endpoint

EVERY_ADDRESS = (
    *("", "*", "0.0.0.0", "0", "0.0", "00.0.0.0", "0x0", "0X0.0"),
    *("::", "::0", "[::]", "0:0:0:0:0:0:0:0", "::0.0.0.0", "::ffff:0.0.0.0", "[::FFFF:0:0]"),
)
ONE_ADDRESS = (
    *("127.0.0.1", "10.0.0.0", "0.0.0.1", "0x", "0.0.0.0.0", "0-0", "a0", "localhost"),
    *("::1", "[::1]", "::ffff:127.0.0.1", "::ffff", "fe80::", "2001:db8::"),
)


@pytest.mark.parametrize("host", EVERY_ADDRESS)
def test_a_host_means_every_address_in_any_spelling(host: str) -> None:
    assert Endpoint(host, 1).is_every_address


@pytest.mark.parametrize("host", ONE_ADDRESS)
def test_a_host_that_looks_like_it_is_one_address(host: str) -> None:
    assert not Endpoint(host, 1).is_every_address
