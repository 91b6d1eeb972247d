"""The headers in front of requests and responses.

    request v1       api key int16, api version int16, correlation id int32, client id nullable string
    request v2       the same and tagged fields; of a flexible version
    response v0      correlation id int32
    response v1      the same and tagged fields; of a flexible version, but never of ApiVersions, whose client cannot
                     know yet which versions the node has

A request header is read in two steps, because its second part depends on what the first says. Pure.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from broker.kafka_codec.primitives import bad_length, skip_tags
from penstock.errors import InvalidRequestError

API_VERSIONS_KEY: Final = 18
_START: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = struct.Struct(">ix")


class HeaderStart(NamedTuple):
    """The part of a request header that all versions have."""

    api_key: int
    api_version: int
    correlation_id: int


def read_header_start(view: memoryview) -> HeaderStart:
    if len(view) < _START.size:
        raise InvalidRequestError(f"a request has {len(view)} bytes: too few for its header")
    return HeaderStart(*_START.unpack_from(view))


def read_header_rest(view: memoryview, flexible: bool) -> tuple[str | None, int]:
    """The client id, and where the body begins."""
    at = _START.size + _LENGTH.size
    try:
        (length,) = _LENGTH.unpack_from(view, _START.size)
        client_id = None
        if length >= 0:
            if length > len(view) - at:
                raise bad_length("the client id", length, len(view) - at)
            client_id = str(view[at : at + length], "utf-8")
            at += length
        elif length < -1:
            raise bad_length("the client id", length, len(view) - at)
        if flexible:
            at = skip_tags(view, at + 1, view[at])
    except (struct.error, IndexError):
        raise InvalidRequestError("a request ends inside of its header") from None
    except UnicodeDecodeError:
        raise InvalidRequestError("the client id is not UTF-8") from None
    return client_id, at


def request_header(start: HeaderStart, client_id: str | None, flexible: bool) -> bytes:
    """A request's header, for those who speak to a node through this codec."""
    name = b"" if client_id is None else client_id.encode()
    length = _LENGTH.pack(-1 if client_id is None else len(name))
    return _START.pack(*start) + length + name + (b"\0" if flexible else b"")


def response_header(api_key: int, correlation_id: int, flexible: bool) -> bytes:
    """`flexible` is the response's version."""
    packing = _CORRELATION_ID_AND_NO_TAGS if flexible and api_key != API_VERSIONS_KEY else _CORRELATION_ID
    return packing.pack(correlation_id)


def read_response_header(view: memoryview, api_key: int, flexible: bool) -> tuple[int, int]:
    """The correlation id, and where the body begins."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
        at = _CORRELATION_ID.size
        if flexible and api_key != API_VERSIONS_KEY:
            at = skip_tags(view, at + 1, view[at])
    except (struct.error, IndexError):
        raise InvalidRequestError("a response ends inside of its header") from None
    return correlation_id, at
