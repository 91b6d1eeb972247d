"""What a client needs of the machine, in one value: whoever builds a client decides where it lives.

In production this is `system_environment()`: the machine's clocks and gRPC. A simulation builds one whose time is
virtual and whose network is memory, and gives it to every client:

    AsyncProducer("node:1", acks="all", environment=ClientEnvironment(clock, transport))

A user never needs it. Not here: the event loop. An async client works on the loop that runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client.wire.channel import GrpcTransport
from penstock.clock import Clock, SystemClock
from penstock.transport import Transport


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """Handed to a client, which gives each of its parts only what that needs."""

    clock: Clock
    transport: Transport


def system_environment() -> ClientEnvironment:
    """The machine."""
    return ClientEnvironment(SystemClock(), GrpcTransport())
