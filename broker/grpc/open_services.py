"""Health and reflection, at every listener, for callers who have not shown who they are. An edge.

They tell nothing of the data. Their requests are a name: they are read as those of unknown callers (early_reads.py),
few of a connection at once, and one of more than `REQUEST_BYTES_MAX` is refused. gRPC's own servicers answer; here
their handlers get what they ask for.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from broker.connections.accepted_sockets import peer_of
from broker.grpc.errors import abort
from broker.grpc.incoming.read_turns import ReadTurns
from penstock.errors import ApiError, InvalidRequestError
from penstock.types import Endpoint

REQUEST_BYTES_MAX: Final = 4_096
ReadUnproven = Callable[[grpc.aio.ServicerContext, Endpoint], Awaitable[Any]]


class OpenServices:
    """The half of a server that gRPC's servicers are added to."""

    def __init__(self, server: Any, read: ReadUnproven) -> None:
        """Nothing is read but by `read`."""
        self._server, self._read = server, read
        self._calls, self._streams = ReadTurns(), ReadTurns()
        """A stream is read for as long as it is open: those of a connection hold up no call of it."""

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Each is registered by its name."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        own = {name: made for name, handler in handlers.items() if (made := self._own(handler)) is not None}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, own),))
        self._server.add_registered_method_handlers(service, own)

    def _own(self, handler: Any) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler with the same bytes on the wire, without a message that is read before it is asked for; None for
        a method that the servicer does not have: that is a stub, which would run in a thread."""
        parse, serialize = handler.request_deserializer, handler.response_serializer
        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_stream
        if not (inspect.iscoroutinefunction(behaviour) or inspect.isasyncgenfunction(behaviour)):
            return None
        if handler.unary_unary is not None:
            return grpc.stream_unary_rpc_method_handler(self._one(handler.unary_unary, parse), None, serialize)
        if handler.unary_stream is not None:
            return grpc.stream_stream_rpc_method_handler(self._one(handler.unary_stream, parse), None, serialize)
        return grpc.stream_stream_rpc_method_handler(self._many(handler.stream_stream, parse), None, serialize)

    def _one(self, answer: Any, parse: Any) -> Any:
        async def answered(messages: Any, context: grpc.aio.ServicerContext) -> Any:
            request = await self._next(context, parse, self._calls)
            return None if request is grpc.aio.EOF else await answer(request, context)

        return answered

    def _many(self, answers: Any, parse: Any) -> Any:
        async def requests(context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            while (request := await self._next(context, parse, self._streams)) is not grpc.aio.EOF:
                yield request

        async def answered(messages: Any, context: grpc.aio.ServicerContext) -> None:
            async for one in answers(requests(context), context):
                await context.write(one)

        return answered

    async def _next(self, context: grpc.aio.ServicerContext, parse: Any, turns: ReadTurns) -> Any:
        try:
            raw = await self._small(context, turns)
        except ApiError as error:
            await abort(context, error)
        return raw if raw is grpc.aio.EOF else parse(raw)

    async def _small(self, context: grpc.aio.ServicerContext, turns: ReadTurns) -> Any:
        """The next message, or EOF; a large one is in no frame that its refusal keeps."""
        peer = peer_of(context.peer())
        raw = await turns.read(peer, lambda: self._read(context, peer))
        if raw is not grpc.aio.EOF and len(raw) > REQUEST_BYTES_MAX:
            raise InvalidRequestError(f"the request has {len(raw)} bytes; at most {REQUEST_BYTES_MAX} are allowed")
        return raw

    def __repr__(self) -> str:
        return f"OpenServices({self._server!r})"
