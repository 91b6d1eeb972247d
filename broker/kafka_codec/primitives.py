"""The small pieces of Kafka's encoding that compiled readers and writers call, and the errors that they raise.

    uvarint      7 bits a byte, the lowest first, the top bit set on all but the last; 32 bits, so five bytes at most
    uuid         16 bytes; ours as 22 characters of URL-safe base64, the zero uuid as ""
    tagged field uvarint tag, uvarint size, that many bytes; tags ascend, so none comes twice

Pure. A reader checks a length against the bytes that are left before it takes them, so that no number in a request
makes it allocate. Not here: fields and messages (fields.py, structs.py).
"""

from __future__ import annotations

import binascii
from typing import Final

from penstock.errors import InvalidRequestError, UnsupportedVersionError

STRING_BYTES_MAX: Final = 0x7FFF
"""Kafka's own limit, in flexible versions too."""
LONG_STRING_BYTES: Final = 1024
STRING_BYTES_SHIFT: Final = 8
"""A string of LONG_STRING_BYTES or more counts as elements, one for 256 bytes (2 ** 8). It is decoded, looked at, and
often encoded again in an answer, and may take four times its bytes in memory. No name that there is, is as long."""
TAGS_MAX: Final = 127
"""Tagged fields of one section: as many as one byte can count. Kafka's own messages have seven at most; each costs work
before anybody is judged."""
UVARINT_BYTES_MAX: Final = 5
ZERO_UUID: Final = bytes(16)
UVARINTS: Final = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1024))
"""The encodings of the numbers that lengths and counts mostly are."""


class TooManyElementsError(Exception):
    """A message has more elements than its reader was told that it may have. Its text is for the log."""

    def __init__(self, text: str, missing: int) -> None:
        super().__init__(text)
        self.missing = missing
        """The least number of elements that it needs more: those of the array that its reader has come to, and has not
        made."""


class EncodeError(ValueError):
    """A message of our own that has no encoding: a value of the wrong type, or too large for its field."""


_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


# -- reading -----------------------------------------------------------------------------------------------------------


def long_uvarint(view: memoryview, at: int, first: int) -> tuple[int, int]:
    """The number whose first byte, above 127, is read already, and where it ends."""
    number, shift = first & 127, 7
    while True:
        byte = view[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= 7 * UVARINT_BYTES_MAX:
            raise InvalidRequestError(f"a varint has more than {UVARINT_BYTES_MAX} bytes")
    if number >> 32:
        raise InvalidRequestError("a varint is above 32 bits")
    return number, at


def uvarint(view: memoryview, at: int) -> tuple[int, int]:
    first = view[at]
    return (first, at + 1) if first < 128 else long_uvarint(view, at + 1, first)


def uuid_text(value: bytes) -> str:
    if value == ZERO_UUID:
        return ""
    return binascii.b2a_base64(value, newline=False)[:22].translate(_TO_URL).decode("ascii")


def tag_head(view: memoryview, at: int, before: int) -> tuple[int, int, int]:
    """The next tagged field: its tag, which comes after `before`, and where its value begins and ends."""
    tag, at = uvarint(view, at)
    if tag <= before:
        raise InvalidRequestError(f"the tagged field {tag} comes after {before}: tags ascend, and none comes twice")
    size, at = uvarint(view, at)
    if size > len(view) - at:
        raise InvalidRequestError(f"the tagged field {tag} has {size} bytes, and {len(view) - at} are left")
    return tag, at, at + size


def skip_tags(view: memoryview, at: int, count: int) -> int:
    """The end of a section of tagged fields that nobody here knows; the first byte of its count is read already."""
    if count > TAGS_MAX:
        raise too_many_tags()
    tag = -1
    for _ in range(count):
        tag, _, at = tag_head(view, at, tag)
    return at


# -- writing -----------------------------------------------------------------------------------------------------------


def uvarint_bytes(number: int) -> bytes:
    if number < 1024:
        return UVARINTS[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def uuid_bytes(text: str) -> bytes:
    if not text:
        return ZERO_UUID
    try:
        value = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"==")
    except ValueError:
        value = b""
    if len(value) != len(ZERO_UUID) or len(text) != 22:
        raise EncodeError(f"{text!r} is no uuid of 22 characters")
    return value


# -- what is wrong -----------------------------------------------------------------------------------------------------


def bad_length(where: str, length: int, left: int) -> InvalidRequestError:
    if length < -1:
        return InvalidRequestError(f"{where} has the length {length}")
    return InvalidRequestError(f"{where} has the length {length}, and {left} bytes are left")


def bad_string(where: str, length: int, left: int) -> InvalidRequestError:
    if length > STRING_BYTES_MAX:
        return InvalidRequestError(f"{where} has {length} bytes, and a string has at most {STRING_BYTES_MAX}")
    return bad_length(where, length, left)


def bad_null(where: str) -> InvalidRequestError:
    return InvalidRequestError(f"{where} is null, and may not be")


def bad_marker(where: str, marker: int) -> InvalidRequestError:
    return InvalidRequestError(f"{where} begins with {marker}, and not with -1 (null) or 1")


def bad_tag_size(where: str, over: int) -> InvalidRequestError:
    return InvalidRequestError(f"{where} is {abs(over)} bytes {'longer' if over > 0 else 'shorter'} than its tag says")


def too_many_elements(where: str, left: int) -> TooManyElementsError:
    """`left`: how many it may still have, below 0."""
    return TooManyElementsError(
        f"{where} has more elements than a request may have in all: ask for less at once", -left
    )


def too_many_tags() -> InvalidRequestError:
    return InvalidRequestError(f"a section has more than {TAGS_MAX} tagged fields")


def null_to_write(where: str) -> EncodeError:
    return EncodeError(f"{where} may not be null")


def long_to_write(where: str, length: int) -> EncodeError:
    return EncodeError(f"{where} has {length} bytes, and a string has at most {STRING_BYTES_MAX}")


def not_in_version(where: str, version: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(f"{where} has a value, and version {version} has no such field")
