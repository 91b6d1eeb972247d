"""Reads the body of a form: urlencoded, bounded, and with no field that its page does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from penstock.console.fields import FORM_BYTES_MAX, FieldError, Fields

TOKEN: Final = "token"
"""The field by which a form shows that this console gave it to this browser."""
KIND: Final = "application/x-www-form-urlencoded"


async def read_form(request: Request, known: Sequence[str], bytes_max: int = FORM_BYTES_MAX) -> Fields:
    """The fields of a form that was sent; FieldError where it is too long, or is not urlencoded."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != KIND:
        raise FieldError("content-type", f"must be {KIND}")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise FieldError("form", f"it is longer than {bytes_max} bytes")
    return Fields.parsed(bytes(body), known, bytes_max)
