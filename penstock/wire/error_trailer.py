"""The wire code of an error of a whole call, in gRPC's trailing metadata: `penstock-error-code: 42`.

An error that names the leader of the quorum has a second entry, `penstock-leader: 2 9`: its id and its epoch.

Shared by both edges: a node writes it, clients and other nodes read it. A trailer may come from a newer node, or pass
through a proxy, so nothing in it may be worse for its reader than an error that it does not know. An entry that is no
code says nothing: gRPC's status tells what happened. Not here: gRPC itself, and what its statuses mean
(client/wire/channel.py, broker/grpc/errors.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.errors import ApiError, error_for
from penstock.types import NO_LEADER, LeaderHint

ERROR_CODE_KEY = "penstock-error-code"
LEADER_KEY = "penstock-leader"

_CODE = re.compile(r"-?[0-9]{1,5}", re.ASCII)
"""Codes have 16 bits, as Kafka's have."""
_LEADER = re.compile(r"([0-9]{1,10}) ([0-9]{1,10})", re.ASCII)
"""Ids and epochs have 31 bits."""


def trailer_of(error: ApiError) -> tuple[tuple[str, str], ...]:
    """The trailing metadata of a call that ends with this error."""
    code = (ERROR_CODE_KEY, str(error.code))
    hint = error.leader
    if hint is None or hint.leader_id == NO_LEADER or hint.topic_id:  # a partition's hint belongs into a message
        return (code,)
    return code, (LEADER_KEY, f"{hint.leader_id} {hint.leader_epoch}")


def error_in_trailer(trailer: Iterable[tuple[str, str | bytes]] | None, details: str) -> ApiError | None:
    """The error that a node told with `details`; None when the trailer has no code of an error."""
    code, hint = 0, None
    for key, value in trailer or ():
        if not isinstance(value, str):
            continue
        if key == ERROR_CODE_KEY and not code and _CODE.fullmatch(value):
            code = int(value)
        elif key == LEADER_KEY and (found := _LEADER.fullmatch(value)):
            hint = LeaderHint(int(found[1]), int(found[2]))
    return error_for(code, details, leader=hint) if code else None
