"""Record bytes in protobuf messages, put in and taken out without protobuf, which copies and allocates them anew.

The messages are of one kind: `partitions`, a repeated message, has a field of bytes, `records`. A protobuf message may
be put together from pieces: its fields may stand in any order, and one that is length-delimited is

    tag (field number << 3 | 2)  varint (length)  bytes

so everything else is left to protobuf, and the records are joined to it, or cut out of it, as they are. For speed: half
a megabyte costs 20 µs instead of 900. Bytes in which the walk finds anything unusual are left to protobuf as a whole:
it alone says what is a message, and what is in it. Wire format: https://protobuf.dev/programming-guides/encoding
Not here: what the messages mean (streams.py), how large they may be (the broker's limits).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.errors import CorruptMessageError
from penstock.record.varint import decode_zigzag as decode_unsigned
from penstock.record.varint import encode_unsigned

JOIN_FROM_BYTES: Final = 16 * 1024
CUT_OUT_FROM_BYTES: Final = 2048
"""The sizes below which protobuf alone is quicker: all records of a message, and one partition."""
FIELDS_MAX = 20_000
"""Limit for fields (2,000 partitions with all of theirs): of more, protobuf alone makes a message sooner; it has C's
loops."""
PREFIX_BYTES_MAX = 5
"""Limit for a tag, and for a length: 32 bits at seven a byte. Protobuf refuses a longer one, even one that is only
padded."""
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


class RecordsField:
    """Knows the two fields of one message type; `message_type` is a generated class."""

    def __init__(self, message_type: Any) -> None:
        self._parse = message_type.FromString
        partitions = message_type.DESCRIPTOR.fields_by_name["partitions"]
        self._partitions_tag = partitions.number << 3 | _LENGTH_DELIMITED
        self._records_tag = partitions.message_type.fields_by_name["records"].number << 3 | _LENGTH_DELIMITED

    def join(self, message: Any, records: Sequence[bytes | memoryview]) -> bytes:
        """The bytes of a message that has all but the records of its partitions. The message is used up."""
        if sum(map(len, records)) < JOIN_FROM_BYTES:
            for partition, its_own in zip(message.partitions, records, strict=True):
                partition.records = bytes(its_own)
            return bytes(message.SerializeToString())
        pieces: list[bytes | memoryview] = []
        for partition, its_own in zip(message.partitions, records, strict=True):
            lead = partition.SerializeToString()
            if its_own:
                lead += encode_unsigned(self._records_tag) + encode_unsigned(len(its_own))
            pieces += (encode_unsigned(self._partitions_tag), encode_unsigned(len(lead) + len(its_own)), lead, its_own)
        del message.partitions[:]
        return b"".join((message.SerializeToString(), *pieces))

    def split(self, raw: bytes) -> tuple[Any, list[bytes]]:
        """The message, and the records of each of its partitions, which the message itself may not have any more.

        Raises DecodeError for what is no message, as protobuf does.
        """
        if len(raw) >= CUT_OUT_FROM_BYTES:
            with contextlib.suppress(CorruptMessageError):
                return self._cut(raw)
        message = self._parse(raw)
        return message, [partition.records for partition in message.partitions]

    def _cut(self, raw: bytes) -> tuple[Any, list[bytes]]:
        """Splits a message as `split` does; CorruptMessageError leaves the bytes to protobuf. If a partition has
        several records fields, the last counts."""
        view, walk = memoryview(raw), _Walk(raw)
        kept: list[bytes | memoryview] = []
        kept_to = 0
        found: list[bytes | None] = []
        for tag, at, value_at, end in walk.fields(0, len(raw)):
            if tag != self._partitions_tag:
                continue
            if end - value_at < CUT_OUT_FROM_BYTES:
                found.append(None)
                continue
            cuts = [field for field in walk.fields(value_at, end) if field[0] == self._records_tag]
            size = end - value_at - sum(cut_end - cut_at for _, cut_at, _, cut_end in cuts)
            kept += (view[kept_to:at], encode_unsigned(tag), encode_unsigned(size))
            kept_to = value_at
            for _, cut_at, _, cut_end in cuts:
                kept.append(view[kept_to:cut_at])
                kept_to = cut_end
            found.append(raw[cuts[-1][2] : cuts[-1][3]] if cuts else b"")
        kept.append(view[kept_to:])
        if sum(map(len, kept)) > len(raw) // 2:
            raise CorruptMessageError(
                "the message holds few record bytes: it is parsed whole, because a copy saves nothing"
            )
        message = self._parse(b"".join(kept))
        return message, [
            partition.records if records is None else records
            for partition, records in zip(message.partitions, found, strict=True)
        ]


class _Walk:
    """A walk over the fields of one message, and of messages in it, FIELDS_MAX together at most."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._left = FIELDS_MAX

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Tag, where it begins, where its value begins, and where that ends, of every field; or CorruptMessageError."""
        raw = self._raw
        while at < end:
            self._left -= 1
            field_at, tag, value_at = at, raw[at], at + 1
            if tag > 0x7F:
                tag, value_at = self._prefix(at)
            kind = tag & 7
            if kind == _LENGTH_DELIMITED:
                size, value_at = self._prefix(value_at)
                at = value_at + size
            elif kind == _VARINT:
                at = decode_unsigned(raw, value_at)[1]
            elif kind in (_FIXED64, _FIXED32):
                at = value_at + (8 if kind == _FIXED64 else 4)
            else:
                raise CorruptMessageError(f"wire type {kind} at byte {field_at}")
            if at > end or self._left < 0:
                raise CorruptMessageError(f"the field at byte {field_at} is cut off, or occurs once too often")
            yield tag, field_at, value_at, at

    def _prefix(self, at: int) -> tuple[int, int]:
        """A tag or a length."""
        number, after = decode_unsigned(self._raw, at)
        if after - at > PREFIX_BYTES_MAX:
            raise CorruptMessageError(f"the number at byte {at} has more than {PREFIX_BYTES_MAX} bytes")
        return number, after
