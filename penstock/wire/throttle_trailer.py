"""The times for which a client makes no call after one, in gRPC's trailing metadata (KIP-219).

    penstock-throttle-time-ms: 800       no call at all
    penstock-throttle-changes-ms: 4000   none that makes or deletes partitions (`Api.changes_partitions`)

Two entries for every API that is a call, whether the call has an answer or an error. A client that made too many
partitions for its quota may still ask whether they are there. The answers of a stream have a field instead, because a
stream has many answers and one trailer. Shared by both edges: a node writes it, clients read it. An entry that is no
time says nothing. Not here: gRPC itself, and the wait (client/wire/throttle.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

CALLS_KEY, CHANGES_KEY = "penstock-throttle-time-ms", "penstock-throttle-changes-ms"

Trailer = Iterable[tuple[str, str | bytes]]

_TIME = re.compile(r"[0-9]{1,10}", re.ASCII)
_TIME_MS_MAX = 2**31 - 1
"""The limit of the messages of streams, too."""


class Throttled(NamedTuple):
    """The waits that a client was told, before its next call and before its next change of partitions."""

    calls_ms: int = 0
    changes_ms: int = 0


def throttle_trailer(throttled: Throttled) -> tuple[tuple[str, str], ...]:
    """The trailing metadata of the call; a time of 0 has no entry."""
    entries = zip((CALLS_KEY, CHANGES_KEY), throttled, strict=True)
    return tuple((key, str(min(time_ms, _TIME_MS_MAX))) for key, time_ms in entries if time_ms > 0)


def throttle_in(trailer: Trailer | None) -> Throttled:
    """The waits that a node told with a call."""
    found = dict.fromkeys((CALLS_KEY, CHANGES_KEY), 0)
    for key, value in trailer or ():
        if key in found and isinstance(value, str) and _TIME.fullmatch(value):
            found[key] = min(int(value), _TIME_MS_MAX)
    return Throttled(found[CALLS_KEY], found[CHANGES_KEY])
