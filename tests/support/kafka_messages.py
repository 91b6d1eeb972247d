"""Messages of Kafka's protocol and of groups' records with drawn values, and every pair of a message and a version that
is declared."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

from broker.groups.records.record_codec import RECORD_CLASSES
from broker.kafka.schemas.table import MESSAGES
from broker.kafka_codec.fields import WireField
from broker.kafka_codec.structs import facts_of

INTEGERS = {"int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True), "uint16": (16, False)}
TEXT = "abcXYZ.-_019 äß中🙂"
LONG = 200
"""Longer than what one byte of a varint tells."""
INSTANTS = ("time", "timestamp", "period")
INSTANT_MAX = 1 << 41
"""Other libraries make dates and durations of some numbers, which end sooner than 64 bits."""
ERROR_CODES = (0, 3, 42, 100)
"""Other libraries have a name for each."""


def versions_of(cls: type) -> range:
    first, last = facts_of(cls).versions
    return range(first, last + 1)


ALL_MESSAGES = (*MESSAGES, *RECORD_CLASSES)
PAIRS = [(cls, version) for cls in ALL_MESSAGES for version in versions_of(cls)]


def drawn(cls: type, version: int, random: Random) -> Any:
    """A value for each field that the version has; the others have their default."""
    fields = [(name, field) for name, field in facts_of(cls).fields if version in field.versions]
    return cls(**{name: drawn_field(name, field, version, random) for name, field in fields})


def drawn_field(name: str, field: WireField, version: int, random: Random) -> Any:
    if version in field.null and random.random() < 0.25:
        return None
    if field.kind == "array":
        count = (
            LONG if not isinstance(field.element, type) and random.random() < 0.05 else random.choice((0, 1, 1, 2, 3))
        )
        return [drawn_value(name, field.element, version, random) for _ in range(count)]
    return drawn_value(name, field.element if field.kind == "struct" else field.kind, version, random)


def drawn_value(name: str, kind: type | str, version: int, random: Random) -> Any:
    if isinstance(kind, type):
        return drawn(kind, version, random)
    if kind in INTEGERS:
        return drawn_integer(name, kind, random)
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "float64":
        return random.uniform(-1e9, 1e9)
    if kind == "uuid":
        raw = random.choice((bytes(16), random.randbytes(16)))
        return base64.urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else ""
    length = LONG if random.random() < 0.05 else random.randrange(12)
    return "".join(random.choices(TEXT, k=length)) if kind == "string" else random.randbytes(length)


def drawn_integer(name: str, kind: str, random: Random) -> int:
    if name.endswith("error_code"):
        return random.choice(ERROR_CODES)
    if kind == "int64" and any(word in name for word in INSTANTS):
        return random.randrange(INSTANT_MAX)
    bits, signed = INTEGERS[kind]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return random.choice((0, 1, low, high, random.randint(low, high)))


# -- beside another library --------------------------------------------------------------------------------------------

NOTHING = ("", None, -(1 << 31))
"""Other libraries say None for the zero uuid, and for authorized operations that nobody asked for."""


def spelled(value: Any) -> Any:
    """A uuid as ours, and bytes as `bytes`."""
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=") if value.int else ""
    return bytes(value) if isinstance(value, memoryview | bytes) else value


def differences(
    ours: Any,
    theirs: Any,
    version: int,
    their_fields: Callable[[Any, int], list[tuple[str, Any]]],
    plain: Callable[[Any], Any],
    same_name: Callable[[str, str], bool],
) -> list[str]:
    """The fields that have another name or another value in the object of another library."""
    found: list[str] = []

    def compare(where: str, kind: Any, mine: Any, other: Any) -> None:
        if isinstance(kind, type) and mine is not None and other is not None:
            found.extend(differences(mine, other, version, their_fields, plain, same_name))
        elif other is None and mine in NOTHING:
            return
        elif mine != plain(other):
            found.append(f"{where}: {mine!r}, and theirs {other!r}")

    fields = [(name, field) for name, field in facts_of(type(ours)).fields if version in field.versions]
    for (name, field), (their_name, other) in zip(fields, their_fields(theirs, version), strict=True):
        where, mine = f"{type(ours).__name__}.{name}", getattr(ours, name)
        if not same_name(name, their_name):
            found.append(f"{where}, and theirs is {their_name}")
        elif field.kind == "array" and mine is not None and other is not None:
            for one, another in zip(mine, other, strict=True):
                compare(where, field.element, one, another)
        else:
            compare(where, field.element if field.kind == "struct" else field.kind, mine, other)
    return found
