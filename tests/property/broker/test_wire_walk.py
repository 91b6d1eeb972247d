"""The walk over the wire counts what protobuf parses, and meets every other sequence of bytes with a typed error."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.grpc.incoming.request_decoder import RequestDecoder
from penstock.errors import InvalidRequestError
from penstock.messages.apis import APIS
from penstock.pb import broker_pb2, controller_pb2, quorum_pb2
from tests.support.amount import usually

METHODS: list[MethodDescriptor] = [
    method
    for module in (broker_pb2, controller_pb2, quorum_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
BYTES_MAX = 1 << 20


def decoder_of(method: MethodDescriptor) -> RequestDecoder:
    return RequestDecoder(APIS[method.name], BYTES_MAX)


def fill(draw: st.DrawFn, message: Any) -> None:
    """Any fields of any values, nested ones too."""
    for field in message.DESCRIPTOR.fields:
        times = draw(st.integers(0, 3)) if field.is_repeated else draw(st.integers(0, 1))
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(times):
                getattr(message, field.name)[draw(st.text(max_size=3))] = draw(st.text(max_size=200))
        elif field.message_type is not None:
            for _ in range(times):
                fill(draw, getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name))
        else:
            values = [draw(value_of(field)) for _ in range(times)]
            if field.is_repeated:
                getattr(message, field.name).extend(values)
            elif values:
                setattr(message, field.name, values[0])


def value_of(field: Any) -> st.SearchStrategy[Any]:
    if field.type == field.TYPE_STRING:
        return st.text(max_size=20)
    if field.type == field.TYPE_BYTES:
        return st.binary(max_size=3_000)
    if field.type == field.TYPE_BOOL:
        return st.booleans()
    bits = 31 if field.type in (field.TYPE_INT32, field.TYPE_SINT32, field.TYPE_ENUM) else 63
    return st.integers(-(2**bits), 2**bits - 1)


def counted(message: Message, prefix: str = "") -> Counter[str]:
    """Elements by path, as protobuf has parsed them."""
    found: Counter[str] = Counter()
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        if field.is_repeated:
            found[path] += len(value)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for one in value if field.is_repeated else (value,):
                found += counted(one, f"{path}.")
    return found


@st.composite
def requests(draw: st.DrawFn) -> tuple[MethodDescriptor, bytes]:
    method = draw(st.sampled_from(METHODS))
    message = GetMessageClass(method.input_type)()
    fill(draw, message)
    return method, message.SerializeToString()


@settings(max_examples=usually(100, long=400), deadline=None)
@given(requests())
def test_the_walk_counts_what_protobuf_parses(request: tuple[MethodDescriptor, bytes]) -> None:
    method, raw = request
    parsed = GetMessageClass(method.input_type).FromString(raw)
    assert Counter(decoder_of(method).count(raw)) == counted(parsed)


@settings(max_examples=usually(100, long=400), deadline=None)
@given(requests(), st.data())
def test_the_walk_refuses_bytes_that_end_too_early_where_protobuf_does(
    request: tuple[MethodDescriptor, bytes], data: st.DataObject
) -> None:
    method, raw = request
    cut = raw[: data.draw(st.integers(0, len(raw)))]
    decoder = decoder_of(method)
    try:
        parsed = GetMessageClass(method.input_type).FromString(cut)
    except DecodeError:
        with pytest.raises(InvalidRequestError, match=method.name):
            decoder.decode(cut)
    else:
        assert Counter(decoder.count(cut)) == counted(parsed)


@settings(max_examples=usually(100, long=400), deadline=None)
@given(st.sampled_from(METHODS), st.binary(max_size=200))
def test_any_bytes_are_counted_or_refused_with_a_typed_error(method: MethodDescriptor, raw: bytes) -> None:
    decoder = decoder_of(method)
    for step in (decoder.count, decoder.decode):
        try:
            step(raw)
        except InvalidRequestError as error:
            assert method.name in str(error)
