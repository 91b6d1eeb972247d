"""Throttles the copies for replicas that move while a command moves them: a value for all brokers (KIP-73).

When the command is done, what was there before holds again, unless somebody else has set another value meanwhile. When
it is stopped, the moves that began go on, and so does the throttle. A broker with a value of its own keeps it. Not
here: what is throttled (`broker/replication/move_throttle.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.client.admin.admin import Admin

KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        metavar="BYTES",
        min=1,
        help="Copy at most so many bytes a second to and from each broker; what is in sync is not throttled.",
    ),
]


@contextmanager
def throttled(admin: Admin, bytes_per_second: int | None) -> Iterator[None]:
    """Within the block copies have this rate; None: they have what they had."""
    if bytes_per_second is None:
        yield
        return
    before = _values(admin)
    ours = dict.fromkeys(KEYS, str(bytes_per_second))
    try:
        admin.alter_broker_config(None, dict.fromkeys(KEYS, bytes_per_second))
        yield
        if _values(admin) == ours:
            admin.alter_broker_config(None, before)
        else:
            note(f"somebody else has changed the throttle meanwhile: what they set stays; {_how_to_end_it()}")
            return
    except BaseException:
        note(f"the throttle of {bytes_per_second} bytes a second stays; {_how_to_end_it()}")
        raise
    if any(before.values()):
        told = " and ".join(f"{before[key] or 'no'} for {key.partition('.')[0]}s" for key in KEYS)
        note(f"the throttle is what it was before, in bytes a second: {told}; {_how_to_end_it()}")


def _values(admin: Admin) -> dict[str, str | None]:
    """What all brokers have; None: nothing."""
    known = admin.describe_broker_config(None)
    return {key: known[key].value if key in known else None for key in KEYS}


def _how_to_end_it() -> str:
    return f"`penstock configs alter --broker-default {' '.join(f'--unset {key}' for key in KEYS)}` ends it"
