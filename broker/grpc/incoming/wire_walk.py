"""Counts the elements of repeated fields in a protobuf message without parsing it, and stops at the first limit.

    message := { tag  value }            tag = varint of (field number << 3 | wire type)
    value   := varint                    wire type 0
             | 8 bytes                   1
             | varint length, bytes      2: string, bytes, message, map entry, or packed numbers
             | 4 bytes                   5

The walk steps from tag to tag and jumps over values, so it costs a step for each field and nothing for record bytes.
It enters a message only if repeated fields may be inside, or if the message is so large that many unknown fields could
hide there. Steps are limited too, because an unknown field of two bytes costs a step. So the cost of the walk, and of
the parser after it, grows with the limits and not with the message.

Pure: bytes in, counts out or InvalidRequestError. A message's shape comes from request_decoder.py. Groups (wire types
3 and 4) are refused, because no message of ours has one.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import InvalidRequestError
from penstock.lazy_dataclass import dataclass

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
CONTINUES = 0x80
"""The bit of a varint's byte that says that another byte follows."""
VARINT_BYTES_MAX = 10
LEAF_BYTES = 1024
"""A message without repeated fields is entered if it is larger: one with a topic name and an id has 330 bytes."""
NOT_LAST_BYTES = bytes(range(CONTINUES, 256))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of length-delimited or numeric elements that the walk looks at. `limit` is None where it is singular."""

    path: str
    limit: int | None
    is_number: bool = False
    message: Shape | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a message that are repeated or messages, by number."""

    fields: Mapping[int, Field]
    has_repeated: bool


class WireWalk:
    """One walk over one message. `counts` has the number of elements, by path."""

    def __init__(self, api: str, raw: bytes, steps_max: int) -> None:
        self.counts: dict[str, int] = {}
        self._api = api
        self._raw = raw
        self._steps_max = self._steps_left = steps_max

    def run(self, shape: Shape) -> dict[str, int]:
        """Count; InvalidRequestError names the field that is over its limit, or says where the bytes end too early."""
        try:
            self._message(shape, 0, len(self._raw))
        except IndexError:
            raise self._cut_off(len(self._raw)) from None
        return self.counts

    def _message(self, shape: Shape, at: int, end: int) -> None:
        raw = self._raw
        while at < end:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise InvalidRequestError(
                    f"{self._api}: the request has more than {self._steps_max} fields; divide it into several requests"
                )
            began, tag = at, raw[at]
            at += 1
            if tag >= CONTINUES:
                tag, at = self._varint(began)
            field = shape.fields.get(tag >> 3)
            wire_type = tag & 7
            if wire_type == LENGTH_DELIMITED:
                size, at = self._varint(at)
                if at + size > end:
                    raise self._cut_off(began)
                if field is not None:
                    self._value(field, at, at + size)
                at += size
            else:
                at = self._jump(wire_type, at)
                if field is not None and field.is_number:
                    self._add(field, 1)
        if at != end:
            raise self._cut_off(at)

    def _jump(self, wire_type: int, at: int) -> int:
        """Past a value that is not length-delimited."""
        if wire_type == VARINT:
            return self._varint(at)[1]
        if wire_type == FIXED64:
            return at + 8
        if wire_type == FIXED32:
            return at + 4
        raise InvalidRequestError(f"{self._api}: wire type {wire_type} at byte {at} is not part of this protocol")

    def _varint(self, at: int) -> tuple[int, int]:
        raw, value = self._raw, 0
        for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < CONTINUES:
                return value, at
        raise InvalidRequestError(f"{self._api}: the number at byte {at - VARINT_BYTES_MAX} has more than 64 bits")

    def _value(self, field: Field, at: int, end: int) -> None:
        if field.is_number:
            self._add(field, len(self._raw[at:end].translate(None, NOT_LAST_BYTES)))
            return
        if field.limit is not None:
            self._add(field, 1)
        if field.message is not None and (field.message.has_repeated or end - at > LEAF_BYTES):
            self._message(field.message, at, end)

    def _add(self, field: Field, elements: int) -> None:
        count = self.counts.get(field.path, 0) + elements
        self.counts[field.path] = count
        if field.limit is not None and count > field.limit:
            raise InvalidRequestError(
                f"{self._api}: {field.path} has {count} elements or more; at most {field.limit} are allowed, send "
                "several requests"
            )

    def _cut_off(self, at: int) -> InvalidRequestError:
        return InvalidRequestError(
            f"{self._api}: the request ends within the field at byte {at} of {len(self._raw)}; it is not a message"
        )
