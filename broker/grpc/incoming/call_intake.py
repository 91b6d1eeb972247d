"""gRPC's asyncio server that begins each call when it comes, however many calls of its API came before. An edge.

    core ── as many calls of an API as are open ──► their handlers begin ──► turns by connection and party

The library asks its core for one call of each API, and for the next in a later turn of the event loop. All others wait
in the core, in the order in which they came by all connections: four connections with a hundred calls each put
everybody's next call behind four hundred, before any turn of ours (read_turns.py, network/decoding_turns.py) could see
whose it is. Here they are begun, and wait in those turns. How many may be open at once is bounded as before, by
connections and the calls of each (`grpc.max_concurrent_streams`).

Three functions of the library's inside are used, which its releases may change: where one is not as it is known here,
calls come as the library takes them, and a test of this module fails.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc
import grpc.aio
from grpc._cython import cygrpc

AHEAD_MIN: Final = 4
"""Calls of one API that are asked for at once, after its first."""
AHEAD_MAX: Final = 256
"""So many calls may come in one turn of the loop, and begin in it: some 50 ms. Each takes 1.6 KB before it comes."""
KNOWN: Final = {
    "_handle_rpc": "(method_name, method_resolver, interceptors, rpc_state, loop, concurrency_exceeded)",
    "_schedule_rpc_coro": "(rpc_coro, rpc_state, loop, method_name)",
    "AioServer._make_request_call_future": "(self, method_bytes)",
}
"""The functions of the library's inside that are used, each with its signature."""


class Handlers:
    """The handlers of the registered methods, by their paths, as the library asks for one."""

    def __init__(self) -> None:
        self.by_path: dict[str, Any] = {}

    def resolve_handler(self, details: grpc.HandlerCallDetails) -> Any:
        """The handler of this call; the library answers UNIMPLEMENTED for None."""
        return self.by_path.get(details.method)


class BeginsCallsAtOnce(cygrpc.AioServer):  # type: ignore[misc]
    """The library's server, whose own loop is told that no call of a registered method has come yet."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handlers = Handlers()
        self.intakes: list[MethodIntake] = []

    def add_registered_method_handlers(self, handlers: Mapping[str, Any]) -> None:
        self._handlers.by_path.update(handlers)
        super().add_registered_method_handlers(handlers)

    def _make_request_call_future(self, method: bytes | None) -> asyncio.Future[Any]:
        """A call of a method that is not registered, or the end of asking: for these the library's own loop waits."""
        if method is None:
            return self.request(None)
        self.intakes.append(MethodIntake(self, method, self._handlers))
        return self.intakes[-1].ended

    def request(self, method: bytes | None) -> asyncio.Future[Any]:
        """Asks the core for a call of a registered method, or of any other."""
        asked: asyncio.Future[Any] = super()._make_request_call_future(method)
        return asked


class MethodIntake:
    """The calls of one registered method. Used on the event loop."""

    def __init__(self, server: BeginsCallsAtOnce, method: bytes, handlers: Handlers) -> None:
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """Gets the first error of asking: the server stops."""
        self._server, self._method, self._path, self._handlers = server, method, method.decode(), handlers
        self._asked = 0
        self._open: set[asyncio.Task[None]] = set()
        """Nobody else holds them."""
        self._ask(1)  # most methods are never called

    def _ask(self, wanted: int) -> None:
        while self._asked < wanted:
            self._asked += 1
            self._server.request(self._method).add_done_callback(self._came)

    def _came(self, asked: asyncio.Future[Any]) -> None:
        self._asked -= 1
        error = asyncio.CancelledError() if asked.cancelled() else asked.exception()
        if error is not None:
            self._end(error)
            return
        loop, state = asyncio.get_running_loop(), asked.result()
        handled = cygrpc._handle_rpc(self._path, self._handlers, (), state, loop, False)
        task = loop.create_task(cygrpc._schedule_rpc_coro(handled, state, loop, self._path))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        self._ask(min(max(len(self._open), AHEAD_MIN), AHEAD_MAX))

    def _end(self, error: BaseException) -> None:
        if self.ended.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.ended.cancel()
        else:
            self.ended.set_exception(error)
            self.ended.exception()  # else Python logs those that nobody takes

    def __repr__(self) -> str:
        return f"MethodIntake({self._path}, {len(self._open)} open, {self._asked} asked for)"


def is_library_known(known: Mapping[str, str] = KNOWN) -> bool:
    """True if the library's inside is as this module uses it."""
    for path, signature in known.items():
        found: Any = cygrpc
        for name in path.split("."):
            found = getattr(found, name, None)
        try:
            if str(inspect.signature(found)) != signature:
                return False
        except (TypeError, ValueError):
            return False
    return True


def make_server(options: Sequence[tuple[str, Any]], known: Mapping[str, str] = KNOWN) -> grpc.aio.Server:
    """A server with these channel options, whose registered methods begin at once where the library is as `known`."""
    if not is_library_known(known):
        return grpc.aio.server(options=options)
    plain = cygrpc.AioServer
    cygrpc.AioServer = BeginsCallsAtOnce
    try:
        return grpc.aio.server(options=options)
    finally:
        cygrpc.AioServer = plain
