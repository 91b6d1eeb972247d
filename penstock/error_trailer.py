"""The wire code of an error of a whole call: one entry of gRPC's trailing metadata, `penstock-error-code: 42`.

Shared by both edges: a node writes it, clients and other nodes read it. A trailer may come from a newer node, or pass
through a proxy, so nothing in it may be worse for its reader than an error that it does not know. An entry that is no
code says nothing: gRPC's status tells what happened. Not here: gRPC itself, and what its statuses mean
(client/wire/channel.py, broker/grpc/errors.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.errors import ApiError, error_for

ERROR_CODE_KEY = "penstock-error-code"

_CODE = re.compile(r"-?[0-9]{1,5}", re.ASCII)
"""Codes have 16 bits, as Kafka's have."""


def trailer_of(error: ApiError) -> tuple[tuple[str, str], ...]:
    """The trailing metadata of a call that ends with this error."""
    return ((ERROR_CODE_KEY, str(error.code)),)


def error_in_trailer(trailer: Iterable[tuple[str, str | bytes]] | None, details: str) -> ApiError | None:
    """The error that a node told with `details`; None when the trailer has no code of an error."""
    for key, value in trailer or ():
        if key == ERROR_CODE_KEY and isinstance(value, str) and _CODE.fullmatch(value) and int(value):
            return error_for(int(value), details)
    return None
