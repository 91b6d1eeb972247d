"""IP addresses in the metadata: of an ACL's host, and of a quota. They are compared as they are written.

So only the form that a connection's address has ever counts. Not here: where an address may stand.
"""

from __future__ import annotations

import ipaddress

from penstock.errors import InvalidRequestError

_SHOWN = 64


def check_address(text: str, remedy: str) -> None:
    """InvalidRequestError for what is no address, or not written as a connection has it."""
    try:
        written = str(ipaddress.ip_address(text))
    except ValueError:
        raise InvalidRequestError(f"{text[:_SHOWN]!r} is no address: {remedy}") from None
    if written != text:
        raise InvalidRequestError(f"write the address {text!r} as {written!r}: it is compared as it is written")
