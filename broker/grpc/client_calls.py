"""The calls of clients, and those of brokers, by the table of APIs: each is one request of the channel and has one
answer. An edge.

A client that has used its quota up is answered at once, and told in the trailer for how long it makes no call. A call
that comes earlier is held BEFORE it is handled, as a connection would be left unread (KIP-219). The bytes of an answer
are not built while its party has too many that nobody has read (request_memory.py), unless it is small. Encodes, and
decides nothing. Streams are client_streams.py's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import grpc.aio

from broker.grpc.access import ListenerAccess
from broker.grpc.errors import NOT_THROTTLED, abort
from broker.grpc.handlers import Call
from broker.grpc.incoming.turned_decoder import DecodedMessage
from broker.grpc.unread_answers import FREE_BYTES
from broker.load.long_work import PIECE_NS
from broker.network.answer_turns import needs_room
from broker.network.connection_loop import Prepare, Quotas
from broker.network.parties import party_of
from broker.network.request_channel import Caller, Request, RequestChannel
from broker.network.request_memory import RequestMemory
from broker.network.small_answers import SMALL_ANSWERS
from penstock.errors import ApiError
from penstock.messages.api import Api, ApiKind
from penstock.messages.apis import APIS
from penstock.wire.message_codec import response_codec
from penstock.wire.throttle_trailer import Throttled, throttle_trailer

HELD_MS_MAX: Final = 15_000
"""No call is held longer, whatever its client has taken and says: it holds memory that others need."""
HELD_MS_MIN: Final = 1_000
"""The hold of a call whose client owes as much, however short the call's own time is: a client that waited 2 ms, and
asked again, would not be held at all."""


class _OneShot:
    """The sink of a call that has one answer."""

    def __init__(self) -> None:
        self._done = asyncio.get_running_loop().create_future()

    def response_ready(self, request: Request) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def part_ready(self, request: Request) -> None:
        """A call has no parts: it waits for the whole answer."""

    async def wait(self) -> None:
        await self._done


def client_calls(
    channel: RequestChannel,
    access: ListenerAccess,
    quotas: Quotas | None = None,
    memory: RequestMemory | None = None,
    prepare: Prepare = lambda request: None,
) -> dict[Api[Any, Any], Call]:
    """Every API that clients call, at the listener of the gate. `memory`: where their answers count. `prepare`: see
    connection_loop.py."""
    apis = [api for api in APIS.values() if api.kind.at_broker and api.kind is not ApiKind.STREAM]
    return {
        api: _call(api, channel, access, quotas, None if api.before_authentication else memory, prepare) for api in apis
    }


def broker_calls(
    channel: RequestChannel, access: ListenerAccess, prepare: Prepare = lambda request: None
) -> dict[Api[Any, Any], Call]:
    """The calls of brokers, at their listener; one that has a replica id is under the broker's."""
    apis = [api for api in APIS.values() if api.is_between_brokers]
    return {api: _call(api, channel, access, prepare=prepare, is_clients=False) for api in apis}


def _call(
    api: Api[Any, Any],
    channel: RequestChannel,
    access: ListenerAccess,
    quotas: Quotas | None = None,
    memory: RequestMemory | None = None,
    prepare: Prepare = lambda request: None,
    *,
    is_clients: bool = True,
) -> Call:
    encode = response_codec(api).encode
    turns = memory.turns if memory is not None and needs_room(api.name) else None

    def charged(party: str, answer: Any) -> bytes:
        """The bytes of an answer; if they took long, the party owes their time."""
        began_ns = channel.now_ns()
        made = encode(answer)
        if (spent_ns := channel.now_ns() - began_ns) >= PIECE_NS:
            channel.long_work.charge(party, spent_ns)
        return made

    async def call(decoded: DecodedMessage, context: grpc.aio.ServicerContext, caller: Caller) -> bytes:
        body = decoded.request
        try:
            access.must_be_open()
            access.check_asker(api, body, caller, is_clients)
        except ApiError as error:
            await abort(context, error)
        await access.wait_turn(caller)
        sink = _OneShot()
        client_id = getattr(body, "client_id", "")
        request = Request(api.name, body, sink, caller, channel.now_ns, client_id=client_id)
        request.turns, request.is_large = turns, decoded.is_large
        if quotas is not None and quotas.is_active and (owed_ms := quotas.owed(request, channel.now_ns())):
            await asyncio.sleep(_held_ms(body, owed_ms) / 1_000)  # it has no connection that could be left unread
        try:
            if (preparing := prepare(request)) is not None:
                await preparing
            await channel.send(request)
            await sink.wait()
        except asyncio.CancelledError:  # the client gave the call up, or left: nobody waits for the answer
            request.abandoned()
            raise
        throttled = NOT_THROTTLED
        if quotas is not None and quotas.is_active:
            throttled = Throttled(quotas.answered(request, request, 0, channel.now_ns()), request.throttle_ms)
        channel.request_sent(request)
        if request.error is not None:
            await abort(context, request.error, throttled)
        if any(throttled):
            context.set_trailing_metadata(throttle_trailer(throttled))
        return await _encoded(request, partial(charged, party_of(caller)) if is_clients else encode, memory)

    return call


async def _encoded(request: Request, encode: Callable[[Any], bytes], memory: RequestMemory | None) -> bytes:
    """Built when its party may have one more that is unread, or at once if it is small."""
    party = party_of(request.caller)
    if memory is None or memory.may_answer(party):
        return request.encoded(encode)
    small = request.encoded(encode) if request.api in SMALL_ANSWERS else None
    if small is not None and len(small) <= FREE_BYTES:
        return small
    del small
    await memory.wait_for_answers(party)
    return request.encoded(encode)


def _held_ms(body: Any, owed_ms: int) -> int:
    """Half of the time that its client waits at most, for after all of it the client would ask again; but see
    HELD_MS_MIN."""
    return min(owed_ms, max(getattr(body, "timeout_ms", 0) // 2, HELD_MS_MIN), HELD_MS_MAX)
