"""Requests of gRPC's door that name one of everything that they can name, filled from the protobuf descriptors.

A new API is attacked without being named here. Every attacker sends six of each: one that names what is there, one
that names what is not, the same two for a partition that no topic has, an empty one, and a wide one, which names
nothing and asks for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from penstock.record.builder import build_batch
from tests.fuzz_live.surface import Method

FAR: Final = 1 << 40
FAR_PARTITION: Final = 10**6
OWN_GROUP, OWN_ID = "members-group", "members-ident"
SENDERS: Final = ("candidate_id", "leader_id", "broker_id", "replica_id")
NUMBERS: Final = {"acks": -1, "replication_factor": 1, "total": 50}
BATCH: Final = build_batch([b"forged"], timestamps_ms=1)


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a request: of the cluster, or of nothing. Texts of both kinds are equally long."""

    topic: str
    topic_id: str
    group: str
    transactional_id: str
    user: str
    cluster_id: str
    victim: int
    """The node in whose name it speaks."""

    def with_own_group(self) -> Names:
        """The same for a client that has every right to this group and to this transactional id."""
        return replace(self, group=OWN_GROUP, transactional_id=OWN_ID)

    def texts(self) -> tuple[str, ...]:
        return (self.topic, self.topic_id, self.group, self.transactional_id, self.user)


def requests_of(method: Method, there: Names, missing: Names) -> Iterator[tuple[str, bytes]]:
    """By variant."""
    seen: list[bytes] = []
    for variant, names, partition in (
        ("there", there, 0),
        ("missing", missing, 0),
        ("there far", there, FAR_PARTITION),
        ("missing far", missing, FAR_PARTITION),
    ):
        message = method.new_request()
        _fill(message, method, names)
        placed(message, partition)
        raw = message.SerializeToString(deterministic=True)
        if raw not in seen:  # one that names nothing has nothing to compare
            yield variant, raw
        seen.append(raw)
    yield "empty", method.new_request().SerializeToString()
    wide = method.new_request()
    for field in wide.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_BOOL and not field.is_repeated:
            setattr(wide, field.name, True)
    yield "wide", wide.SerializeToString()


def placed(message: Message, number: int) -> None:
    """Puts each partition in the message at this number."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if not field.message_type.GetOptions().map_entry and (field.is_repeated or message.HasField(field.name)):
                for one in value if field.is_repeated else (value,):
                    placed(one, number)
        elif field.name == "partition" and not field.is_repeated:
            setattr(message, field.name, number)
        elif field.name == "partitions" and field.is_repeated:
            value[:] = [number] * len(value)


def _fill(message: Message, method: Method, names: Names) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            if value.type == FieldDescriptor.TYPE_STRING:
                getattr(message, field.name)["retention.ms"] = "1"
        elif field.message_type is not None:
            part = getattr(message, field.name)
            _fill(part.add() if field.is_repeated else part, method, names)
        elif field.is_repeated:
            getattr(message, field.name).append(_value(field, method, names))
        else:
            setattr(message, field.name, _value(field, method, names))


def _value(field: FieldDescriptor, method: Method, names: Names) -> Any:
    name = field.name
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(name, names)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return BATCH if name == "records" else b"x" * 32
    if field.type == FieldDescriptor.TYPE_BOOL:
        return False
    if field.type == FieldDescriptor.TYPE_ENUM:
        return 1
    if name in SENDERS:
        return -1 if name == "replica_id" and not method.is_between_nodes else names.victim
    if field.type in (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64) and method.is_between_nodes:
        return FAR
    return NUMBERS.get(name, 1_000 if name.endswith("ms") else 1)


def _text(name: str, names: Names) -> str:
    if name in ("topic_id", "topic_ids"):
        return names.topic_id
    if "transactional_id" in name or name == "application":
        return names.transactional_id
    if "group" in name or name == "keys":
        return names.group
    if name in ("user", "users", "username"):
        return names.user
    return {
        "cluster_id": names.cluster_id,
        "resource_type": "topic",
        "principal": f"User:{names.user}",
        "host": "*",
        "mechanism": "SCRAM-SHA-256",
        "key": "retention.ms",
        "value": "1",
        "protocol_type": "consumer",
        "member_id": "m",
        "incarnation_id": "i" * 22,
    }.get(name, names.topic)
