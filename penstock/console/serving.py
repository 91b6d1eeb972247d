"""Serves the console: a socket that listens, uvicorn on it, and a clean end at SIGINT or SIGTERM.

The socket listens before anything else begins, so that a port which is taken is one plain error. Browsers that are
waiting when the console ends have STOP_SECONDS. Not here: the application (app.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.console.app import Console
from penstock.console.connections import (
    CONNECTIONS_MAX,
    NETWORK_CONNECTIONS_MAX,
    REFUSED_MAX,
    BoundedConnection,
    ConnectionCount,
)
from penstock.errors import PenstockError
from penstock.lazy_dataclass import dataclass

STOP_SECONDS: Final = 3
KEEP_ALIVE_SECONDS: Final = 30
BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The PEM files by which browsers know the console."""

    cert: Path
    key: Path | None = None


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is a free one. PenstockError where that cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(BACKLOG)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        taken = "; another program listens there, --port takes another" if error.errno == errno.EADDRINUSE else ""
        reason = os.strerror(error.errno) if isinstance(error.errno, int) and error.errno > 0 else str(error)
        raise PenstockError(f"cannot listen at {host}:{port}: {reason}{taken}") from None
    made.setblocking(False)
    return made


class _Server(uvicorn.Server):
    """uvicorn's server, whose signals are handled here: it would send them to the process again at its end. One in a
    thread takes none."""

    def __init__(self, config: uvicorn.Config, console: Console, *, takes_signals: bool) -> None:
        super().__init__(config)
        self._console, self._takes_signals = console, takes_signals
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        self._loop = loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM) if self._takes_signals else ()
        for number in numbers:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def stop_soon(self) -> None:
        """Ends the server, from any thread; one that has not begun ends at once."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self.should_exit = True
        self._console.stop()


def _bounded() -> Callable[..., BoundedConnection]:
    """Makes the protocol of each connection: uvicorn's, with the limits of connections.py before it."""
    count = ConnectionCount(CONNECTIONS_MAX + REFUSED_MAX, NETWORK_CONNECTIONS_MAX)

    def connection(
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> BoundedConnection:
        loop = _loop or asyncio.get_running_loop()
        return BoundedConnection(H11Protocol(config, server_state, app_state, loop), count, loop)

    return connection


def serve_console(
    app: Starlette, listening: socket.socket, files: ServerFiles | None, on_ready: Callable[[], object]
) -> None:
    """Serves until a signal ends it. PenstockError where the certificate cannot be used."""
    config = _config(app, files)
    on_ready()
    _Server(config, app.state.console, takes_signals=True).run(sockets=[listening])


class ServingThread:
    """Serves in a thread, for a process that does something else; signals are that process's."""

    def __init__(self, app: Starlette, listening: socket.socket) -> None:
        self._server = _Server(_config(app, None), app.state.console, takes_signals=False)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="console", daemon=True
        )

    def __enter__(self) -> ServingThread:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.stop_soon()
        self._thread.join(2 * STOP_SECONDS)

    def __repr__(self) -> str:
        return f"ServingThread({'runs' if self._thread.is_alive() else 'ended'})"


def _config(app: Starlette, files: ServerFiles | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=_bounded(),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=str(files.cert) if files is not None else None,
        ssl_keyfile=str(files.key) if files is not None and files.key is not None else None,
    )
    try:
        config.load()
    except OSError as error:  # ssl's errors, too
        raise PenstockError(f"--https-cert: {error}") from None
    return config
