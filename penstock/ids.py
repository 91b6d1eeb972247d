"""Makes random ids: every part that names something new is given an `Ids`, so that in a test a seed decides the names.

An id has Kafka's form: 16 random bytes as 22 characters of URL-safe base64. An id that would begin with a dash is drawn
again, because a command line would take it for an option.
"""

from __future__ import annotations

import base64
import random
import re
from typing import Final, Protocol

ID_BYTES = 16
_ID: Final = re.compile(r"(?!A{20})[A-Za-z0-9_][A-Za-z0-9_-]{20}[AQgw]")
"""The one text of 16 bytes. Other last letters would spell the same bytes twice; Kafka keeps the ids that begin with 20
times A."""


def is_id(text: str) -> bool:
    """True of an id that `new_id` may make, as a text that came from outside."""
    return _ID.fullmatch(text) is not None


class Ids(Protocol):
    """A source of ids that are not in use anywhere."""

    def new_id(self) -> str: ...


class RandomIds:
    """Ids from a source of random bytes: `random.SystemRandom()` in a process, a seeded one in a simulation."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def new_id(self) -> str:
        while True:
            text = base64.urlsafe_b64encode(self._source.randbytes(ID_BYTES)).decode("ascii").rstrip("=")
            if not text.startswith("-"):
                return text

    def __repr__(self) -> str:
        return f"RandomIds({type(self._source).__name__})"


def system_ids() -> RandomIds:
    """Ids that no other process draws."""
    return RandomIds(random.SystemRandom())
