"""The way between the records of `penstock.messages` and their protobuf messages, compiled at import. An edge.

For each pair of a record and a message two functions are made from the record's annotations and the message's
descriptor, as source, so that they cost what functions written by hand do: a message in a message is a dict until
protobuf has it, which spares it a copy, and the slots of a frozen record are set by their descriptors, as quick as an
assignment: its own `__init__` sets them by `object.__setattr__`, which costs more than all that a record is read for. A
record that does more in its `__init__` than that, or has no slots, is called like any other class. A field that has no
place in the other one, or another kind there, raises InvariantViolation with its name: a node or a client with such a
record does not start.

    int, str, bool, bytes     the field of that name; an enum's number is an int
    tuple[T, ...], Mapping    repeated fields and maps
    a record, or None         a message, or its absence
    a NamedTuple              also the message's own fields that it names: TopicPartition is `topic` and `partition`
    float                     a double
    int, str, bool, or None   a field with presence (`optional`)
    a StrEnum                 an enum whose values have the members' names; the first member stands for an unknown one
    ApiError | None           the message Error

Not here: Produce and Fetch, whose record bytes pass by protobuf (`records_field.py`), and the quorum's own calls.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from penstock.errors import ApiError, InvariantViolation
from penstock.messages.api import Api
from penstock.messages.fields import NONE_FLAG, WIRE_NAME
from penstock.pb import broker_pb2, controller_pb2
from penstock.wire.error_message import error_in_message, error_to_message

A = TypeVar("A")
Q = TypeVar("Q")
R = TypeVar("R")

POOLS: Final = {module.DESCRIPTOR.pool for module in (broker_pb2, controller_pb2)}
"""One pool, which knows the messages of both modules and of those that they import."""
UNUSED_FIELDS: Final = frozenset(
    f"penstock.v1.{name}Response.error"
    for name in ("RegisterBroker", "BrokerHeartbeat", "AlterPartition", "AssignReplicasToDirs")
)
"""Fields that no node sets: a call that fails as a whole ends with a status (error_trailer.py)."""
_SCALARS: Final = {
    int: {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_ENUM},
    str: {FieldDescriptor.CPPTYPE_STRING},
    bytes: {FieldDescriptor.CPPTYPE_STRING},
    bool: {FieldDescriptor.CPPTYPE_BOOL},
    float: {FieldDescriptor.CPPTYPE_DOUBLE},
}


class MessageCodec(Generic[R]):
    """Converts between records of one type and their messages; `message` is the generated class."""

    def __init__(self, record: type[R], message: Any) -> None:
        self.message = message
        self.arguments: Callable[[R], dict[str, Any]]
        self.of_message: Callable[[Any], R]
        self.arguments, self.of_message = _compiled(record, message)

    def to_message(self, record: R) -> Any:
        return self.message(**self.arguments(record))

    def encode(self, record: R) -> bytes:
        return self.to_message(record).SerializeToString()  # type: ignore[no-any-return]

    def decode(self, raw: bytes) -> R:
        """Raises protobuf's DecodeError for bytes that are no message."""
        return self.of_message(self.message.FromString(raw))

    def __repr__(self) -> str:
        return f"MessageCodec({self.message.DESCRIPTOR.name})"


@cache
def codec(record: Any, descriptor: Descriptor) -> MessageCodec[Any]:
    """The codec of a pair; InvariantViolation names a field that does not match."""
    return MessageCodec(record, GetMessageClass(descriptor))


@cache
def request_codec(api: Api[Q, A]) -> MessageCodec[Q]:
    """The codec of an API's requests."""
    record: Any = api.request
    return codec(record, message_descriptor(f"{api.name}Request"))


@cache
def response_codec(api: Api[Q, A]) -> MessageCodec[A]:
    """The codec of an API's answers."""
    record: Any = api.response
    return codec(record, message_descriptor(f"{api.name}Response"))


def message_descriptor(name: str) -> Descriptor:
    """The descriptor of a message, by its name in penstock.v1."""
    (pool,) = POOLS
    found: Descriptor = pool.FindMessageTypeByName(f"penstock.v1.{name}")
    return found


class _Field(NamedTuple):
    """A field of a record, by its path: its annotation without a None, and its name in the message, None if it has none
    there."""

    name: str
    type: Any
    is_optional: bool
    wire: str | None
    none_flag: str | None


class _Code(NamedTuple):
    """Source of the two ways of one field: entries of the dict of the message's arguments, and the record's value."""

    to_message: tuple[str, ...]
    of_message: str
    wire_fields: tuple[str, ...]


def _compiled(record: Any, message: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    descriptor = message.DESCRIPTOR
    names: dict[str, Any] = {"__name__": __name__}
    arguments: list[str] = []
    values: dict[str, str] = {}
    spoken = {field.name for field in descriptor.fields if f"{descriptor.full_name}.{field.name}" in UNUSED_FIELDS}
    for field in _fields(record):
        if field.wire is None:
            continue
        code = _code(field, descriptor, names)
        arguments += code.to_message
        values[field.name] = code.of_message
        spoken.update(code.wire_fields)
    for left in descriptor.fields:
        if left.name not in spoken:
            raise InvariantViolation(f"{descriptor.full_name}.{left.name} has no field in {record.__name__}")
    body = building(record, values, names)
    source = f"def arguments(r):\n    return {{{', '.join(arguments)}}}\ndef of_message(m):\n    {body}\n"
    exec(compile(source, f"<codec of {record.__name__}>", "exec"), names)
    return names["arguments"], names["of_message"]


def _fields(record: Any) -> Iterator[_Field]:
    hints = typing.get_type_hints(record)
    marks: dict[str, Mapping[Any, Any]] = {}
    if dataclasses.is_dataclass(record):
        marks = {field.name: field.metadata for field in dataclasses.fields(record)}
    for name in marks or record._fields if hasattr(record, "_fields") else marks:
        mark = marks.get(name, {})
        inner, is_optional = _without_none(hints[name])
        yield _Field(name, inner, is_optional, mark.get(WIRE_NAME, name), mark.get(NONE_FLAG))


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(inner) == 1:
            return inner[0], True
    return hint, False


def _code(field: _Field, descriptor: Descriptor, names: dict[str, Any]) -> _Code:
    """The source for one field; what it calls is put into `names`."""
    wire, mine, kind = field.wire or field.name, f"r.{field.name}", field.type
    found = descriptor.fields_by_name.get(wire)
    is_record = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
    if hasattr(kind, "_fields") and (found is None or found.message_type is None):
        return _flattened(field, descriptor, names)
    if found is None:
        raise InvariantViolation(f"{descriptor.full_name} has no field {wire}")
    if kind is ApiError and field.is_optional and _is_message(found, "penstock.v1.Error"):
        names.update(_error_to=error_to_message, _error_of=error_in_message)
        return _Code(
            (f"{wire!r}: None if {mine} is None else _error_to({mine})",),
            f"_error_of(m.{wire}) if m.HasField({wire!r}) else None",
            (wire,),
        )
    if is_record and found.message_type is not None and not found.is_repeated:
        to, of = _nested(kind, found, names)
        if field.is_optional:
            return _Code(
                (f"{wire!r}: None if {mine} is None else {to}({mine})",),
                f"{of}(m.{wire}) if m.HasField({wire!r}) else None",
                (wire,),
            )
        return _Code((f"{wire!r}: {to}({mine})",), f"{of}(m.{wire})", (wire,))
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and found.is_repeated and inner[1:] == (Ellipsis,):
        return _repeated(field, inner[0], found, names)
    if origin is not None and issubclass(origin, Mapping) and _is_map_of(found, inner):
        # A map of protobuf has no order, and a new one in each process: what is made of it must not depend on that.
        return _Code((f"{wire!r}: dict({mine})",), f"dict(sorted(m.{wire}.items()))", (wire,))
    if isinstance(kind, type) and issubclass(kind, StrEnum) and found.enum_type is not None:
        numbers = _numbers(kind, found)
        names[f"_to_{wire}"], names[f"_of_{wire}"] = numbers, {number: one for one, number in numbers.items()}
        names[f"_else_{wire}"] = next(iter(kind))
        return _Code((f"{wire!r}: _to_{wire}[{mine}]",), f"_of_{wire}.get(m.{wire}, _else_{wire})", (wire,))
    if not found.is_repeated and found.cpp_type in _SCALARS.get(kind, ()):
        if not field.is_optional:
            return _Code((f"{wire!r}: {mine}",), f"m.{wire}", (wire,))
        if found.has_presence:  # a None in the arguments leaves it unset
            return _Code((f"{wire!r}: {mine}",), f"m.{wire} if m.HasField({wire!r}) else None", (wire,))
    raise InvariantViolation(f"{descriptor.full_name}.{wire} is no {kind}")


def _repeated(field: _Field, element: Any, found: FieldDescriptor, names: dict[str, Any]) -> _Code:
    """A tuple, or a None that a flag beside it tells."""
    wire, mine = found.name, f"r.{field.name}"
    if found.message_type is not None:
        to, of = _nested(element, found, names)
        make, value = f"[{to}(one) for one in {mine}]", f"tuple([{of}(one) for one in m.{wire}])"
    elif found.cpp_type in _SCALARS.get(element, ()):
        make, value = mine, f"tuple(m.{wire})"
    else:
        raise InvariantViolation(f"{found.full_name} holds no {element}")
    if field.none_flag is None:
        return _Code((f"{wire!r}: {make}",), value, (wire,))
    flag, message = field.none_flag, found.full_name.rpartition(".")[0]
    if flag not in {beside.name for beside in _siblings(found)}:
        raise InvariantViolation(f"{message} has no field {flag}")
    is_none = f"{mine} is None"
    return _Code(
        (f"{wire!r}: () if {is_none} else {make}", f"{flag!r}: {is_none}"),
        f"None if m.{flag} else {value}",
        (wire, flag),
    )


def _flattened(field: _Field, descriptor: Descriptor, names: dict[str, Any]) -> _Code:
    """A NamedTuple whose fields stand in the message itself."""
    within = [part._replace(name=f"{field.name}.{part.name}") for part in _fields(field.type)]
    parts = [_code(part, descriptor, names) for part in within]
    names[f"_{field.type.__name__}"], names["_tuple"] = field.type, tuple.__new__
    return _Code(
        tuple(one for part in parts for one in part.to_message),
        f"_tuple(_{field.type.__name__}, ({', '.join(part.of_message for part in parts)},))",
        tuple(name for part in parts for name in part.wire_fields),
    )


def _siblings(found: FieldDescriptor) -> list[FieldDescriptor]:
    """All fields of the message that has this one."""
    return list(found.containing_type.fields) if found.containing_type is not None else []


def _nested(record: Any, found: FieldDescriptor, names: dict[str, Any]) -> tuple[str, str]:
    """The names of the two functions of a message in a message."""
    descriptor = found.message_type
    if descriptor is None:
        raise InvariantViolation(f"{found.full_name} is no message")
    inner = codec(record, descriptor)
    to, of = f"_to_{record.__name__}_{descriptor.name}", f"_of_{record.__name__}_{descriptor.name}"
    names[to], names[of] = inner.arguments, inner.of_message
    return to, of


def _numbers(kind: type[StrEnum], found: FieldDescriptor) -> dict[StrEnum, int]:
    """The enum's number of each member: its value's name ends in the member's."""
    enum = found.enum_type
    values = enum.values_by_name if enum is not None else {}
    title = enum.name if enum is not None else ""
    prefix = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in title)[1:]
    missing = [one.name for one in kind if f"{prefix}_{one.name}" not in values]
    if missing:
        raise InvariantViolation(f"{found.full_name} has no value for {', '.join(missing)} of {kind.__name__}")
    return {one: values[f"{prefix}_{one.name}"].number for one in kind}


def _is_message(found: FieldDescriptor, full_name: str) -> bool:
    return found.message_type is not None and found.message_type.full_name == full_name


def _is_map_of(found: FieldDescriptor, inner: tuple[Any, ...]) -> bool:
    """True for a map whose keys and values are these scalars."""
    entry = found.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return False
    kinds = entry.fields_by_name["key"].cpp_type, entry.fields_by_name["value"].cpp_type
    return all(kind in _SCALARS.get(one, ()) for kind, one in zip(kinds, inner, strict=True))


def building(record: Any, values: Mapping[str, str], names: dict[str, Any]) -> str:
    """The lines of a function that returns a record of these values; what they call is put into `names`."""
    names["_Record"] = record
    is_plain = dataclasses.is_dataclass(record) and "__slots__" in vars(record) and not hasattr(record, "__post_init__")
    if not is_plain or not values:
        return f"return _Record({', '.join(f'{name}={value}' for name, value in values.items())})"
    names["_new"] = object.__new__
    lines = ["o = _new(_Record)"]
    for field in dataclasses.fields(record):
        names[f"_set_{field.name}"] = getattr(record, field.name).__set__
        value = values.get(field.name)
        if value is None:
            names[f"_default_{field.name}"] = _default(record, field)
            value = f"_default_{field.name}()"
        lines.append(f"_set_{field.name}(o, {value})")
    return "\n    ".join([*lines, "return o"])


def _default(record: Any, field: dataclasses.Field[Any]) -> Callable[[], Any]:
    """The value of a field that does not stand on the wire."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    if field.default is dataclasses.MISSING:
        raise InvariantViolation(f"{record.__name__}.{field.name} is not on the wire and has no default")
    return lambda: field.default
