"""The records of offsets in their usual form, read and written three times as fast as by the general codec.

Nearly all records of `__consumer_offsets` are of this form, and a coordinator that becomes the leader reads millions:

    key      int16 1, int16 n, group, int16 n, topic, int32 partition
    value    int16 4, int64 offset, int32 leader epoch, uvarint 1 (no text), int64 commit time,
             one tagged field: uvarint 0, uvarint 16, the topic's id; or none

What differs (a text, an older version, anything malformed) is left to record_codec.py, which decides what it is. An
object of these classes keeps the names that it has met: make one for each piece of work. Pure.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from broker.coordination.record_codec import MalformedRecordError
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import (
    OFFSET_VERSION,
    decode_group_record,
    encode_group_record,
)
from broker.kafka_codec.primitives import uuid_bytes, uuid_text
from penstock.types import NO_TIMESTAMP

_KEY_TYPE: Final = b"\x00\x01"
_PARTITION: Final = struct.Struct(">i")
_VALUE: Final = struct.Struct(">hqiBqBBB16s")
_VALUE_WITHOUT_ID: Final = struct.Struct(">hqiBqB")
_NO_TEXT: Final = 1
_ONE_TAG: Final = (1, 0, 16)


class UsualOffsetReader:
    """See the module."""

    def __init__(self) -> None:
        self._names: dict[bytes, tuple[str, str]] = {}
        """Group and topic, by the bytes of a key before its partition."""
        self._ids: dict[bytes, str] = {}

    def read(self, key: bytes, value: bytes | None) -> tuple[OffsetCommitKey, OffsetCommitValue | None] | None:
        """The record; None if it is not of the usual form."""
        names = self._names.get(key[:-4])
        if names is None:
            names = self._read_names(key)
            if names is None:
                return None
        decoded = None
        if value is not None:
            if len(value) == _VALUE.size:
                version, offset, epoch, text, time_ms, *tag, raw = _VALUE.unpack(value)
                if version != OFFSET_VERSION or text != _NO_TEXT or tuple(tag) != _ONE_TAG:
                    return None
                topic_id = self._ids.get(raw)
                if topic_id is None:
                    topic_id = self._ids[raw] = uuid_text(raw)
            elif len(value) == _VALUE_WITHOUT_ID.size:
                version, offset, epoch, text, time_ms, tags = _VALUE_WITHOUT_ID.unpack(value)
                if version != OFFSET_VERSION or text != _NO_TEXT or tags:
                    return None
                topic_id = ""
            else:
                return None
            decoded = OffsetCommitValue(offset=offset, leader_epoch=epoch, commit_timestamp=time_ms, topic_id=topic_id)
        group, topic = names
        return OffsetCommitKey(
            group=group, topic=topic, partition=_PARTITION.unpack_from(key, len(key) - 4)[0]
        ), decoded

    def _read_names(self, key: bytes) -> tuple[str, str] | None:
        """The general codec reads a key first; one with bytes behind it is not of the usual form."""
        if key[:2] != _KEY_TYPE:
            return None
        try:
            record = decode_group_record(key, None)
        except MalformedRecordError:
            return None
        if record is None or encode_group_record(record[0], None)[0] != key:
            return None
        names = self._names[key[:-4]] = record[0].group, record[0].topic
        return names


class UsualOffsetWriter:
    """See the module."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], bytes] = {}
        self._ids: dict[str, bytes] = {"": b""}

    def encode(self, key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
        """The bytes of a record of any type."""
        found = self.write(key, value) if type(value) is OffsetCommitValue else None
        return encode_group_record(key, value) if found is None else found

    def write(self, key: OffsetCommitKey, value: OffsetCommitValue) -> tuple[bytes, bytes] | None:
        """The record's bytes; None if it is not of the usual form."""
        if value.metadata or value.expire_timestamp != NO_TIMESTAMP:
            return None
        start = self._names.get((key.group, key.topic))
        if start is None:
            start = encode_group_record(key, None)[0][:-4]
            self._names[key.group, key.topic] = start
        raw = self._ids.get(value.topic_id)
        if raw is None:
            raw = self._ids[value.topic_id] = uuid_bytes(value.topic_id)
        try:
            key_bytes = start + _PARTITION.pack(key.partition)
            fields = OFFSET_VERSION, value.offset, value.leader_epoch, _NO_TEXT, value.commit_timestamp
            return key_bytes, _VALUE.pack(*fields, *_ONE_TAG, raw) if raw else _VALUE_WITHOUT_ID.pack(*fields, 0)
        except struct.error:
            return None  # the general codec says which field is wrong
