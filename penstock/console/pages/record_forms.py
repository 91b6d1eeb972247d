"""The forms in which bytes of a record are shown: as text, as JSON with indentation, or in hex. Pure.

Nothing is lost by it: JSON keeps its numbers and its order, as only the space between its tokens changes. `auto` is
JSON for an object or a list, text for UTF-8 without control characters, and hex otherwise.
"""

from __future__ import annotations

import json
import re
from typing import Final

from penstock.lazy_dataclass import dataclass

FORMS: Final = ("auto", "text", "json", "hex")
HEX_BYTES_MAX: Final = 4_096
"""A longer value is shown up to here; a download has all."""
INDENTED_BYTES_MAX: Final = 256 * 1024
INDENTED_TIMES_MAX: Final = 8
"""A JSON text that indentation would make more than so many times as long is shown as it is: 900 lists in each other
with 120,000 numbers in the innermost one are 240 KB, and would be 218 MB."""
_HEX_COLUMNS: Final = 16
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """A key, a value or the value of a header."""

    form: str
    """null, text, json or hex."""
    text: str
    size_bytes: int
    is_cut: bool
    """The text shows the beginning alone."""


NULL: Final = ShownBytes("null", "", 0, False)


def shown_bytes(data: bytes | None, form: str, bytes_max: int) -> ShownBytes:
    """The bytes in that form; of more than `bytes_max` the beginning."""
    if data is None:
        return NULL
    size, cut = len(data), data[:bytes_max]
    if form == "hex":
        return _as_hex(cut, size)
    text = _decoded(cut, is_cut=len(cut) < size)
    if text is None or (form == "auto" and _CONTROL.search(text)):
        return _as_hex(cut, size)
    is_json = form == "json" or (form == "auto" and text.lstrip()[:1] in ("{", "["))
    if is_json and size == len(cut) <= INDENTED_BYTES_MAX and _is_json(text):
        lines = indented(text, INDENTED_TIMES_MAX * max(size, 64))
        if lines is not None:
            return ShownBytes("json", lines, size, False)
    return ShownBytes("text", text, size, len(cut) < size)


def _decoded(data: bytes, *, is_cut: bool) -> str | None:
    """The text; None for bytes that are no UTF-8. A letter that was cut through is left out."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if is_cut and error.end == len(data) and len(data) - error.start < 4:
            return data[: error.start].decode("utf-8")
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def indented(text: str, letters_max: int) -> str | None:
    """A JSON text with a line for each item; None where it would have more letters than that."""
    lines: list[str] = [""]
    depth, letters, before = 0, 0, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in "}]":
            depth -= 1
            if before not in ("{", "["):
                lines.append("  " * depth)
        elif before in ("{", "["):
            lines.append("  " * depth)
        lines[-1] += token
        letters += len(token) + 2 * depth + 1  # as if each token had a line of its own, or nearly
        if letters > letters_max:
            return None
        if token in "{[":
            depth += 1
        elif token == ",":
            lines.append("  " * depth)
        elif token == ":":
            lines[-1] += " "
        before = token
    return "\n".join(lines)


def _as_hex(data: bytes, size: int) -> ShownBytes:
    cut = data[:HEX_BYTES_MAX]
    lines = []
    for at in range(0, len(cut), _HEX_COLUMNS):
        part = cut[at : at + _HEX_COLUMNS]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{3 * _HEX_COLUMNS - 1}}  {letters}")
    return ShownBytes("hex", "\n".join(lines), size, len(cut) < size)
