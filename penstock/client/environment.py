"""Everything that a client needs of the machine, in one value. The caller that makes a client may give another one.

In production this is the machine. A simulation makes one with virtual time and a network in memory, and gives it to
every client:

    AsyncProducer("node:1", acks="all", environment=ClientEnvironment(...))

A client works in a thread of the system, beside its callers; as a green thread it would stand still as soon as a caller
waits for it. So it is refused where gevent or eventlet has replaced the threads of the system by its own. Both
libraries can leave threads as they are and replace everything else.

A user never needs it. Not here: the event loop (an async client works on the loop that runs it, a plain one on the loop
of `background`), and gevent's own way to wait without stopping its other green threads (docs/forking.md).
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from penstock.client import forks
from penstock.client.background import Closable, loop_thread
from penstock.client.wire.channel import GrpcTransport
from penstock.client.wire.http2_channel import Http2Transport
from penstock.client.wire.transport import ClientTransport
from penstock.clock import Clock, SystemClock
from penstock.errors import GreenThreadsError
from penstock.lazy_dataclass import dataclass
from penstock.threads import SystemThreads, Threads

C = TypeVar("C", bound=Closable)
T = TypeVar("T")

OTHER_LOOP = "this client works on the event loop on which it was first used; make another client for this loop"
"""An async client would wait for ever on a second loop, for tasks of the first."""


class Background(Protocol):
    """The event loop on which plain (not async) clients work, beside the threads that call them."""

    loop: asyncio.AbstractEventLoop

    @property
    def alive(self) -> bool:
        """False once the loop has ended, and in a child process, where its thread does not exist."""
        ...

    @property
    def is_current(self) -> bool:
        """True if the caller is on the loop: a callback of a future, say."""
        ...

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The result of a coroutine on the loop; the caller waits, and cancels it after `timeout` seconds."""
        ...

    def add(self, client: C, close: Callable[[C, float], object] | None = None) -> None:
        """A client that is closed at the end, should its user forget to; `close` where that is another end."""
        ...

    def discard(self, client: Closable) -> None:
        """The client is closed."""
        ...

    def adopt(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Runs the end of a client that its user dropped, from any thread; nobody waits for it."""
        ...


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """Handed to a client, which gives each of its parts only what that needs."""

    clock: Clock
    transport: ClientTransport
    random: random.Random
    """The source of randomness for the spread of back-offs."""
    threads: Threads
    """The source of locks, and of events for callers that wait."""
    background: Callable[[], Background]
    """Asked once by each plain client; an async one never asks."""


def given_or_system(environment: ClientEnvironment | None) -> ClientEnvironment:
    """The environment that was given to a client; the machine where none was."""
    if environment is not None:
        return environment
    refuse_green_threads()
    transport = Http2Transport() if forks.must_avoid_grpc() else GrpcTransport()
    return ClientEnvironment(SystemClock(), transport, random.Random(), SystemThreads(), loop_thread)


def refuse_green_threads() -> None:
    """GreenThreadsError if threads are patched, with the call that leaves them."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        raise _refusal("gevent", "monkey.patch_all(thread=False)")
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise _refusal("eventlet", "eventlet.monkey_patch(thread=False)")


def _refusal(library: str, call: str) -> GreenThreadsError:
    return GreenThreadsError(
        f"{library} has replaced this process's threads, and a client needs one of the system's: leave them as they"
        f" are, with {call}, before anything else is imported"
    )
