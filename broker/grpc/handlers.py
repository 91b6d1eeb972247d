"""Registers a service with a gRPC server so that its requests arrive as bytes and pass their limits first. An edge.

The generated `add_…Servicer_to_server` parses a request before any check. Here a call's bytes go through the decoder of
its API (grpc/limits.py) and count in memory until the call is answered; a refusal is a typed error. The loop's time
that a call takes is counted: decoding, encoding and the work between them. A stream's behaviour reads, decodes
(`RequestDecoder.decode`), writes and counts by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from broker.grpc.errors import abort
from broker.grpc.limits import RequestDecoder, RequestDecoders
from broker.network.busy_time import BusyTime
from broker.network.request_memory import RequestMemory
from broker.network.stream_quotas import host_of
from penstock.errors import ApiError


def add_service(
    server: Any,
    service: ServiceDescriptor,
    servicer: object,
    decoders: RequestDecoders,
    memory: RequestMemory,
    busy: BusyTime,
) -> None:
    """Serve every method of `service` with the method of that name of `servicer`; `busy` counts its calls' time."""
    handlers = {
        method.name: _handler(
            method, getattr(servicer, method.name), decoders.of(method.name, method.input_type), memory, busy
        )
        for method in service.methods
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
    server.add_registered_method_handlers(service.full_name, handlers)


def _handler(
    method: MethodDescriptor,
    behaviour: Callable[..., Any],
    decoder: RequestDecoder,
    memory: RequestMemory,
    busy: BusyTime,
) -> Any:
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(behaviour, None, None)
    serialize = GetMessageClass(method.output_type).SerializeToString
    answer = _decoded(behaviour, decoder, memory, serialize)

    async def call(raw: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return await busy.timed(answer(raw, context))

    return grpc.unary_unary_rpc_method_handler(call, None, None)


def _decoded(
    behaviour: Callable[[Any, Any], Awaitable[Any]],
    decoder: RequestDecoder,
    memory: RequestMemory,
    serialize: Callable[[Any], bytes],
) -> Callable[[bytes, grpc.aio.ServicerContext], Coroutine[Any, Any, bytes]]:
    async def call(raw: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            request = decoder.decode(raw)
            lease = memory.admit(host_of(context.peer()), len(raw))
        except ApiError as error:
            await abort(context, error)
        try:
            return serialize(await behaviour(request, context))
        finally:
            lease.release()

    return call
