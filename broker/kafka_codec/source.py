"""The source of one compiled function: its lines, its indentation, and the objects that it names. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from broker.kafka_codec.fields import FIXED, WireField
from broker.kafka_codec.structs import facts_of

NUMBERS_AT_ONCE: Final = 16
"""An array with fewer numbers is packed together with what stands before it."""


class Source:
    """Lines are added in order; `block` indents those inside of it."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._lines: list[str] = []
        self._indent = 1
        self._names = dict(names)
        self._numbers = 0

    def add(self, *lines: str) -> None:
        self._lines += ["    " * self._indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self._indent += 1
        yield
        self._indent -= 1

    def name(self, stem: str) -> str:
        """A variable that no other line uses."""
        self._numbers += 1
        return f"{stem}{self._numbers}"

    def constant(self, stem: str, value: object) -> str:
        """A name for an object that the function uses."""
        name = self.name(stem)
        self._names[name] = value
        return name

    def packing(self, codes: str) -> str:
        """The name of a `struct.Struct` of these codes."""
        name = f"S_{codes.replace('?', 'B_')}"
        self._names.setdefault(name, struct.Struct(">" + codes))
        return name

    def packings(self, codes: str, element: str) -> str:
        """The name of a table: the `struct.Struct` of these codes and of as many elements as its place says."""
        name = f"T_{codes.replace('?', 'B_')}_{element}"
        self._names.setdefault(name, number_packings(codes, element))
        return name

    def compiled(self, head: str) -> Any:
        """The function with this head, which is called `made`."""
        text = "\n".join([head, *self._lines])
        exec(text, self._names)
        return self._names["made"]

    def __repr__(self) -> str:
        return f"Source({len(self._lines)} lines)"


@cache
def number_packings(codes: str, element: str) -> tuple[struct.Struct, ...]:
    return tuple(struct.Struct(f">{codes}{count}{element}") for count in range(NUMBERS_AT_ONCE))


def bytes_min(declared: WireField, version: int, flexible: bool) -> int:
    """The fewest bytes that a value takes."""
    if declared.kind in FIXED:
        return struct.calcsize(">" + FIXED[declared.kind])
    if declared.kind == "struct":
        return 1 if version in declared.null else struct_bytes_min(declared.element, version, flexible)
    if flexible:
        return 1
    return 2 if declared.kind == "string" else 4


def struct_bytes_min(cls: type, version: int, flexible: bool) -> int:
    fields = [field for _, field in facts_of(cls).fields if version in field.versions and field.tag is None]
    return sum(bytes_min(field, version, flexible) for field in fields) + flexible


def element_bytes_min(element: type | str, version: int, flexible: bool) -> int:
    """The least bytes of an element; one or more, so that an array's length is bounded by the bytes that are left."""
    if isinstance(element, type):
        return max(1, struct_bytes_min(element, version, flexible))
    if element in FIXED:
        return struct.calcsize(">" + FIXED[element])
    return 1 if flexible else 2 if element == "string" else 4
