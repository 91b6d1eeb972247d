"""Our bytes are those of kio, which is generated from Kafka's definitions, and both read the same values in them."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import io
import re
from random import Random
from typing import Any

from kio.serial import entity_reader, entity_writer

from broker.groups.records.record_codec import RECORD_CLASSES
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse
from broker.kafka.schemas.quorum import UnregisterControllerRequest, UnregisterControllerResponse
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.structs import facts_of
from tests.support.kafka_messages import PAIRS, differences, drawn, spelled

DRAWN = 2
NOT_THERE = {(cls, version) for cls in (ProduceRequest, ProduceResponse) for version in (0, 1, 2)}
"""Kafka 4 has no definition of them, and kio has Kafka's."""
NOT_YET = {(UnregisterControllerRequest, 0), (UnregisterControllerResponse, 0)}
"""Newer than the newest Kafka whose definitions kio has."""
MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def their_class(cls: type, version: int) -> Any:
    stem, kind = cls.__name__, "data"
    for suffix in ("Request", "Response"):
        if facts_of(cls).key is not None and stem.endswith(suffix):
            stem, kind = stem.removesuffix(suffix), suffix.lower()
    folder = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", stem).lower()
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{kind}"), cls.__name__)


def their_fields(theirs: Any, version: int) -> list[tuple[str, Any]]:
    return [(field.name, getattr(theirs, field.name)) for field in dataclasses.fields(theirs)]


def plain(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return round(value / MILLISECOND)
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH) / MILLISECOND)
    return value.value if isinstance(value, enum.Enum) else spelled(value)


def same_name(ours: str, theirs: str) -> bool:
    """Theirs leave the unit out."""
    return theirs in (ours, ours.removesuffix("_ms"), f"{ours}_", ours.replace("kraft", "k_raft"))


def test_every_version_of_every_message_has_the_bytes_and_the_values_that_kio_has() -> None:
    compared = set()
    there = [(cls, version) for cls, version in PAIRS if cls not in RECORD_CLASSES]
    for cls, version in sorted(set(there) - NOT_THERE - NOT_YET, key=str):
        theirs_cls = their_class(cls, version)
        read, write = entity_reader(theirs_cls), entity_writer(theirs_cls)
        for seed in range(DRAWN):
            ours = drawn(cls, version, Random(f"{cls.__name__} {version} {seed}"))
            body = b"".join(bytes(part) for part in encode(ours, version))

            theirs, size = read(body, 0)
            out = io.BytesIO()
            write(out, theirs)

            assert differences(ours, theirs, version, their_fields, plain, same_name) == []
            assert (size, out.getvalue()) == (len(body), body), f"{cls.__name__} of version {version}"
            assert decode(cls, version, memoryview(out.getvalue()))[0] == ours
            compared.add((cls, version))
    assert len(compared) == 514
