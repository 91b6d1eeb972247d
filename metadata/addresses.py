"""IP addresses: how they are written in the metadata.

The addresses of an ACL's host and of a quota must be written as a connection has them (`penstock/addresses.py`), so
that lists show what is compared. Not here: where an address may stand.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from penstock.addresses import as_connected
from penstock.errors import InvalidRequestError

_SHOWN: Final = 64


def check_address(text: str, remedy: str) -> None:
    """InvalidRequestError for what is no address, or not written as a connection has it."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise InvalidRequestError(f"{text[:_SHOWN]!r} is no address: {remedy}") from None
    written = as_connected(text)
    if written != text:
        raise InvalidRequestError(f"write the address {text!r} as {written!r}: connections from it have that form")


def ip_version(host: str) -> int | None:
    """4 or 6, by which sockets reach the address; None for text that is no address. An IPv4 address in IPv6's form
    gives None too: systems differ in it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    is_mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if is_mapped else address.version
