"""The decoders at the edges: from the bytes of a message to the values that brokers, quorum and clients know.

Protobuf's own refusal of bytes that are no message counts as a typed error: gRPC answers it before any of our code
runs. Good inputs are messages with every field set, made from their descriptors; those of Kafka's protocol have drawn
values, in the last version of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from broker.grpc import quorum_codec as quorum
from broker.kafka.schemas.table import REQUESTS
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.structs import facts_of
from penstock.errors import CorruptMessageError
from penstock.messages.api import ApiKind
from penstock.messages.apis import APIS
from penstock.pb import broker_pb2 as pb
from penstock.wire import streams
from penstock.wire.message_codec import request_codec, response_codec
from tests.support.decoders import ITEM_FLOOR_BYTES, Decoder
from tests.support.kafka_messages import drawn

_NUMBERS = (0, 1, -1, 7, 127, 300, (1 << 31) - 1, -(1 << 31))
_LARGE_NUMBERS = (*_NUMBERS, (1 << 63) - 1, -(1 << 63))
_UNSIGNED = (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED32)
_LARGE = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64)


def filled(random: Random, message: Any) -> Any:
    """Every field set to something; repeated ones twice at most, maps left empty."""
    for field in message.DESCRIPTOR.fields:
        target = getattr(message, field.name)
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                continue
            for _ in range(random.randrange(3)):
                if field.message_type is not None:
                    filled(random, target.add())
                else:
                    target.append(_scalar(random, field))
        elif field.message_type is not None:
            if random.random() < 0.5:
                filled(random, target)
        elif random.random() < 0.8:
            setattr(message, field.name, _scalar(random, field))
    return message


def _scalar(random: Random, field: FieldDescriptor) -> Any:
    kind = field.type
    if kind == FieldDescriptor.TYPE_STRING:
        return random.choice(("", "orders", "T" * 22, "näme", "x" * 200))
    if kind == FieldDescriptor.TYPE_BYTES:
        return random.randbytes(random.choice((0, 9, 200, 3_000)))
    if kind == FieldDescriptor.TYPE_BOOL:
        return random.random() < 0.5
    if kind == FieldDescriptor.TYPE_ENUM:
        return random.choice(field.enum_type.values).number
    if kind == FieldDescriptor.TYPE_DOUBLE:
        return random.random()
    number = random.choice(_LARGE_NUMBERS if kind in _LARGE else _NUMBERS)
    return abs(number) & 0xFFFF if kind in _UNSIGNED else number


def _decoder(
    message_class: Any, decode: Callable[[Any], object], parse: Callable[[bytes], Any] | None = None
) -> Decoder:
    """A decoder of one message; `parse` replaces protobuf's parser."""
    parse = parse or message_class.FromString

    def parsed(data: bytes) -> object:
        try:
            return decode(parse(data))
        except DecodeError:
            raise CorruptMessageError("no message: gRPC answers, or the connection that has read it") from None

    def size(data: bytes) -> int:
        try:
            return max(len(data), ITEM_FLOOR_BYTES * _elements(message_class.FromString(data)))
        except DecodeError:
            return len(data)

    name = f"{decode.__module__.rpartition('.')[2]}: {message_class.DESCRIPTOR.name}"
    return Decoder(name, lambda random: filled(random, message_class()).SerializeToString(), parsed, size=size)


def _elements(message: Any) -> int:
    """How many messages there are in a message, itself included."""
    found = 1
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            found += sum(map(_elements, value if field.is_repeated else [value]))
        elif field.is_repeated:
            found += len(value)
    return found


def _rows() -> Iterator[tuple[Any, ...]]:
    for api in APIS.values():
        if api.kind is ApiKind.QUORUM:
            call = quorum.CALLS[api.name]
            yield call.request, call.request_from_pb
            yield call.response, quorum.response_from_pb
        elif api.kind is not ApiKind.STREAM:
            for one in (request_codec(api), response_codec(api)):
                yield one.message, one.of_message
    yield pb.FetchRequest, streams.fetch_request_from_bytes, bytes
    yield pb.ProduceRequest, streams.produce_request_from_bytes, bytes
    yield pb.ProduceResponse, streams.produce_response_from_bytes, bytes
    yield pb.FetchResponse, streams.fetch_response_from_bytes, bytes


# -- Kafka's protocol --------------------------------------------------------------------------------------------------

_KAFKA_BYTE = 4
"""The bytes that a byte of a request counts as: an element of two bytes may become an object of 200. The limit of
elements bounds what that comes to (tests/property/broker/kafka/test_messages.py)."""


def _kafka_decoder(cls: type) -> Decoder:
    version = facts_of(cls).versions.last

    def sample(random: Random) -> bytes:
        return b"".join(bytes(part) for part in encode(drawn(cls, version, random), version))

    def read(data: bytes) -> object:
        return decode(cls, version, memoryview(data))

    return Decoder(f"kafka: {cls.__name__}", sample, read, size=lambda data: _KAFKA_BYTE * len(data))


WIRE_DECODERS = (*(_decoder(*row) for row in _rows()), *map(_kafka_decoder, REQUESTS.values()))
