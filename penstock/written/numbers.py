"""Bounds of the numbers that a user types, and the parser of numbers inside a longer text (`orders-0=4,5,1`).

An option of a command takes its bounds from here (`min=0, max=INT32_MAX`), so that typer refuses any other number in
one line; a test walks all commands and finds a number without bounds. The console's fields do the same. Python's own
`int` would take digits of any alphabet and numbers of any size, which fail later, in the middle of a request.
"""

from __future__ import annotations

INT32_MAX = 2**31 - 1
"""The largest id of a broker and number of a partition: protobuf's int32."""
INT64_MAX = 2**63 - 1
"""The largest offset, time in ms, and count of records or bytes."""


def parse_number(text: str, max_value: int) -> int | None:
    """The number from 0 to `max_value` that `text` is in decimal digits; None of any other text."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(max_value)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= max_value else None
