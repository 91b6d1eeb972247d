"""Reads and writes the messages of `schemas/`. The functions are compiled when a version is first met, and kept.

Bytes that are no such message raise `InvalidRequestError`; a message of our own that has no encoding raises
`EncodeError`, or `UnsupportedVersionError` where a value has no place in the version. Bytes after a message are not
looked at, as in Kafka: `decode` says where it ended. Not here: frames and headers (headers.py).
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from broker.kafka_codec.primitives import EncodeError, TooManyElementsError
from broker.kafka_codec.reading import compile_reader
from broker.kafka_codec.structs import Facts, Reader, Writer, facts_of
from broker.kafka_codec.writing import compile_writer
from penstock.errors import InvalidRequestError, UnsupportedVersionError

T = TypeVar("T")
ELEMENTS_MAX: Final = 100_000
"""Elements of all arrays of one message together. One takes a byte of the frame or more, and up to 500 of memory."""


def decode(
    cls: type[T], version: int, view: memoryview, at: int = 0, elements_max: int = ELEMENTS_MAX
) -> tuple[T, int]:
    """The message that begins at `at`, and where it ends. Its bytes and records are slices of `view`."""
    try:
        message, end, _ = decode_counted(cls, version, view, at, elements_max)
    except TooManyElementsError as error:
        raise InvalidRequestError(str(error)) from None
    return message, end


def decode_counted(cls: type[T], version: int, view: memoryview, at: int, elements_max: int) -> tuple[T, int, int]:
    """`decode`, and how many elements the arrays of the message have; TooManyElementsError before it makes more."""
    facts = facts_of(cls)
    reader = facts.readers.get(version) or _reader(cls, facts, version)
    try:
        message, end, left = reader(view, at, elements_max)
    except (struct.error, IndexError):
        raise InvalidRequestError(f"{facts.name} of version {version} ends before its last field") from None
    except UnicodeDecodeError:
        raise InvalidRequestError(f"{facts.name} of version {version} has a string that is not UTF-8") from None
    return message, end, elements_max - left


def encode(message: object, version: int) -> list[Any]:
    """The parts of the message: `bytes`, and between them the records as the objects that they are."""
    cls = type(message)
    facts = facts_of(cls)
    writer = facts.writers.get(version) or _writer(cls, facts, version)
    try:
        return writer(message)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{facts.name} of version {version} has no encoding: {error}") from error


def encode_element(element: object, message: type, version: int) -> bytes:
    """One struct of an array of the message that takes bytes too (`array(..., encoded=True)`), without records: what is
    the same in many messages is encoded once."""
    cls = type(element)
    facts = facts_of(cls)
    writer = facts.writers.get(version)
    if writer is None:
        writer = facts.writers[version] = compile_writer(cls, version, is_flexible(message, version))
    try:
        return b"".join(writer(element))
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{facts.name} of version {version} has no encoding: {error}") from error


def is_flexible(cls: type, version: int) -> bool:
    return version in facts_of(cls).flexible


def _reader(cls: type, facts: Facts, version: int) -> Reader:
    _check(facts, version)
    return facts.readers.setdefault(version, compile_reader(cls, version, version in facts.flexible))


def _writer(cls: type, facts: Facts, version: int) -> Writer:
    _check(facts, version)
    return facts.writers.setdefault(version, compile_writer(cls, version, version in facts.flexible))


def _check(facts: Facts, version: int) -> None:
    if version not in facts.versions:
        first, last = facts.versions
        raise UnsupportedVersionError(f"{facts.name} has the versions {first} to {last}, and not {version}")
