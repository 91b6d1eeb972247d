"""Compiles the writer of one message in one version: a function without calls for what most messages have.

    made(message) -> [bytes, records, bytes, ...]

Neighbours of fixed size are packed at once, together with the length that follows them. What lies between two records
becomes one `bytes`; the records stay the objects that they are. A tagged field is written where it differs from its
default; a struct that may be null always, because Kafka takes a missing one for one of defaults. The writer raises what
a wrong value causes; codec.py makes an `EncodeError` of it.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from broker.kafka_codec import primitives
from broker.kafka_codec.fields import FIXED, MISSING_STRUCT, WireField
from broker.kafka_codec.source import NUMBERS_AT_ONCE, Source
from broker.kafka_codec.structs import Writer, facts_of

_NAMES: Final[dict[str, Any]] = {
    "pack": struct.pack,
    "uvarint_bytes": primitives.uvarint_bytes,
    "uuid_bytes": primitives.uuid_bytes,
    "null_to_write": primitives.null_to_write,
    "long_to_write": primitives.long_to_write,
    "not_in_version": primitives.not_in_version,
}
_PAD: Final = "x"
"""The format of one zero byte."""


def compile_writer(cls: type, version: int, flexible: bool) -> Writer:
    made = _Writing(version, flexible)
    made.source.add("parts = []", "out = bytearray()")
    made.struct(cls, "o0")
    made.finish()
    with made.source.block("if out:"):
        made.source.add("parts.append(bytes(out))")
    made.source.add("return parts")
    writer: Writer = made.source.compiled("def made(o0):")
    return writer


class _Writing:
    def __init__(self, version: int, flexible: bool) -> None:
        self.source = Source(_NAMES)
        self._version = version
        self._flexible = flexible
        self._out = "out"
        self._values: list[str] = []
        self._codes = ""
        """The run of fixed values that is not packed yet, and their codes."""

    def finish(self) -> None:
        """Packs the run."""
        if self._codes:
            self._pack(self._codes, self._values)
        self._values, self._codes = [], ""

    def struct(self, cls: type, value: str) -> None:
        """Writes the object `value`. Its last fields may still be in the run."""
        tagged: list[tuple[str, str, WireField]] = []
        for name, declared in facts_of(cls).fields:
            expression, where = f"{value}.{name}", f"{cls.__name__}.{name}"
            if self._version not in declared.versions:
                if not declared.ignorable:
                    with self.source.block(f"if {_differs(declared, expression)}:"):
                        self.source.add(f"raise not_in_version({where!r}, {self._version})")
            elif declared.tag is not None:
                tagged.append((expression, where, declared))
            else:
                self._field(declared, expression, where)
        if self._flexible:
            self._tags(tagged)

    def _pack(self, codes: str, values: list[str]) -> None:
        if codes in ("B", _PAD):
            self.source.add(f"{self._out}.append({values[0] if values else 0})")
        else:
            self.source.add(f"{self._out} += {self.source.packing(codes)}.pack({', '.join(values)})")

    def _field(self, declared: WireField, expression: str, where: str) -> None:
        null = self._version in declared.null
        if declared.kind in FIXED:
            self._fixed(declared.kind, expression)
        elif declared.kind == "struct":
            self._nested(declared, expression, null)
        elif declared.kind == "array":
            self._array(declared, expression, where, null)
        else:
            self._sized(declared.kind, expression, where, null)

    def _fixed(self, kind: str, expression: str) -> None:
        self._values.append(f"uuid_bytes({expression})" if kind == "uuid" else expression)
        self._codes += FIXED[kind]

    def _length(self, code: str, length: str) -> None:
        """Packs the run and the length; -1 is null."""
        if not self._flexible:
            self._values.append(length)
            self._codes += code
            self.finish()
            return
        codes, values = self._codes, self._values
        self._codes, self._values = "", []
        with self.source.block(f"if {length} < 127:"):
            self._pack(codes + "B", [*values, f"{length} + 1"])
        with self.source.block("else:"):
            if codes:
                self._pack(codes, values)
            self.source.add(f"{self._out} += uvarint_bytes({length} + 1)")

    def _sized(self, kind: str, expression: str, where: str, null: bool) -> None:
        value, length = self.source.name("v"), self.source.name("n")
        self.source.add(f"{value} = {expression}")
        with self.source.block(f"if {value} is None:"):
            self.source.add(f"{length} = -1" if null else f"raise null_to_write({where!r})")
        with self.source.block("else:"):
            if kind == "string":
                self.source.add(f"{value} = {value}.encode()")
            self.source.add(f"{length} = len({value})")
            if kind == "string":
                with self.source.block(f"if {length} > {primitives.STRING_BYTES_MAX}:"):
                    self.source.add(f"raise long_to_write({where!r}, {length})")
        self._length("h" if kind == "string" else "i", length)
        with self.source.block(f"if {length} > 0:"):
            if kind == "records":
                self.source.add(f"parts.append(bytes({self._out}))", f"parts.append({value})", "out = bytearray()")
            else:
                self.source.add(f"{self._out} += {value}")

    def _array(self, declared: WireField, expression: str, where: str, null: bool) -> None:
        element: type | str = declared.element
        items, count = self.source.name("items"), self.source.name("n")
        self.source.add(f"{items} = {expression}")
        with self.source.block(f"if {items} is None:"):
            self.source.add(f"{count} = -1" if null else f"raise null_to_write({where!r})")
        with self.source.block("else:"):
            self.source.add(f"{count} = len({items})")
        if not isinstance(element, type) and element in FIXED and element != "uuid":
            self._numbers(FIXED[element], items, count)
            return
        self._length("i", count)
        one = self.source.name("o")
        with self.source.block(f"for {one} in {items} or ():"):
            if declared.encoded:
                with self.source.block(f"if {one}.__class__ is bytes:"):
                    self.source.add(f"{self._out} += {one}", "continue")
            if isinstance(element, type):
                self.struct(element, one)
            elif element == "uuid":
                self._fixed("uuid", one)
            else:
                self._sized(element, one, f"an element of {where}", null=False)
            self.finish()

    def _numbers(self, code: str, items: str, count: str) -> None:
        with self.source.block(f"if 0 <= {count} < {NUMBERS_AT_ONCE}:"):
            length = ("B", f"{count} + 1") if self._flexible else ("i", count)
            table = self.source.packings(self._codes + length[0], code)
            values = ", ".join([*self._values, length[1], f"*{items}"])
            self.source.add(f"{self._out} += {table}[{count}].pack({values})")
        with self.source.block("else:"):
            self._length("i", count)
            with self.source.block(f"if {count} > 0:"):
                self.source.add(f"{self._out} += pack(f'>{{{count}}}{code}', *{items})")

    def _nested(self, declared: WireField, expression: str, null: bool) -> None:
        one = self.source.name("o")
        self.source.add(f"{one} = {expression}")
        self.finish()
        if not null:
            self.struct(declared.element, one)
            self.finish()
            return
        with self.source.block(f"if {one} is None:"):
            self.source.add(f"{self._out}.append({0xFF if declared.tag is None else 0})")
        with self.source.block("else:"):
            self._values.append("1")
            self._codes += "b"
            self.struct(declared.element, one)
            self.finish()

    def _tags(self, tagged: list[tuple[str, str, WireField]]) -> None:
        if not tagged:
            self._codes += _PAD  # no tagged fields; it stays in the run
            return
        self.finish()
        count, section = self.source.name("tags"), self.source.name("section")
        self.source.add(f"{count} = 0", f"{section} = b''")
        outer = self._out
        for expression, where, declared in tagged:
            is_always_written = declared.kind == "struct" and self._version in declared.null
            with self.source.block(f"if {is_always_written or _differs(declared, expression)}:"):
                self._out = self.source.name("out")
                self.source.add(f"{count} += 1", f"{self._out} = bytearray()")
                self._field(declared, expression, where)
                self.finish()
                size = f"uvarint_bytes(len({self._out}))"
                self.source.add(f"{section} += uvarint_bytes({declared.tag}) + {size} + {self._out}")
            self._out = outer
        self.source.add(f"{self._out}.append({count})")
        with self.source.block(f"if {count}:"):
            self.source.add(f"{self._out} += {section}")


def _differs(declared: WireField, expression: str) -> str:
    """An expression that is true where the value is not the default."""
    if declared.default is None:
        return f"{expression} is not None"
    if declared.default == ():
        return f"({expression} is None or {expression})"
    if declared.default is MISSING_STRUCT:
        fields = facts_of(declared.element).fields
        return " or ".join(_differs(field, f"{expression}.{name}") for name, field in fields)
    return f"{expression} != {declared.default!r}"
