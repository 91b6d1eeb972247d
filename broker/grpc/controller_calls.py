"""The calls of the controller listener: the quorum's own, and what brokers ask of the active controller. An edge.

Both go to a `handle`, which answers or raises a typed error: the raft driver's, and the controller's. They do not pass
the request channel: heartbeats and votes must not queue behind produce requests.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from broker.grpc import quorum_codec as quorum
from broker.grpc.callers import Callers
from broker.grpc.errors import abort
from broker.grpc.handlers import Call
from broker.grpc.incoming.turned_decoder import DecodedMessage
from broker.network.request_channel import Caller
from penstock.errors import ApiError, UnknownServerError
from penstock.messages.api import Api, ApiKind
from penstock.messages.apis import APIS
from penstock.wire.message_codec import response_codec

_log = logging.getLogger(__name__)

Handle = Callable[[Any], Awaitable[Any]]


def quorum_calls(handle: Handle, callers: Callers) -> dict[Api[Any, Any], Call]:
    """The calls of `penstock.v1.Quorum`."""
    of_quorum = [api for api in APIS.values() if api.kind is ApiKind.QUORUM]
    return {api: _call(api, handle, quorum.response_to_bytes(api.name), callers) for api in of_quorum}


def controller_calls(handle: Handle, callers: Callers) -> dict[Api[Any, Any], Call]:
    """The calls of `penstock.v1.Controller`."""
    at_controller = [api for api in APIS.values() if api.kind.at_controller]
    return {api: _call(api, handle, response_codec(api).encode, callers) for api in at_controller}


def _call(api: Api[Any, Any], handle: Handle, encode: Callable[[Any], bytes], callers: Callers) -> Call:
    async def call(decoded: DecodedMessage, context: grpc.aio.ServicerContext, caller: Caller) -> bytes:
        request = decoded.request
        try:
            callers.check_sender(api, request, caller)
            return encode(await handle(request))
        except ApiError as error:
            await abort(context, error)
        except Exception as error:
            _log.exception("%s failed", type(request).__name__)
            await abort(context, UnknownServerError(f"penstock: {type(error).__name__}: {error}"))
        return b""  # abort has raised

    return call
