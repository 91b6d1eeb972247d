"""Sinks of answers for tests of one API (`broker.network.request_channel.ResponseSink`)."""

from __future__ import annotations

import asyncio

from broker.network.request_channel import Request


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
