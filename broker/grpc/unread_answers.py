"""Counts the answers of calls until they have left, and knows which connections do not read theirs.

A client that does not read keeps its answers in this node's memory. They count in the budget of answers
(request_memory.py), so its party's next calls wait before they are read; and a connection whose answer has been under
way for too long is cut (connection_guard.py). gRPC tells that an answer has left by the end of its call. The answers of
streams are counted elsewhere (network/connection_loop.py). A connection has few streams and 100 calls, so here smaller
answers count, too: all of its small ones together may be many MiB. Not here: answers up to `FREE_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from broker.connections.connection_watch import StreamsView
from broker.network.parties import party_of
from broker.network.request_channel import Caller
from broker.network.request_memory import RequestMemory
from penstock.types import Endpoint

FREE_BYTES: Final = 4 * 1024
"""An answer of this size is free: 256 of them take no more than their calls do."""


class TellsItsEnd(Protocol):
    """A call that tells of its end (`grpc.aio.ServicerContext`)."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None: ...


class UnreadAnswers:
    """The answers of one server."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._since_ms: dict[object, tuple[Endpoint, int]] = {}

    def count(self, answer: bytes, context: TellsItsEnd, caller: Caller, memory: RequestMemory) -> None:
        """The answer is about to be written."""
        if len(answer) <= FREE_BYTES:
            return
        lease, key = memory.answer(party_of(caller), len(answer)), object()
        self._since_ms[key] = caller.peer, self._now_ms()

        def left(_: Any) -> None:
            del self._since_ms[key]
            lease.release()

        context.add_done_callback(left)

    def writing_since_ms(self) -> dict[Endpoint, int]:
        """The time of the oldest answer under way, for each connection that has one."""
        oldest: dict[Endpoint, int] = {}
        for peer, since_ms in self._since_ms.values():
            oldest[peer] = min(oldest.get(peer, since_ms), since_ms)
        return oldest

    def __repr__(self) -> str:
        return f"UnreadAnswers({len(self._since_ms)})"


class WithCalls:
    """A listener's view of its streams, and the answers of calls beside them."""

    def __init__(self, streams: StreamsView, calls: UnreadAnswers) -> None:
        self._streams, self._calls = streams, calls

    def peers_with_streams(self) -> Collection[Endpoint]:
        return self._streams.peers_with_streams()

    def writing_since_ms(self) -> Mapping[Endpoint, int]:
        """The oldest of both."""
        oldest = dict(self._streams.writing_since_ms())
        for peer, since_ms in self._calls.writing_since_ms().items():
            oldest[peer] = min(oldest.get(peer, since_ms), since_ms)
        return oldest

    def looked(self, connected: Collection[Endpoint], began_ms: int) -> None:
        self._streams.looked(connected, began_ms)

    def proven(self) -> Mapping[Endpoint, str]:
        return self._streams.proven()

    def __repr__(self) -> str:
        return f"WithCalls({self._calls!r})"
