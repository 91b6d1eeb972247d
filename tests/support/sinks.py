"""Sinks of answers for tests of one API (`broker.network.request_channel.ResponseSink`)."""

from __future__ import annotations

import asyncio

from broker.network.connection_loop import Incoming
from broker.network.processor import Processor
from broker.network.request_channel import Caller, Request
from penstock.types import Endpoint


class Sink:
    """Ignores that a request is answered: the test reads the answer from the request."""

    def response_ready(self, request: Request) -> None:
        """Does nothing."""


class WaitedSink:
    """Sets `answered` when a request is answered."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def response_ready(self, request: Request) -> None:
        self.answered.set()


CALLER = Caller(Endpoint("10.0.0.1", 4711))


async def submit(processor: Processor, api: str, body: object, session: object = None, number: int = 0) -> None:
    """A request of the connection, as its loop gives it to the handlers."""
    await processor.submit(processor.request(Incoming(api, number, "", body), session))
