"""The way to another process, injected: a channel to an address, with calls and streams of bytes on it.

A method has gRPC's form, `/penstock.v1.Broker/Fetch`, and what goes to it and comes from it is the encoded message.
The machine's transport is gRPC (client/wire/channel.py). A simulation gives one in memory, on a loop of virtual time
(tests/support/fake_network.py); one conformance suite runs against both.

A failure is an `ApiError`: the peer's own where it told one, else NetworkError (no process listens there, or the
connection ended) or RequestTimedOutError (no answer in time). A task that is cancelled while it waits is cancelled, and
its call with it. Not here: what the messages mean, and which peer to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.client.wire.tls_files import Tls
from penstock.types import Endpoint
from penstock.wire.throttle_trailer import Trailer

NO_CLIENT_LISTENER = "this is not a client listener"
"""The end of the error's text where what listens is no broker, or another listener than that for clients."""


class ByteStream(Protocol):
    """Messages in both directions, each in order; `write` and `read` may wait at the same time, each in one task."""

    async def write(self, message: bytes) -> None:
        """Returns when the transport has taken the message, which says nothing of the peer."""
        ...

    async def read(self) -> bytes:
        """The next message; NetworkError when the peer has ended the stream in order."""
        ...

    def cancel(self) -> None:
        """Ends the stream now: a task that waits for it gets NetworkError."""
        ...


Metadata = tuple[tuple[str, str], ...]
"""Names and values that go before the first message of a call or stream."""
OnTrailer = Callable[[Trailer | None], object]
"""Gets the trailer of each call that the peer has ended, be it with an answer or with an error."""


def unheard(trailer: Trailer | None) -> None:
    """Ignores the trailer."""


class Channel(Protocol):
    """The way to one address. It connects when it is first used, and again by itself. It belongs to one event loop."""

    @property
    def is_connected(self) -> bool:
        """False if the next call or stream makes a new connection, as far as the transport has heard."""
        ...

    async def call(self, method: str, request: bytes, timeout_ms: int, metadata: Metadata = ()) -> bytes:
        """The answer to one request."""
        ...

    def open_stream(self, method: str, metadata: Metadata = ()) -> ByteStream:
        """Opens a stream without a wait: a peer that cannot be reached fails the first read."""
        ...

    async def close(self) -> None:
        """Ends every call and stream with NetworkError."""
        ...


class ClientTransport(Protocol):
    """Makes channels."""

    def connect(self, endpoint: Endpoint, tls: Tls | None = None, on_trailer: OnTrailer = unheard) -> Channel:
        """A channel of its own for each caller, in plain text without `tls`. Never waits, and never fails.
        `on_trailer`: see there."""
        ...
