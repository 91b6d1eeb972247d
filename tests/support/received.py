"""An answer as the one who asked receives it: encoded and decoded on the way."""

from __future__ import annotations

from typing import Any

from broker.network.request_channel import Request
from penstock.messages.apis import APIS
from penstock.wire.message_codec import response_codec


def as_received(request: Request) -> Any:
    """The answer of a request that is complete."""
    codec = response_codec(APIS[request.api])
    return codec.decode(request.encoded(codec.encode))
