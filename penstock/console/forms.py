"""Reads the body of a form: urlencoded, bounded, and with no field that its page does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from starlette.requests import Request

from penstock.console.fields import FORM_BYTES_MAX, FieldError, Fields
from penstock.errors import PenstockError

TOKEN: Final = "token"
"""The field by which a form shows that this console gave it to this browser."""
BODIES_BYTES_MAX: Final = 32 * 1024 * 1024
KIND: Final = "application/x-www-form-urlencoded"


class TooManyBodiesError(PenstockError):
    """The console has no memory for one more form."""


class BodiesHeld:
    """The bytes of all bodies that are on their way at a time: many slow ones together would fill the memory."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self._bytes_max, self._held = bytes_max, 0

    @contextmanager
    def one(self) -> Iterator[Callable[[int], None]]:
        """One body; the function counts more bytes of it. TooManyBodiesError where there are too many of all."""
        own = 0

        def count(size_bytes: int) -> None:
            nonlocal own
            if self._held + size_bytes > self._bytes_max:
                raise TooManyBodiesError("too many forms are being sent to this console; send it again in a moment")
            self._held, own = self._held + size_bytes, own + size_bytes

        try:
            yield count
        finally:
            self._held -= own

    def __repr__(self) -> str:
        return f"BodiesHeld({self._held} of {self._bytes_max} bytes)"


async def read_form(request: Request, known: Sequence[str], bytes_max: int = FORM_BYTES_MAX) -> Fields:
    """The fields of a form that was sent; FieldError where it is too long, or is not urlencoded."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != KIND:
        raise FieldError("content-type", f"must be {KIND}")
    body = bytearray()
    with request.app.state.bodies.one() as count:
        async for part in request.stream():
            count(len(part))
            body += part
            if len(body) > bytes_max:
                raise FieldError("form", f"it is longer than {bytes_max} bytes")
        return Fields.parsed(bytes(body), known, bytes_max)
