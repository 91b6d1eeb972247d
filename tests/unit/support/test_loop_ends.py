"""A fake cluster leaves no task on its loop: else it would be destroyed under some later test."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc

from tests.support.fake_broker import GrpcHost


class Slow:
    """Its handler goes on after it was cancelled once."""

    def __init__(self) -> None:
        self.asked, self.ended = threading.Event(), threading.Event()

    def is_stream(self, method: str) -> bool:
        return False

    async def call(self, method: str, request: bytes) -> bytes:
        self.asked.set()
        never = asyncio.Event()
        try:
            await never.wait()
        finally:
            try:
                await never.wait()  # cancelled by the server, which does not wait for its handlers
            finally:
                self.ended.set()
        return b""

    async def stream(self, method: str, stream: Any) -> None:
        raise AssertionError("nobody opens one")


def test_a_host_that_stops_leaves_no_task_on_its_loop() -> None:
    host, service = GrpcHost(), Slow()
    endpoint = host.start({1: service})[1]
    with grpc.insecure_channel(str(endpoint)) as channel:
        call = channel.unary_unary("/a/b").future(b"")
        assert service.asked.wait(60)
        host.stop()
        assert service.ended.is_set() and not asyncio.all_tasks(host._loop)
        assert call.exception(60) is not None
