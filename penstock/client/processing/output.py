"""The records that a handler returns, in any of the forms that it may return them in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.record.builder import HeadersLike


class Output(NamedTuple):
    """A record to write. The arguments are those of `Producer.send`."""

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


Outputs = Output | Iterable[Output] | None
"""The forms in which a handler may return records: one, several, or none."""


def checked_outputs(returned: Any) -> tuple[Output, ...]:
    """The records; TypeError where it is anything else."""
    if returned is None:
        return ()
    if isinstance(returned, Output):
        return (returned,)
    if not isinstance(returned, (str, bytes)) and isinstance(returned, Iterable):
        outputs = tuple(returned)
        if all(isinstance(one, Output) for one in outputs):
            return outputs
    raise TypeError(f"a handler returns an Output, several of them, or None, not {returned!r:.200}")
