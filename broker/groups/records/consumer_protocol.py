"""The subscriptions and assignments of consumers in the classic protocol, which members write and read.

    int16 version, then the fields of that version; not flexible

The leader of a classic group assigns by the subscriptions; the coordinator reads them only where it must: to know which
topics a group reads, and to give a classic member a place in a consumer group (KIP-848). The bytes come from clients.
A later version begins like the last one that is known here, and is read as that one.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from broker.kafka_codec import codec
from broker.kafka_codec.fields import Bytes, array, bytes_, int32, string
from broker.kafka_codec.structs import facts_of, message
from broker.kafka_codec.structs import struct as struct_
from penstock.base_error import PenstockError
from penstock.errors import InvalidRequestError

T = TypeVar("T")
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of classic groups whose members write these."""
_VERSION: Final = struct.Struct(">h")


class MalformedConsumerProtocolError(PenstockError):
    """A member's metadata, or its assignment, is none of the consumer protocol."""


@struct_
class ConsumerProtocolTopicPartitions:
    topic: str = string()
    partitions: list[int] = array(int32)


@message(versions="0-3")
class ConsumerProtocolAssignment:
    assigned_partitions: list[ConsumerProtocolTopicPartitions] = array(ConsumerProtocolTopicPartitions)
    user_data: Bytes | None = bytes_(null="0+", default=None)


@message(versions="0-3")
class ConsumerProtocolSubscription:
    topics: list[str] = array(string)
    user_data: Bytes | None = bytes_(null="0+", default=None)
    owned_partitions: list[ConsumerProtocolTopicPartitions] = array(
        ConsumerProtocolTopicPartitions, "1+", ignorable=True
    )
    generation_id: int = int32("2+", ignorable=True, default=-1)
    rack_id: str | None = string("3+", null="0+", ignorable=True, default=None)


def encode_consumer_protocol(
    what: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int | None = None
) -> bytes:
    """The bytes of that version; of the last one by default."""
    chosen = facts_of(type(what)).versions.last if version is None else version
    return _VERSION.pack(chosen) + b"".join(codec.encode(what, chosen))


def decode_subscription(data: Bytes) -> ConsumerProtocolSubscription:
    subscription, _ = _decoded(ConsumerProtocolSubscription, data)
    return subscription


def decode_assignment(data: Bytes) -> ConsumerProtocolAssignment:
    """An empty one of no bytes, which a member without partitions may be given."""
    return _decoded(ConsumerProtocolAssignment, data)[0] if data else ConsumerProtocolAssignment()


def subscription_version(data: Bytes) -> int:
    """The version in which a member wrote its subscription, at most the last known one: it reads that version."""
    return _decoded(ConsumerProtocolSubscription, data)[1]


def _decoded(cls: type[T], data: Bytes) -> tuple[T, int]:
    """The message, which holds slices of `data` where it has bytes, and its version."""
    what = facts_of(cls).name
    if len(data) < _VERSION.size:
        raise MalformedConsumerProtocolError(f"a {what} has {len(data)} bytes, and no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedConsumerProtocolError(f"a {what} has the version {version}")
    version = min(version, facts_of(cls).versions.last)
    try:
        return codec.decode(cls, version, memoryview(data), _VERSION.size)[0], version
    except InvalidRequestError as error:
        raise MalformedConsumerProtocolError(str(error)) from None
