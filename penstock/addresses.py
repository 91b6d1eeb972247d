"""IP addresses as connections have them, so that one which is written otherwise is still the same machine's.

The kernel tells the address of an IPv4 client as IPv6, ::ffff:10.0.0.7, where a socket takes both. Such an address is
10.0.0.7 here. gRPC gives a link-local address with its zone (fe80::1%2), a socket without it; here it has no zone. Not
here: where an address may stand (`metadata/addresses.py`), and what follows from it.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

_KEPT: Final = 4_096


@lru_cache(_KEPT)
def as_connected(text: str) -> str:
    """The address in the form in which a connection's is compared. Text that is no address is returned unchanged."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
