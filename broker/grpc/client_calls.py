"""The calls of clients, and those of brokers, by the table of APIs: each is one request of the channel and has one
answer. An edge.

Encodes, and decides nothing. Streams are client_door.py's.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio

from broker.connections.accepted_sockets import peer_of
from broker.grpc.errors import abort
from broker.grpc.gate import Gate
from broker.grpc.handlers import Call
from broker.network.request_channel import Caller, Request, RequestChannel
from penstock.errors import ApiError
from penstock.messages.api import Api, ApiKind
from penstock.messages.apis import APIS
from penstock.wire.message_codec import response_codec


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


def client_calls(channel: RequestChannel, gate: Gate) -> dict[Api[Any, Any], Call]:
    """Every API that clients call, at the listener of the gate."""
    apis = [api for api in APIS.values() if api.kind.at_broker and api.kind is not ApiKind.STREAM]
    return {api: _call(api, channel, gate) for api in apis}


def broker_calls(channel: RequestChannel, gate: Gate) -> dict[Api[Any, Any], Call]:
    """The calls of brokers, at their listener; one that has a replica id is under the broker's."""
    return {api: _call(api, channel, gate, is_clients=False) for api in APIS.values() if api.is_between_brokers}


def _call(api: Api[Any, Any], channel: RequestChannel, gate: Gate, *, is_clients: bool = True) -> Call:
    encode = response_codec(api).encode

    async def call(body: Any, context: grpc.aio.ServicerContext) -> bytes:
        try:
            gate.must_be_open()
            if api.replica_id is not None:  # a replica would get a fuller answer than a client
                gate.check_asker(api.name, api.replica_id(body), is_clients)
        except ApiError as error:
            await abort(context, error)
        sink = _OneShot()
        caller, client_id = Caller(peer_of(context.peer()), gate.listener), getattr(body, "client_id", "")
        request = Request(api.name, body, sink, caller, channel.now_ns, client_id=client_id)
        try:
            await channel.send(request)
            await sink.wait()
        except asyncio.CancelledError:  # the client gave the call up, or left: nobody waits for the answer
            request.abandoned()
            raise
        channel.request_sent(request)
        if request.error is not None:
            await abort(context, request.error)
        return request.encoded(encode)

    return call
