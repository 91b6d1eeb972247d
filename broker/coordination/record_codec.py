"""Keys and values of a coordinator's records as bytes, and back.

    key      int16 the type of the record, then the key's fields
    value    int16 the version, then the value's fields; null is a tombstone

All versions of a value are read, one is written. A type that is not known here is not an error: a log may hold it. Not
here: the types (groups/records/, transactions/), and batches (tick_batches.py, record_log.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from broker.kafka_codec import codec
from broker.kafka_codec.primitives import EncodeError
from penstock.base_error import PenstockError
from penstock.errors import InvalidRequestError, UnsupportedVersionError
from penstock.record.batch import HEADER_BYTES
from penstock.record.builder import record_size_bytes_upper

_PREFIX: Final = struct.Struct(">h")
ELEMENTS_MAX: Final = 1_000_000
"""Elements of all arrays of one record, which is bounded by the topic's largest batch anyway."""


class MalformedRecordError(PenstockError):
    """A record of a coordinator's log has a known type, and not its form."""


class RecordType(NamedTuple):
    """A key's number and class, its value's class, and the version in which a value is written."""

    number: int
    key: type
    value: type
    version: Callable[[Any], int]


class RecordCodec:
    """The records of one topic."""

    def __init__(self, types: Iterable[RecordType], settle: Mapping[type, Callable[[Any], None]] | None = None) -> None:
        """`settle`, by the class of a value: copies its bytes, so that what is kept does not hold the whole record."""
        self.types = tuple(types)
        self.classes = tuple(cls for kind in self.types for cls in (kind.key, kind.value))
        self._by_number = {kind.number: kind for kind in self.types}
        self._by_key = {kind.key: kind for kind in self.types}
        self._settle = settle or {}

    def encode(self, key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
        """The bytes of a record of one of the classes; `value` None is a tombstone."""
        kind = self._by_key[type(key)]
        key_bytes = _PREFIX.pack(kind.number) + b"".join(codec.encode(key, 0))
        if value is None:
            return key_bytes, None
        if type(value) is not kind.value:
            raise EncodeError(f"the value of a {kind.key.__name__} is no {type(value).__name__}")
        version = kind.version(value)
        return key_bytes, _PREFIX.pack(version) + b"".join(codec.encode(value, version))

    def size(self, key: Any, value: Any | None) -> int:
        """The bytes of a batch with this record alone, at most."""
        key_bytes, value_bytes = self.encode(key, value)
        return HEADER_BYTES + record_size_bytes_upper(-1 if value_bytes is None else len(value_bytes), len(key_bytes))

    def decode(self, key_bytes: bytes | None, value_bytes: bytes | None) -> tuple[Any, Any | None] | None:
        """The record; None for a type that is not known here."""
        if key_bytes is None:
            raise MalformedRecordError("a record has no key")
        kind = self._by_number.get(_prefix_of(key_bytes, "a key"))
        if kind is None:
            return None
        key = _decoded(kind.key, 0, key_bytes)
        if value_bytes is None:
            return key, None
        value = _decoded(kind.value, _prefix_of(value_bytes, f"a {kind.value.__name__}"), value_bytes)
        settle = self._settle.get(kind.value)
        if settle is not None:
            settle(value)
        return key, value

    def __repr__(self) -> str:
        return f"RecordCodec({[kind.number for kind in self.types]})"


def first_version(value: Any) -> int:
    """The version of values that have one form, or are written in their first."""
    return 0


def _prefix_of(data: bytes, where: str) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedRecordError(f"{where} has {len(data)} bytes")
    number: int = _PREFIX.unpack_from(data)[0]
    return number


def _decoded(cls: type, version: int, data: bytes) -> Any:
    try:
        return codec.decode(cls, version, memoryview(data), _PREFIX.size, ELEMENTS_MAX)[0]
    except (InvalidRequestError, UnsupportedVersionError) as error:
        raise MalformedRecordError(str(error)) from None
