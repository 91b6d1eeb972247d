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
from broker.grpc.errors import abort
from broker.grpc.handlers import Call
from penstock.errors import ApiError, UnknownServerError
from penstock.messages.api import Api, ApiKind
from penstock.messages.apis import APIS
from penstock.wire.message_codec import response_codec

_log = logging.getLogger(__name__)

Handle = Callable[[Any], Awaitable[Any]]


def quorum_calls(handle: Handle) -> dict[Api[Any, Any], Call]:
    """The calls of `penstock.v1.Quorum`."""
    return {
        api: _call(handle, quorum.response_to_bytes(api.name)) for api in APIS.values() if api.kind is ApiKind.QUORUM
    }


def controller_calls(handle: Handle) -> dict[Api[Any, Any], Call]:
    """The calls of `penstock.v1.Controller`."""
    return {api: _call(handle, response_codec(api).encode) for api in APIS.values() if api.kind.at_controller}


def _call(handle: Handle, encode: Callable[[Any], bytes]) -> Call:
    async def call(request: Any, context: grpc.aio.ServicerContext) -> bytes:
        try:
            return encode(await handle(request))
        except ApiError as error:
            await abort(context, error)
        except Exception as error:
            _log.exception("%s failed", type(request).__name__)
            await abort(context, UnknownServerError(f"penstock: {type(error).__name__}: {error}"))
        return b""  # abort has raised

    return call
