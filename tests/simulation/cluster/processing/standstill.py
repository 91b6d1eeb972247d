"""The heartbeats of a consumer that stand still while its process does: they have a task of their own."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock import AsyncConsumer
from tests.simulation.cluster.clients.cores import core_of


class Standstill:
    """A consumer of a group that stands still. `for_seconds` may be called again and again."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        joined, self._clock = core_of(consumer).group, core_of(consumer).clock
        assert joined is not None
        self._until_ms = 0
        membership = joined.member
        heartbeat, next_due_ms = membership.heartbeat, membership.next_due_ms

        def beats(now_ms: int) -> Any:
            return heartbeat(now_ms) if now_ms >= self._until_ms else None

        def due_ms() -> int | None:
            return next_due_ms() if self._clock.now_ms() >= self._until_ms else self._until_ms

        membership.heartbeat, membership.next_due_ms = beats, due_ms  # type: ignore[method-assign]

    async def for_seconds(self, seconds: float) -> None:
        self._until_ms = self._clock.now_ms() + int(seconds * 1000)
        await asyncio.sleep(seconds)

    def __repr__(self) -> str:
        return f"Standstill(until {self._until_ms} ms)"
