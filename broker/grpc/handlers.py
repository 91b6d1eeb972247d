"""Registers calls with a gRPC server so that their requests arrive as bytes and pass their limits first. An edge.

The caller is judged BEFORE its message is read: gRPC reads a message whole, so a caller without the right would take
memory by asking; and few calls of a connection are read at once (read_turns.py), each for MESSAGE_MS. None is read
while its answer has no room, and one that has come meanwhile is not decoded before (turned_decoder.py). Few calls of a
party are decoded in a turn of the loop (call_turns.py). To gRPC a call is therefore a stream that sends one message,
and has one answer; on the wire that is the same. Its bytes go through the decoder of its API (request_decoder.py) and
count in memory until the call is answered; a refusal is a typed error. The loop's time that a call takes is counted:
decoding, encoding and the work between them. A stream's behaviour reads, decodes, writes and counts by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
import grpc.aio

from broker.connections.under_way import MESSAGE_MS
from broker.grpc.errors import abort
from broker.grpc.incoming.call_turns import CallTurns
from broker.grpc.incoming.early_reads import read_at_once
from broker.grpc.incoming.read_turns import ReadTurns
from broker.grpc.incoming.request_decoder import RequestDecoders
from broker.grpc.incoming.turned_decoder import DecodedMessage, TurnedDecoder
from broker.grpc.open_services import ReadUnproven
from broker.grpc.refused_calls import NOT_COUNTED, EndsConnection, Refuses, refuse
from broker.grpc.unread_answers import UnreadAnswers
from broker.load.busy_time import BusyTime
from broker.load.long_work import LongWork
from broker.network.decoding_turns import DecodingTurns
from broker.network.memory_budget import Lease
from broker.network.parties import party_of
from broker.network.request_channel import Caller
from broker.network.request_memory import RequestMemory
from penstock.errors import ApiError, InvalidRequestError, RequestTimedOutError
from penstock.lazy_dataclass import dataclass
from penstock.messages.api import Api
from penstock.types import Endpoint

Call = Callable[[DecodedMessage, grpc.aio.ServicerContext, Caller], Awaitable[bytes]]
"""Takes the decoded request of a call, and who makes it; the bytes of its answer."""
CallerOf = Callable[[grpc.aio.ServicerContext, Api[Any, Any]], Caller]
Delivered = Callable[[Caller, int], None]
"""Hears that a caller's message has come, and how many bytes it has."""
Stream = Callable[[Any, grpc.aio.ServicerContext], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The APIs of one service, and what their requests are held to."""

    name: str
    """Its full name in the protocol."""
    calls: Mapping[Api[Any, Any], Call]
    streams: Mapping[Api[Any, Any], Stream]
    decoders: RequestDecoders
    memory: RequestMemory
    log_ins: RequestMemory | None = None
    """Memory for what may come before a log-in; None where nobody logs in."""
    busy: BusyTime
    """Counts the time of the calls."""
    caller_of: CallerOf
    """The caller of a call; raises what refuses it."""
    delivered: Delivered = lambda caller, size: None
    work: LongWork | None = None
    """The turns at large messages of clients; None where nodes call."""

    def memory_of(self, api: Api[Any, Any]) -> RequestMemory:
        return self.memory if self.log_ins is None or not api.before_authentication else self.log_ins


def add_calls(
    server: Any,
    service: Service,
    *,
    read_unproven: ReadUnproven = read_at_once,
    refuses: Refuses = NOT_COUNTED,
    unread: UnreadAnswers | None = None,
) -> None:
    """Serves these APIs. `read_unproven` reads what may come before its caller is known; `refuses` hears of callers
    that are refused."""
    turns = ReadTurns()
    begins = CallTurns() if service.work is not None else None  # nodes wait behind no client
    handlers = {
        api.name: grpc.stream_unary_rpc_method_handler(
            _bounded(
                api,
                call,
                service,
                turns=turns,
                begins=begins,
                read=read_unproven if api.before_authentication else read_at_once,
                refuses=refuses,
                unread=unread,
            ),
            None,
            None,
        )
        for api, call in service.calls.items()
    }
    handlers |= {
        api.name: grpc.stream_stream_rpc_method_handler(_of_known(stream, refuses), None, None)
        for api, stream in service.streams.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.name, handlers),))
    server.add_registered_method_handlers(service.name, handlers)


def _of_known(stream: Stream, refuses: Refuses) -> Stream:
    """The stream, whose behaviour raises what refuses its caller."""

    async def served(messages: Any, context: grpc.aio.ServicerContext) -> None:
        try:
            await stream(messages, context)
        except (ApiError, EndsConnection) as refusal:
            await refuse(refuses, context, refusal)

    return served


async def _read_with_room(
    decoder: TurnedDecoder, party: str, turns: ReadTurns, peer: Endpoint, read: Callable[[], Awaitable[Any]]
) -> Any:
    """The message of a call, or EOF. It may wait long for its turn, so its answer must have room then, too."""

    async def read_now() -> Any:
        return await read() if decoder.has_room(party) else None

    raw = None
    while raw is None:
        if not decoder.has_room(party):
            await decoder.room(party)
        raw = await turns.read(peer, read_now)
    return raw


def _bounded(
    api: Api[Any, Any],
    call: Call,
    service: Service,
    *,
    turns: ReadTurns,
    begins: CallTurns | None,
    read: ReadUnproven,
    refuses: Refuses,
    unread: UnreadAnswers | None,
) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[bytes]]:
    memory = service.memory_of(api)
    decoder = TurnedDecoder(service.decoders.of(api), DecodingTurns(memory.turns, service.work))

    async def read_in_time(context: grpc.aio.ServicerContext, peer: Endpoint) -> Any:
        try:
            async with asyncio.timeout(MESSAGE_MS / 1000):
                return await read(context, peer)
        except TimeoutError:
            raise RequestTimedOutError(
                f"{api.name}: the message of the call has not come within {MESSAGE_MS // 1000} s; send it with the call"
            ) from None

    async def received(context: grpc.aio.ServicerContext, caller: Caller) -> tuple[DecodedMessage, Lease]:
        """The request. Its bytes are in no other frame: a large message would be kept until the call is answered."""
        peer, party = caller.peer, party_of(caller)
        raw = await _read_with_room(decoder, party, turns, peer, lambda: read_in_time(context, peer))
        if raw is grpc.aio.EOF:
            raise InvalidRequestError(f"{api.name}: the call has no message")
        service.delivered(caller, len(raw))
        has_turn = begins is None or begins.begin(party)  # BEFORE its elements are counted, which takes longer
        if has_turn and decoder.may_decode(raw, party):
            return decoder.decode(raw, party), memory.admit(party, len(raw))
        lease = memory.admit(party, len(raw), waits=True)
        try:
            if begins is not None and not has_turn:
                await begins.turn(party)
            return await decoder.decode_in_turn(raw, party), lease
        except BaseException:
            lease.release()
            raise

    async def answer(context: grpc.aio.ServicerContext) -> bytes:
        try:
            caller = service.caller_of(context, api)  # BEFORE any work for a caller without the right
        except (ApiError, EndsConnection) as refusal:
            await refuse(refuses, context, refusal)
        try:
            request, lease = await received(context, caller)
        except ApiError as error:
            await abort(context, error)
        try:
            answered = await call(request, context, caller)
        finally:
            lease.release()
        if unread is not None:
            unread.count(answered, context, caller, memory)
        return answered

    async def timed(messages: Any, context: grpc.aio.ServicerContext) -> bytes:
        return await service.busy.timed(answer(context))

    return timed
