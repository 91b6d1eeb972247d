"""Carries the core's questions to other nodes, one task each, and brings back the answer or the lack of one.

Bounded by the core, which has at most one open question of a kind for each node. Tasks are kept until they end, and
`close` waits for all of them. It does not retry: when to ask again is the core's decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raft.config import RaftConfig
from raft.driver.protocols import QuorumProbe, QuorumTransport
from raft.messages import AnswerReceived, EndQuorumEpochRequest, FetchMetadataRequest, Inbound, Outbound, RequestFailed


class QuorumSender:
    """The questions that are under way."""

    def __init__(
        self, config: RaftConfig, transport: QuorumTransport, on_inbound: Callable[[Inbound], None], probe: QuorumProbe
    ) -> None:
        self._config = config
        self._probe = probe
        self._transport = transport
        self._on_inbound = on_inbound
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._farewells = 0
        self._farewells_said = asyncio.Event()
        self.failures = 0

    def __repr__(self) -> str:
        return f"QuorumSender({len(self._tasks)} under way, {self.failures} failed)"

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    def start(self, message: Outbound) -> None:
        self._probe.quorum_asking(message.request)
        task = asyncio.create_task(self._send(message), name=f"raft-send-{message.correlation_id}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def expect_farewells(self, count: int) -> None:
        """EndQuorumEpoch will go to every other voter, of which there are `count`; see `wait_farewells`."""
        self._farewells = count

    async def wait_farewells(self, timeout_ms: int) -> None:
        """Wait until each was answered or failed, or the time is up. Voters that missed it use their time-out."""
        if self._farewells <= 0:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._farewells_said.wait()
        except TimeoutError:
            return

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, message: Outbound) -> None:
        timeout_ms = self._config.request_timeout_ms
        if isinstance(message.request, FetchMetadataRequest):
            timeout_ms += message.request.max_wait_ms
        inbound: Inbound
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                response = await self._transport.send(message.to, message.request, timeout_ms)
            inbound = AnswerReceived(message.correlation_id, response)
        except Exception:  # whatever the transport raises: there was no answer
            self.failures += 1
            inbound = RequestFailed(message.correlation_id)
        if isinstance(message.request, EndQuorumEpochRequest):
            self._farewells -= 1
            if self._farewells <= 0:
                self._farewells_said.set()
        self._on_inbound(inbound)
