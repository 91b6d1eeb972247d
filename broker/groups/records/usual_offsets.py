"""The records of offsets in their usual form, read many at a time, and written three times as fast as by the codec.

Nearly all records of `__consumer_offsets` are of this form, and a coordinator that becomes the leader reads millions:

    key      int16 1, int16 n, group, int16 n, topic, int32 partition
    value    int16 4, int64 offset, int32 leader epoch, uvarint 1 (no text), int64 commit time,
             one tagged field: uvarint 0, uvarint 16, the topic's id; or none

What differs (a text, an older version, anything malformed) is left to record_codec.py, which decides what it is. Pure.
"""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import gt
from sys import byteorder
from typing import Any, Final

from broker.coordination.record_log import RecordRun
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue, OffsetRun, OffsetRunKey
from broker.groups.records.record_codec import OFFSET_VERSION, encode_group_record
from broker.kafka_codec.primitives import uuid_bytes, uuid_text
from penstock.types import NO_TIMESTAMP

_KEY_TYPE: Final = b"\x00\x01"
_PARTITION: Final = struct.Struct(">i")
_VERSION: Final = struct.pack(">h", OFFSET_VERSION)
_ENTRY_AT: Final = len(_VERSION)
_FIELDS: Final = struct.Struct(">qiBq")
"""OFFSET_ENTRY with the byte that says that there is no text."""
_TEXT_AT: Final = _ENTRY_AT + 12
_TAIL: Final = _ENTRY_AT + _FIELDS.size
"""Where the tagged fields begin."""
_NO_TEXT: Final = b"\x01"
_NO_TAG: Final = b"\x00"
_ONE_TAG: Final = b"\x01\x00\x10"
RUN_RECORDS_MAX: Final = 1_000
"""A run is taken into the state without a pause."""


def usual_runs(keys: Sequence[Any], values: Sequence[Any], places: Iterable[int]) -> tuple[list[RecordRun], list[int]]:
    """The records at these places, all of different keys, by group and topic; and the places of those that are not of
    the usual form."""
    forms: defaultdict[tuple[bytes, bytes], list[int]] = defaultdict(list)
    others: list[int] = []
    for place in places:
        value = values[place]
        if value is None:
            others.append(place)
        else:
            forms[keys[place][:-4], value[_TAIL:]].append(place)
    runs: list[RecordRun] = []
    for (start, tail), alike in forms.items():
        topic_id = _topic_id(tail)
        names = None if topic_id is None else _names(start)
        if topic_id is None or names is None or not _are_usual([values[place] for place in alike], _TAIL + len(tail)):
            others += alike
            continue
        for first in range(0, len(alike), RUN_RECORDS_MAX):
            part = alike[first : first + RUN_RECORDS_MAX]
            runs.append(RecordRun(names, _run(topic_id, keys, values, part), len(part)))
    return runs, others


def _are_usual(values: Sequence[bytes], size: int) -> bool:
    """Values of one size, of which the tagged fields are usual."""
    whole, count = b"".join(values), len(values)
    return (
        whole[::size] == _VERSION[:1] * count
        and whole[1::size] == _VERSION[1:] * count
        and whole[_TEXT_AT::size] == _NO_TEXT * count
    )


def _names(start: bytes) -> OffsetRunKey | None:
    """Group and topic, which are all that is before the partition."""
    if start[: len(_KEY_TYPE)] != _KEY_TYPE:
        return None
    at, names = len(_KEY_TYPE), []
    for _ in OffsetRunKey._fields:
        size = int.from_bytes(start[at : at + 2], signed=True)
        at += 2 + size
        if size < 0 or at > len(start):
            return None
        try:
            names.append(start[at - size : at].decode())
        except UnicodeDecodeError:
            return None
    return OffsetRunKey(*names) if at == len(start) else None


def _run(topic_id: str, keys: Sequence[Any], values: Sequence[Any], places: list[int]) -> OffsetRun:
    partitions = _partitions(keys, places)
    if any(map(gt, partitions, islice(partitions, 1, None))):
        places = [place for _, place in sorted(zip(partitions, places, strict=True))]
        partitions = _partitions(keys, places)
    return OffsetRun(topic_id, partitions, b"".join([values[place][_ENTRY_AT:_TAIL] for place in places]))


def _partitions(keys: Sequence[Any], places: list[int]) -> array[int]:
    found = array("i", b"".join([keys[place][-4:] for place in places]))
    if byteorder == "little":
        found.byteswap()
    return found


def _topic_id(tail: bytes) -> str | None:
    """The topic's id in what is behind the commit time; None if that is not of the usual form."""
    if tail == _NO_TAG:
        return ""
    return uuid_text(tail[3:]) if len(tail) == 19 and tail[:3] == _ONE_TAG else None


class UsualOffsetWriter:
    """Encodes offsets quickly. It keeps the names that it has met: make one for each piece of work."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], bytes] = {}
        self._tails: dict[str, bytes] = {"": _NO_TAG}

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
        tail = self._tails.get(value.topic_id)
        if tail is None:
            tail = self._tails[value.topic_id] = _ONE_TAG + uuid_bytes(value.topic_id)
        try:
            key_bytes = start + _PARTITION.pack(key.partition)
            fields = _FIELDS.pack(value.offset, value.leader_epoch, 1, value.commit_timestamp)
            return key_bytes, _VERSION + fields + tail
        except struct.error:
            return None  # the general codec says which field is wrong
