"""Looks up the positions of partitions that need one: by a time, or at the end of the log. Works on one event loop.

One round is under way at a time. A position that cannot be found now backs off, and holds up no other: `begin` starts
anew when the back-off ends, or a leader is found. Not here: what a position means (positions.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.offsets import list_offsets_once
from penstock.client.consumer.fetching.effects import Effect
from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.fetching.positions import Positions
from penstock.errors import ApiError
from penstock.types import LATEST_TIMESTAMP, NO_OFFSET, TopicPartition

_log = logging.getLogger(__name__)

PLACED_MS = 3_000
"""The longest time that an assignment or a seek waits for the ends of logs: far above a healthy answer."""
NAMED_MAX = 3


class LookUpOwner(Protocol):
    """The owner of the positions that are looked up."""

    def on_looked_up(self) -> None:
        """A round is over: some positions are known, others back off."""
        ...

    def on_not_looked_up(self, error: ApiError, effects: Iterable[Effect]) -> None:
        """A position was not found, and this follows."""
        ...

    def on_cut_off(self) -> None:
        """The program has cancelled a round, with all tasks of its loop."""
        ...


class LookUps:
    """The look-ups of one consumer."""

    def __init__(
        self, cluster: ClusterClient, positions: Positions, owner: LookUpOwner, *, read_committed: bool = False
    ) -> None:
        self._read_committed = read_committed
        self._cluster = cluster
        self._positions = positions
        self._owner = owner
        self._running: asyncio.Task[None] | None = None
        self._round_over = asyncio.Event()
        self._closed = False

    def begin(self) -> None:
        """Starts a round, if none is under way and a position is to be looked up."""
        if (self._running is None or self._running.done()) and self._unresolved():
            self._running = asyncio.ensure_future(self._run())
            self._running.add_done_callback(self._on_ended)

    def _unresolved(self) -> list[PartitionState]:
        return self._positions.unresolved(self._cluster.cache, self._cluster.clock.now_ms())

    async def _run(self) -> None:
        while pending := self._unresolved():
            generations = {s.topic_partition: s.generation for s in pending}
            wanted = {s.topic_partition: s.reset_timestamp for s in pending if s.reset_timestamp is not None}
            answers = await list_offsets_once(self._cluster, wanted, read_committed=self._read_committed)
            late = {tp: LATEST_TIMESTAMP for tp, info in answers.found.items() if info.offset == NO_OFFSET}
            if late:  # no record is that late: the end of the log
                ends = await list_offsets_once(self._cluster, late, read_committed=self._read_committed)
                answers.failed.update(ends.failed)
                answers.found.update(ends.found)
            for tp, error in answers.failed.items():
                self._fail(tp, generations[tp], error)
            for tp in answers.found.keys() - answers.failed.keys():
                self._positions.complete_reset(tp, generations[tp], answers.found[tp].offset)
            self._round_over.set()
            self._owner.on_looked_up()

    def _fail(self, tp: TopicPartition, generation: int, error: ApiError) -> None:
        effects = self._positions.fail_reset(tp, generation, error, self._cluster.clock.now_ms())
        state = self._positions.states.get(tp)
        if effects and state is not None and state.failures == 1:  # told once, and not at every further attempt
            _log.warning("looking up the position of %s: %s", tp, error)
        self._owner.on_not_looked_up(error, effects)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() and not self._closed:
            self._owner.on_cut_off()

    async def wait_placed(self, timeout_ms: int) -> None:
        """Waits until each partition that begins at the end of its log knows that end: records acked after that are
        read.

        A leader that does not answer in time is not waited for, nor is a partition without a leader: the other
        partitions are to be read. The log says so.
        """
        try:
            async with asyncio.timeout(min(PLACED_MS, timeout_ms) / 1000):
                while not self._closed and self._unplaced():
                    self._round_over.clear()
                    await self._round_over.wait()
        except TimeoutError:
            _log.warning(
                "%s: where the log ends is not known after %d ms; reading begins at the end that it tells later",
                ", ".join(str(state.topic_partition) for state in self._unplaced()[:NAMED_MAX]),
                PLACED_MS,
            )

    def _unplaced(self) -> list[PartitionState]:
        """Partitions with a leader that is asked where their logs end."""
        states = self._positions.states.values()
        ends = [s for s in states if s.reset_timestamp == LATEST_TIMESTAMP and not s.is_stopped]
        return [s for s in ends if self._cluster.cache.leader(s.topic_partition) is not None]

    async def close(self) -> None:
        """Ends a round that is under way, and every wait. Idempotent."""
        self._closed = True
        self._round_over.set()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def __repr__(self) -> str:
        return f"LookUps({len(self._unresolved())} positions to be looked up)"
