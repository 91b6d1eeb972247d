"""Throttles the copies for replicas that move while a command moves them: a value for all brokers (KIP-73 between
brokers, KIP-113 between the log dirs of one).

When the command is done, what was there before holds again, unless somebody else has set another value meanwhile. When
it is stopped, the moves that began go on, and so does the throttle. A broker with a value of its own keeps it. Not
here: what is throttled (`broker/replication/move_throttle.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import note
from penstock.lazy_dataclass import dataclass
from penstock.written.numbers import INT64_MAX

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin

KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_KEYS = ("replica.alter.log.dirs.io.max.bytes.per.second",)
WHOSE = dict(zip((*KEYS, *LOG_DIR_KEYS), ("leaders", "followers", "moves between log dirs"), strict=True))
Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES",
        min=1,
        max=INT64_MAX,
        help="Copy at most so many bytes a second to and from each broker; what is in sync is not throttled.",
    ),
]


@dataclass(slots=True)
class ThrottleHold:
    """Set within the block where moves go on after it."""

    stays: bool = False


@contextmanager
def throttled(admin: Admin, bytes_per_second: int | None, keys: Sequence[str] = KEYS) -> Iterator[ThrottleHold]:
    """Gives copies this rate within the block. None: they keep the rate that they have."""
    hold = ThrottleHold()
    if bytes_per_second is None:
        yield hold
        return
    before = _values(admin, keys)
    ours = dict.fromkeys(keys, str(bytes_per_second))
    staying = f"the throttle of {bytes_per_second} bytes a second stays; {_how_to_end_it(keys)}"
    try:
        admin.alter_broker_config(None, dict.fromkeys(keys, bytes_per_second))
        yield hold
        now = _values(admin, keys)
        if not any(now.values()):
            note("somebody else has ended the throttle meanwhile: there is none now")
            return
        if now != ours:
            note(f"somebody else has changed the throttle meanwhile: what they set stays; {_how_to_end_it(keys)}")
            return
        if hold.stays:
            note(staying)
            return
        admin.alter_broker_config(None, before)
    except BaseException:
        note(staying)
        raise
    if any(before.values()):
        limits = " and ".join(f"{before[key] or 'no'} for {WHOSE[key]}" for key in keys)
        note(f"the throttle is what it was before, in bytes a second: {limits}; {_how_to_end_it(keys)}")


def _values(admin: Admin, keys: Sequence[str]) -> dict[str, str | None]:
    """The values for all brokers; None: nothing is set."""
    known = admin.describe_broker_config(None)
    return {key: known[key].value if key in known else None for key in keys}


def _how_to_end_it(keys: Sequence[str]) -> str:
    return f"`penstock configs alter --broker-default {' '.join(f'--unset {key}' for key in keys)}` ends it"
