"""Looks at the lag of all groups of this broker, again and again, in steps that leave the event loop to its work.

A look begins LOOK_MS after the last one has ended. It works STEP_NS at a time and then leaves the loop for PAUSE_MS: it
takes about a hundredth of the loop, however many offsets there are, and a look at very many takes longer. The result is
a snapshot, which a scrape reads in its thread. Not here: what is added up (lag_pass.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from broker.coordination.turn import KnownTopics
from broker.groups.lag.end_history import EndHistories
from broker.groups.lag.lag_pass import GroupFacts, GroupProgress, LagPass, LagSnapshot
from broker.groups.lag.log_ends import LogEnds
from penstock.clock import Clock
from penstock.tasks import watch
from penstock.types import TopicPartition

LOOK_MS: Final = 5_000
STEP_NS: Final = 1_000_000
PAUSE_MS: Final = 100
OFFSETS_PER_STEP: Final = 200
"""Offsets between two looks at the clock; they take about half a millisecond."""


class KeptOffsets(Protocol):
    """The offsets of one group in one topic, by partition. What is iterated may change meanwhile."""

    def items(self) -> Iterator[tuple[int, Any]]: ...


class WatchedShard(Protocol):
    """The groups of one led partition. Read on the event loop; it may be thrown away between two steps."""

    def group_ids(self) -> Iterable[str]: ...

    def facts(self, group_id: str) -> GroupFacts | None:
        """None for a group that is gone."""
        ...

    def topics_of(self, group_id: str) -> Mapping[str, KeptOffsets]: ...

    def held(self, group_id: str, topics: KnownTopics) -> Iterator[TopicPartition]:
        """The partitions that its members have."""
        ...


class LagWatch:
    """Looks at the lag of all groups again and again. There is one per broker."""

    def __init__(
        self,
        shards: Callable[[], Iterable[WatchedShard]],
        ends: LogEnds,
        topics: KnownTopics,
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        """`shards`: those that serve now."""
        self._shards, self._ends, self._topics, self._clock, self._on_fatal = shards, ends, topics, clock, on_fatal
        self._histories = EndHistories()
        self._progress: Mapping[str, GroupProgress] = {}
        self._passes = 0
        self._task: asyncio.Task[None] | None = None
        self.snapshot = LagSnapshot()
        """Replaced as a whole, and never changed."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="group-lag")
        watch(self._task, self._on_fatal)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            await self.look()
            await self._ends.learn()

    async def look(self) -> None:
        """Takes one look at all groups."""
        began_ms, until_ns = self._clock.now_ms(), self._clock.now_ns() + STEP_NS
        taken = LagPass(self._histories, self._progress, began_ms, self._clock.wall_ms())
        for shard in tuple(self._shards()):
            for _ in self._walk(shard, taken):
                if self._clock.now_ns() >= until_ns:
                    await asyncio.sleep(PAUSE_MS / 1000)
                    until_ns = self._clock.now_ns() + STEP_NS
        self._passes += 1
        self.snapshot = taken.ended(self._passes, self._clock.now_ms() - began_ms, self._ends.partitions_asked)
        self._progress = taken.progress

    def _walk(self, shard: WatchedShard, taken: LagPass) -> Iterator[None]:
        """The groups of a shard; yields where the loop may have a turn."""
        for group_id in tuple(shard.group_ids()):
            facts = shard.facts(group_id)
            if facts is None:
                continue
            taken.group(group_id, facts)
            committed_topics = tuple(shard.topics_of(group_id).items())
            if facts.members and not committed_topics:
                for number, tp in enumerate(tuple(shard.held(group_id, self._topics)), 1):
                    taken.held(tp, self._ends.of(tp, ""))
                    if number % OFFSETS_PER_STEP == 0:
                        yield
            for topic, offsets in committed_topics:
                for number, (partition, committed) in enumerate(offsets.items(), 1):
                    tp = TopicPartition(topic, partition)
                    if committed.offset >= 0:
                        taken.offset(tp, committed.offset, committed.commit_ms, self._ends.of(tp, committed.topic_id))
                    if number % OFFSETS_PER_STEP == 0:
                        yield
            yield

    def __repr__(self) -> str:
        return f"LagWatch({self.snapshot.counts})"
