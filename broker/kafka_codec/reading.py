"""Compiles the reader of one message in one version: a function without calls for what most messages have.

    made(view, at, left) -> (message, end, left)       left: how many elements its arrays may have in all

A long string counts as elements (`primitives.LONG_STRING_BYTES`).

Neighbours of fixed size are unpacked at once, together with the length or the count of tags that follows them. The
structs of arrays are read in the loop itself. The reader raises what the bytes cause (codec.py makes typed errors of
it), and `InvalidRequestError` where only it can say what is wrong.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from broker.kafka_codec import primitives
from broker.kafka_codec.fields import FIXED, MISSING_STRUCT, WireField
from broker.kafka_codec.source import NUMBERS_AT_ONCE, Source, element_bytes_min
from broker.kafka_codec.structs import Reader, facts_of

_NAMES: Final[dict[str, Any]] = {
    "unpack_from": struct.unpack_from,
    "new": object.__new__,
    "uvarint": primitives.uvarint,
    "long_uvarint": primitives.long_uvarint,
    "uuid_text": primitives.uuid_text,
    "skip_tags": primitives.skip_tags,
    "tag_head": primitives.tag_head,
    "bad_length": primitives.bad_length,
    "bad_string": primitives.bad_string,
    "bad_null": primitives.bad_null,
    "bad_marker": primitives.bad_marker,
    "bad_tag_size": primitives.bad_tag_size,
    "too_many": primitives.too_many_elements,
    "too_many_tags": primitives.too_many_tags,
}

_NULL: Final = (-1,)
_NULL_TAGGED: Final = (-1, 0)
"""The markers of a struct that is null. In a tagged field Kafka writes 0."""


def compile_reader(cls: type, version: int, flexible: bool) -> Reader:
    made = _Reading(version, flexible)
    made.source.add("end = len(view)")
    made.struct(cls, "o0")
    made.finish()
    made.source.add("return o0, at, left")
    reader: Reader = made.source.compiled("def made(view, at, left):")
    return reader


class _Reading:
    def __init__(self, version: int, flexible: bool) -> None:
        self.source = Source(_NAMES)
        self._version = version
        self._flexible = flexible
        self._targets: list[str] = []
        self._codes = ""
        """The run of fixed fields that is not unpacked yet: where to, and their codes."""
        self._after: list[str] = []
        """The lines that follow once it is."""

    def finish(self) -> None:
        """Unpacks the run."""
        targets, codes, after = self._targets, self._codes, self._after
        self._targets, self._codes, self._after = [], "", []
        if codes == "B":
            self.source.add(f"{targets[0]} = view[at]", "at += 1")
        elif codes:
            packing = self.source.packing(codes)
            self.source.add(
                f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {packing}.unpack_from(view, at)",
                f"at += {packing}.size",
            )
        self.source.add(*after)

    def struct(self, cls: type, into: str) -> None:
        """Makes the object `into`. Its last fields may still be in the run."""
        self.source.add(f"{into} = new({self.source.constant(cls.__name__, cls)})")
        tagged: list[tuple[str, WireField]] = []
        for name, declared in facts_of(cls).fields:
            target, where = f"{into}.{name}", f"{cls.__name__}.{name}"
            if self._version not in declared.versions:
                self._default(declared, target)
            elif declared.tag is not None:
                self._default(declared, target)
                tagged.append((where, declared))
            else:
                self._field(declared, target, where)
        if self._flexible:
            self._tags(into, tagged, cls.__name__)

    def _default(self, declared: WireField, target: str) -> None:
        if declared.default is MISSING_STRUCT:
            self.source.add(f"{target} = {self.source.constant('New', declared.element)}()")
        elif declared.default == ():
            self.source.add(f"{target} = []")
        else:
            self.source.add(f"{target} = {declared.default!r}")

    def _field(self, declared: WireField, target: str, where: str) -> None:
        null = self._version in declared.null
        if declared.kind in FIXED:
            self._fixed(declared.kind, target)
        elif declared.kind == "struct":
            self._nested(declared, target, where, null)
        elif declared.kind == "array":
            self._array(declared.element, target, where, null)
        else:
            self._sized(declared.kind, target, where, null)

    def _fixed(self, kind: str, target: str) -> None:
        if kind == "uuid":
            raw = self.source.name("raw")
            self._after.append(f"{target} = uuid_text({raw})")
            target = raw
        self._targets.append(target)
        self._codes += FIXED[kind]

    def _length(self, code: str) -> str:
        """A variable with the length that comes next, -1 for null."""
        length = self.source.name("n")
        self._targets.append(length)
        self._codes += "B" if self._flexible else code
        self.finish()
        if self._flexible:
            with self.source.block(f"if {length} > 127:"):
                self.source.add(f"{length}, at = long_uvarint(view, at, {length})")
            self.source.add(f"{length} -= 1")
        return length

    def _null(self, length: str, target: str, where: str, null: bool) -> None:
        """The rest of an `if length >= 0`."""
        with self.source.block(f"elif {length} == -1:"):
            self.source.add(f"{target} = None" if null else f"raise bad_null({where!r})")
        if not self._flexible:
            with self.source.block("else:"):
                self.source.add(f"raise bad_length({where!r}, {length}, end - at)")

    def _sized(self, kind: str, target: str, where: str, null: bool) -> None:
        length = self._length("h" if kind == "string" else "i")
        with self.source.block(f"if {length} >= 0:"):
            if kind == "string":
                with self.source.block(f"if {length} > end - at:"):
                    self.source.add(f"raise bad_string({where!r}, {length}, end - at)")
                with self.source.block(f"if {length} >= {primitives.LONG_STRING_BYTES}:"):
                    self._long_string(length, where)
                self.source.add(f"{target} = str(view[at : at + {length}], 'utf-8')")
            else:
                with self.source.block(f"if {length} > end - at:"):
                    self.source.add(f"raise bad_length({where!r}, {length}, end - at)")
                self.source.add(f"{target} = view[at : at + {length}]")
            self.source.add(f"at += {length}")
        self._null(length, target, where, null)

    def _long_string(self, length: str, where: str) -> None:
        with self.source.block(f"if {length} > {primitives.STRING_BYTES_MAX}:"):
            self.source.add(f"raise bad_string({where!r}, {length}, end - at)")
        self.source.add(f"left -= {length} >> {primitives.STRING_BYTES_SHIFT}")
        with self.source.block("if left < 0:"):
            self.source.add(f"raise too_many({where!r}, left)")

    def _array(self, element: type | str, target: str, where: str, null: bool) -> None:
        count = self._length("i")
        with self.source.block(f"if {count} >= 0:"):
            size = element_bytes_min(element, self._version, self._flexible)
            left = "end - at" if size == 1 else f"(end - at) // {size}"
            with self.source.block(f"if {count} > {left}:"):
                self.source.add(f"raise bad_length({where!r}, {count}, end - at)")
            self.source.add(f"left -= {count}")
            with self.source.block("if left < 0:"):
                self.source.add(f"raise too_many({where!r}, left)")
            self._elements(element, target, where, count)
        self._null(count, target, where, null)

    def _elements(self, element: type | str, target: str, where: str, count: str) -> None:
        if not isinstance(element, type) and element in FIXED and element != "uuid":
            code = FIXED[element]
            with self.source.block(f"if {count} < {NUMBERS_AT_ONCE}:"):
                self.source.add(f"{target} = list({self.source.packings('', code)}[{count}].unpack_from(view, at))")
            with self.source.block("else:"):
                self.source.add(f"{target} = list(unpack_from(f'>{{{count}}}{code}', view, at))")
            self.source.add(f"at += {count} * {struct.calcsize('>' + code)}")
            return
        items, one = self.source.name("items"), self.source.name("o")
        self.source.add(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({count}):"):
            if isinstance(element, type):
                self.struct(element, one)
            elif element == "uuid":
                self._fixed("uuid", one)
            else:
                self._sized(element, one, f"an element of {where}", null=False)
            self.finish()
            self.source.add(f"{items}.append({one})")

    def _nested(self, declared: WireField, target: str, where: str, null: bool) -> None:
        one = self.source.name("o")
        if not null:
            self.finish()
            self.struct(declared.element, one)
            self.finish()
            self.source.add(f"{target} = {one}")
            return
        marker = self.source.name("n")
        self._targets.append(marker)
        self._codes += "b"
        self.finish()
        with self.source.block(f"if {marker} == 1:"):
            self.struct(declared.element, one)
            self.finish()
            self.source.add(f"{target} = {one}")
        with self.source.block(f"elif {marker} in {_NULL_TAGGED if declared.tag is not None else _NULL}:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            self.source.add(f"raise bad_marker({where!r}, {marker})")

    def _tags(self, into: str, tagged: list[tuple[str, WireField]], name: str) -> None:
        """Unknown tagged fields count as elements: each costs as much."""
        count, where = self.source.name("tags"), f"{name}'s tagged fields"
        self._targets.append(count)
        self._codes += "B"
        if not tagged:  # they stay in the run: nothing of this struct follows
            self._after += [
                f"if {count}:",
                f"    left -= {count}",
                "    if left < 0:",
                f"        raise too_many({where!r}, left)",
                f"    at = skip_tags(view, at, {count})",
            ]
            return
        self.finish()
        with self.source.block(f"if {count}:"):
            with self.source.block(f"if {count} > {primitives.TAGS_MAX}:"):
                self.source.add("raise too_many_tags()")
            tag, stop = self.source.name("tag"), self.source.name("stop")
            self.source.add(f"{tag} = -1")
            with self.source.block(f"for _ in range({count}):"):
                self.source.add(f"{tag}, at, {stop} = tag_head(view, at, {tag})")
                for number, (path, declared) in enumerate(tagged):
                    with self.source.block(f"{'el' if number else ''}if {tag} == {declared.tag}:"):
                        self._field(declared, f"{into}.{path.partition('.')[2]}", path)
                        self.finish()
                        with self.source.block(f"if at != {stop}:"):
                            self.source.add(f"raise bad_tag_size({path!r}, at - {stop})")
                with self.source.block("else:"):
                    self.source.add(f"at = {stop}", "left -= 1")
                    with self.source.block("if left < 0:"):
                        self.source.add(f"raise too_many({where!r}, left)")
