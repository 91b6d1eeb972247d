"""IP addresses as connections have them, so that one which is written otherwise is still the same machine's; and which
of them are one machine's.

The kernel tells the address of an IPv4 client as IPv6, ::ffff:10.0.0.7, where a socket takes both. Such an address is
10.0.0.7 here. gRPC gives a link-local address with its zone (fe80::1%2), a socket without it; here it has no zone. Not
here: where an address may stand, and what follows from it.
"""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache
from typing import Final

from penstock.errors import InvalidRequestError

_KEPT: Final = 4_096
_NETWORK_BITS: Final = 64
_SHOWN: Final = 64


@lru_cache(_KEPT)
def as_connected(text: str) -> str:
    """The address in the form in which a connection's is compared. Text that is no address is returned unchanged."""
    try:
        return _quickly(text.partition("%")[0])
    except ValueError:
        pass
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def check_address(text: str, remedy: str) -> None:
    """InvalidRequestError for what is no address, or not written as a connection has it."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise InvalidRequestError(f"{text[:_SHOWN]!r} is no address: {remedy}") from None
    written = as_connected(text)
    if written != text:
        raise InvalidRequestError(f"write the address {text!r} as {written!r}: connections from it have that form")


_MAPPED: Final = bytes(10) + b"\xff\xff"
_COMPATIBLE: Final = bytes(12)
"""The kernel's library writes these addresses otherwise."""


def _quickly(text: str) -> str:
    """The form of the address that `ipaddress` gives, in a tenth of the time: the owner of many networks of IPv6 has
    more addresses than are kept. ValueError for text that it does not know."""
    try:
        if ":" not in text:
            return socket.inet_ntoa(socket.inet_pton(socket.AF_INET, text))
        packed = socket.inet_pton(socket.AF_INET6, text)
    except OSError as error:
        raise ValueError(text) from error
    if packed[:12] == _MAPPED:
        return socket.inet_ntoa(packed[12:])
    if packed[:12] == _COMPATIBLE:
        raise ValueError(text)
    return socket.inet_ntop(socket.AF_INET6, packed)


@lru_cache(_KEPT)
def network_of(host: str) -> str:
    """The name under which a host is counted: an IPv4 address itself, and of an IPv6 address its network of 64 bits,
    because one machine has as many of its addresses as it likes. Text that is no address stays as it is."""
    written = as_connected(host)
    family = socket.AF_INET6 if ":" in written else socket.AF_INET
    try:
        packed = socket.inet_pton(family, written)
    except (OSError, ValueError):
        return host
    if family == socket.AF_INET:
        return written
    network = packed[: _NETWORK_BITS // 8].ljust(len(packed), b"\0")
    return f"{socket.inet_ntop(socket.AF_INET6, network)}/{_NETWORK_BITS}"


def is_loopback(host: str) -> bool:
    """Other machines do not reach that host."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def ip_version(host: str) -> int | None:
    """4 or 6, by which sockets reach the address; None for text that is no address. An IPv4 address in IPv6's form
    gives None too: systems differ in it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    is_mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if is_mapped else address.version
