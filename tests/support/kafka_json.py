"""Records of `__consumer_offsets` as Kafka's DumpLogSegments --offsets-decoder tells them."""

from __future__ import annotations

import base64
from dataclasses import fields, is_dataclass
from typing import Any

from broker.coordination.record_codec import RecordCodec
from broker.groups.records.record_codec import RECORD_TYPES
from broker.kafka_codec.fields import WireField
from broker.kafka_codec.structs import facts_of
from penstock.wire.consumer_protocol import decode_assignment, decode_subscription

ZERO_ID = "A" * 22
TYPE_BY_KEY = {kind.key: kind for kind in RECORD_TYPES}


def json_record(key: Any, value: Any | None, codec: RecordCodec | None = None) -> list[Any]:
    """The key and the value, each with its type or version; None for a tombstone. Without a codec, of groups."""
    types = TYPE_BY_KEY if codec is None else {kind.key: kind for kind in codec.types}
    kind = types[type(key)]
    row: dict[str, Any] | None = None
    if value is not None:
        version = kind.version(value)
        row = {"version": str(version), "data": _struct(value, version)}
    return [{"type": str(kind.number), "data": _struct(key, 0)}, row]


def _struct(one: Any, version: int) -> dict[str, Any]:
    found = {}
    for name, field in facts_of(type(one)).fields:
        value = getattr(one, name)
        if version not in field.versions or (field.kind == "uuid" and field.tag is not None and value == ""):
            continue
        if type(one).__name__ == "MemberMetadata" and name in ("subscription", "assignment"):
            found[name] = _consumer_protocol(name, value)
            continue
        if field.tag is not None and _is_left_out(field, value):
            continue
        found[_camel(name)] = _value(value, field.element if field.kind in ("array", "struct") else field.kind, version)
    return found


def _is_left_out(field: WireField, value: Any) -> bool:
    """A tagged field that has its default is not told; that of a struct is one of defaults."""
    if field.kind == "array":
        return bool(value == [])
    if field.kind == "struct":
        return isinstance(field.element, type) and bool(value == field.element())
    return bool(value == field.default is not None)


def _consumer_protocol(name: str, data: bytes) -> Any:
    """The dump reads members' bytes as well."""
    if not data:
        return ""
    return _of_dataclass(decode_subscription(data) if name == "subscription" else decode_assignment(data))


def _of_dataclass(one: Any) -> dict[str, Any]:
    values = {_camel(field.name): getattr(one, field.name) for field in fields(one)}
    return {
        name: [_of_dataclass(part) if is_dataclass(part) else part for part in value]
        if isinstance(value, list)
        else base64.b64encode(value).decode()
        if isinstance(value, bytes)
        else value
        for name, value in values.items()
    }


def _value(value: Any, kind: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_value(one, kind, version) for one in value]
    if isinstance(kind, type):
        return _struct(value, version)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    return ZERO_ID if kind == "uuid" and value == "" else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
