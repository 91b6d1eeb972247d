"""The records that a handler returns, in any of the forms that it may return them in, and dead letters.

Not here: which records become dead letters (verdicts.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.errors import HandlerError
from penstock.record.builder import HeadersLike

ERROR_CHARACTERS_MAX: Final = 1_000


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
    """The records; HandlerError where it is anything else."""
    if returned is None:
        return ()
    if isinstance(returned, Output):
        return (returned,)
    if not isinstance(returned, (str, bytes)) and isinstance(returned, Iterable):
        outputs = tuple(returned)
        if all(isinstance(one, Output) for one in outputs):
            return outputs
    if inspect.iscoroutine(returned):
        returned.close()  # nobody awaits it
        raise HandlerError("the handler has returned a coroutine, which async_process takes, and process does not")
    raise HandlerError(f"a handler returns an Output, several of them, or None, not {returned!r:.200}")


def dead_letter(topic: str, record: ConsumerRecord, error: Exception) -> Output:
    """The whole record for the topic of dead letters, with its place and the error in headers."""
    headers = (
        *record.headers,
        ("penstock.dead.topic", record.topic.encode()),
        ("penstock.dead.partition", str(record.partition).encode()),
        ("penstock.dead.offset", str(record.offset).encode()),
        ("penstock.dead.error", f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX].encode()),
    )
    return Output(topic, record.value, record.key, headers, None, record.timestamp_ms)
