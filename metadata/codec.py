"""Encodes a metadata record for the log: one JSON object per record value.

    {"type":"PartitionChange","version":0,"topic_id":"…","partition":3,"isr":[1,2],"leader_id":2}

`type` is the record class without its suffix, `version` the version of that type, the rest the fields of the class; a
field that is None is left out. JSON, because metadata is small, rare, and must be readable when a cluster is sick. The
checksum is the record batch's.

Versions (records.py says when one rises): a record is read in any version from 0 to the newest that this node knows,
and the fields that its version lacks have their defaults. It is written in the oldest version that has every field it
sets, so a node of the release before stops only at a record with a new field.

A node must not guess: an unknown type, version or field, or a value of the wrong type, stops the node with an error,
because skipping a record would give this node another image than its peers have (I8). Only the quorum's own
"LeaderChange" is skipped on purpose: it says nothing about the cluster. Its "Voters" are written and read by the
quorum's own rule (raft/voter_records.py), so that the log and each snapshot say them in the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Final, cast

from metadata.records import (
    ADDED_IN,
    SECRET,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    VotersRecord,
)
from penstock.errors import CorruptMessageError, PenstockError
from raft.messages import LEADER_CHANGE
from raft.voter_records import VOTERS, VOTERS_VERSION, voters_of_value, voters_value

MAX_RECORD_BYTES: Final = 1 << 20
"""No record that we write comes near this; a larger value is damage, and is not parsed."""
HIDDEN: Final = "***"
_SUFFIX: Final = "Record"
_INT64: Final = range(-(1 << 63), 1 << 63)
_SHOWN_CHARACTERS: Final = 120
_UPGRADE: Final = "this node is older than the cluster; upgrade it"


class MalformedMetadataRecordError(PenstockError):
    """A value in the metadata log is not a metadata record: damage, or a bug in the node that wrote it."""


class UnsupportedMetadataRecordError(PenstockError):
    """A metadata record has a type, version or field that this node does not know. Upgrade it; it must not guess."""


def _is_int(value: object) -> bool:
    return type(value) is int and value in _INT64


def _is_str(value: object) -> bool:
    return type(value) is str


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_float(value: object) -> bool:
    return type(value) is float and math.isfinite(value)


def _is_ints(value: object) -> bool:
    return type(value) is list and all(map(_is_int, value))


def _is_strs(value: object) -> bool:
    return type(value) is list and all(map(_is_str, value))


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "int": _is_int,
    "int | None": _is_int,
    "str": _is_str,
    "str | None": _is_str,
    "float | None": _is_float,
    "bool": _is_bool,
    "bool | None": _is_bool,
    "tuple[int, ...]": _is_ints,
    "tuple[int, ...] | None": _is_ints,
    "tuple[str, ...]": _is_strs,
    "tuple[str, ...] | None": _is_strs,
}
"""The check of a JSON value by the annotation of its field: is it of that type?"""

_CLASSES: Final[tuple[type[Record], ...]] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    TopicRecord,
    PartitionRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    ConfigRecord,
    ProducerIdsRecord,
    UserScramCredentialRecord,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    ClientQuotaRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
_TYPE_BY_CLASS: Final = {cls: cls.__name__.removesuffix(_SUFFIX) for cls in _CLASSES}
_CLASS_BY_TYPE: Final = {name: cls for cls, name in _TYPE_BY_CLASS.items()}
_FIELDS: Final[Mapping[type[Record], tuple[Field[object], ...]]] = {cls: fields(cls) for cls in _CLASSES}


def record_version(cls: type[Record]) -> int:
    """The newest version of a record type."""
    return VOTERS_VERSION if cls is VotersRecord else max(map(_added_in, _FIELDS[cls]), default=0)


def encode_record(record: Record) -> bytes:
    """The record as the value of one log record, in the oldest version that has all fields that it sets."""
    return _encoded(record, shows_secrets=True)


def encode_shown(record: Record) -> bytes:
    """The record for people to read: in the place of a secret are asterisks."""
    return _encoded(record, shows_secrets=False)


def _encoded(record: Record, *, shows_secrets: bool) -> bytes:
    if isinstance(record, VotersRecord):
        return voters_value(record.voters)
    cls = type(record)
    document: dict[str, object] = {"type": _TYPE_BY_CLASS[cls], "version": 0}
    for field in _FIELDS[cls]:
        value, since = getattr(record, field.name), _added_in(field)
        if value is None or (since > 0 and value == field.default):
            continue
        document[field.name] = value if shows_secrets or not field.metadata.keys() & SECRET else HIDDEN
        document["version"] = max(cast(int, document["version"]), since)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def decode_record(value: bytes | bytearray | memoryview) -> Record:
    """The record that a value of the metadata log holds; NoOpRecord for the quorum's own bookkeeping."""
    document = _parse(bytes(value))
    type_name, version = document.pop("type", None), document.pop("version", None)
    if type_name == LEADER_CHANGE:
        return NoOpRecord()
    if type_name == VOTERS:
        return _voters(bytes(value), version)
    if not isinstance(type_name, str):
        raise MalformedMetadataRecordError(f"metadata record without a type: {_shown(document)}")
    cls = _CLASS_BY_TYPE.get(type_name)
    if cls is None:
        raise UnsupportedMetadataRecordError(f"metadata record of unknown type {_shown(type_name)}: {_UPGRADE}")
    if type(version) is not int or version not in _INT64 or version < 0:
        raise MalformedMetadataRecordError(f"metadata record {type_name} has no valid version: {_shown(version)}")
    if version > (newest := record_version(cls)):
        raise UnsupportedMetadataRecordError(
            f"metadata record {type_name} has version {version}, this node knows up to {newest}: {_UPGRADE}"
        )
    return _build(cls, version, document)


def _voters(value: bytes, version: object) -> VotersRecord:
    if type(version) is int and version > VOTERS_VERSION:
        raise UnsupportedMetadataRecordError(
            f"metadata record {VOTERS} has version {version}, this node knows up to {VOTERS_VERSION}: {_UPGRADE}"
        )
    try:
        return VotersRecord(voters_of_value(value))
    except CorruptMessageError as damage:
        raise MalformedMetadataRecordError(str(damage)) from damage


def _added_in(field: Field[object]) -> int:
    return int(field.metadata.get(ADDED_IN, 0))


def _parse(value: bytes) -> dict[str, object]:
    if len(value) > MAX_RECORD_BYTES:
        raise MalformedMetadataRecordError(f"metadata record of {len(value)} bytes, at most {MAX_RECORD_BYTES} exist")
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise MalformedMetadataRecordError(f"metadata record is not JSON ({error}): {_shown(value)}") from None
    if type(document) is not dict:
        raise MalformedMetadataRecordError(f"metadata record is not a JSON object: {_shown(value)}")
    return document


def _build(cls: type[Record], version: int, document: dict[str, object]) -> Record:
    type_name = _TYPE_BY_CLASS[cls]
    arguments: dict[str, Any] = {}  # each value was checked against its field's annotation
    for field in _FIELDS[cls]:
        if _added_in(field) > version:
            continue  # its default is what such a record means; if it is in the document, it is one field too many
        if field.name not in document:
            if field.default is MISSING:
                raise MalformedMetadataRecordError(f"metadata record {type_name} lacks {field.name}")
            continue
        value = document.pop(field.name)
        if not _CHECKS[str(field.type)](value):
            raise MalformedMetadataRecordError(
                f"metadata record {type_name}: {field.name} = {_shown(value)} is not of type {field.type}"
            )
        arguments[field.name] = tuple(value) if type(value) is list else value
    if document:
        raise UnsupportedMetadataRecordError(
            f"metadata record {type_name} has fields that are not of its version {version}, {_shown(sorted(document))}:"
            f" {_UPGRADE}"
        )
    return cls(**arguments)


def _shown(value: object) -> str:
    """A value as an error may show it: whole when short."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
