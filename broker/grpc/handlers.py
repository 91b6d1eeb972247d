"""Registers calls with a gRPC server so that their requests arrive as bytes and pass their limits first. An edge.

A call's bytes go through the decoder of its API (request_decoder.py) and count in memory until the call is answered; a
refusal is a typed error. The loop's time that a call takes is counted: decoding, encoding and the work between them. A
stream's behaviour reads, decodes (`RequestDecoder.decode`), writes and counts by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from broker.connections.accepted_sockets import peer_of
from broker.grpc.errors import abort
from broker.grpc.request_decoder import RequestDecoder, RequestDecoders
from broker.load.busy_time import BusyTime
from broker.network.request_memory import RequestMemory
from penstock.errors import ApiError
from penstock.messages.api import Api

Call = Callable[[Any, grpc.aio.ServicerContext], Awaitable[bytes]]
"""Takes the decoded request of a call; the bytes of its answer."""
Stream = Callable[[Any, grpc.aio.ServicerContext], Awaitable[None]]


def add_calls(
    server: Any,
    service: str,
    calls: Mapping[Api[Any, Any], Call],
    streams: Mapping[Api[Any, Any], Stream],
    decoders: RequestDecoders,
    memory: RequestMemory,
    busy: BusyTime,
) -> None:
    """Serve these APIs under the full name of a service; `busy` counts the time of its calls."""
    handlers = {
        api.name: grpc.unary_unary_rpc_method_handler(_bounded(call, decoders.of(api), memory, busy), None, None)
        for api, call in calls.items()
    }
    handlers |= {api.name: grpc.stream_stream_rpc_method_handler(stream, None, None) for api, stream in streams.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_registered_method_handlers(service, handlers)


def _bounded(call: Call, decoder: RequestDecoder, memory: RequestMemory, busy: BusyTime) -> Call:
    async def answer(raw: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            request = decoder.decode(raw)
            lease = memory.admit(peer_of(context.peer()).host, len(raw))
        except ApiError as error:
            await abort(context, error)
        try:
            return await call(request, context)
        finally:
            lease.release()

    async def timed(raw: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return await busy.timed(answer(raw, context))

    return timed
