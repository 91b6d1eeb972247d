"""The beginning of a connection with TLS: from the accepted socket to a FrameConnection over it. An edge.

The listener counts the connection, and may refuse it, before a byte is read: a handshake costs a node more than a
stranger. It has HANDSHAKE_SECONDS. Not here: the certificates (broker/tls/), and what a connection does later.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Protocol

from broker.connections.turns import Turn
from broker.kafka.connection.bound_sockets import endpoint_of
from broker.kafka.connection.frame_connection import FrameConnection
from broker.tls.ssl_contexts import ServerContexts, why_not

HANDSHAKE_SECONDS: Final = 5.0
"""The longest time of a handshake, as at gRPC's listeners."""


class HearsOfHandshake(Protocol):
    """The listener."""

    def failed(self, handshake: TlsHandshake, why: str) -> None:
        """The handshake has ended without a connection; `why` is empty if this side ended it."""
        ...


class TlsHandshake:
    """One socket that was accepted, until its connection begins or it ends."""

    def __init__(self, listener: HearsOfHandshake, accepted: socket.socket, address: Any) -> None:
        self._listener, self._socket = listener, accepted
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self.peer = endpoint_of(address)

    def begin(
        self, contexts: ServerContexts, new_connection: Callable[[], FrameConnection], turn: Turn | None = None
    ) -> None:
        """The connection hears of it when it is done. `turn` is waited for first."""
        self._task = asyncio.get_running_loop().create_task(self._shake(contexts, new_connection, turn))

    async def _shake(
        self, contexts: ServerContexts, new_connection: Callable[[], FrameConnection], turn: Turn | None
    ) -> None:
        self._has_begun = True
        try:
            if turn is not None:
                await turn()
            await asyncio.get_running_loop().connect_accepted_socket(
                new_connection,
                self._socket,
                ssl=contexts.current(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=HANDSHAKE_SECONDS,
            )
        except asyncio.CancelledError:
            self._socket.close()
            self._listener.failed(self, "")
        except (OSError, ssl.SSLError, ValueError) as error:
            self._socket.close()
            self._listener.failed(self, why_not(error))

    def abort(self) -> None:
        """Ends the handshake at once. A task that has not begun runs no handler of its own when it is cancelled."""
        if self._task is not None:
            self._task.cancel()
        if not self._has_begun:
            self._socket.close()
            self._listener.failed(self, "")

    def __repr__(self) -> str:
        return f"TlsHandshake({self.peer})"
