"""The ends of the logs that groups read: of the replicas here, and of others as their leaders tell.

The end is the last stable offset: where a reader of committed records ends, so a group that waits for the end of a
transaction has no lag. A replica here, leader or follower, knows it at no cost; a follower's is that of its last fetch.
Leaders of other partitions are asked at their listeners for brokers, one request after the other, with a pause: at most
PARTITIONS_PER_ASK partitions each PAUSE_MS. Not here: which partitions groups read (lag_watch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from broker.replication.hosting.hosted_partitions import PartitionLookup
from metadata.image import MetadataImage
from penstock.errors import ApiError
from penstock.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse
from penstock.types import LATEST_TIMESTAMP, TopicPartition

PARTITIONS_PER_ASK: Final = 1_000
"""Leaders answer about 100 partitions in a millisecond."""
PAUSE_MS: Final = 200
WANTED_MAX: Final = 10_000
"""Partitions without a replica here whose ends are learnt. The lag of those above it is not known."""
ASK_MS: Final = 3_000
"""The time-out of one request."""

AskBroker = Callable[[int, ListOffsetsRequest, int], Awaitable[Any]]
"""One call of a broker, at its listener for brokers: its id, the request, and the time limit in ms."""


class _KnownEnd(NamedTuple):
    topic_id: str
    end: int


class LogEnds:
    """The ends of the logs that groups read. Used on the event loop."""

    def __init__(
        self, broker_id: int, partitions: PartitionLookup, image: Callable[[], MetadataImage], ask: AskBroker
    ) -> None:
        self._broker_id, self._partitions, self._image, self._ask = broker_id, partitions, image, ask
        self._ends: dict[TopicPartition, _KnownEnd] = {}
        self._wanted: dict[TopicPartition, None] = {}
        self.partitions_asked = 0

    def of(self, partition: TopicPartition, topic_id: str) -> int | None:
        """The end of the topic's log, if it is known; "" stands for whichever topic has the name. An end that is not
        known is learnt with the next `learn`."""
        here = self._partitions.find(partition)
        if here is not None:
            return here.last_stable_offset if topic_id in ("", here.topic_id) else None
        if len(self._wanted) < WANTED_MAX:
            self._wanted[partition] = None
        known = self._ends.get(partition)
        return known.end if known is not None and topic_id in ("", known.topic_id) else None

    async def learn(self) -> None:
        """Asks the leaders of all partitions that were looked for since the last time. What a leader does not tell is
        not known until the next time: an old end would be no lag."""
        wanted, self._wanted = self._wanted, {}
        ends: dict[TopicPartition, _KnownEnd] = {}
        for leader_id, questions in self._by_leader(wanted).items():
            for at in range(0, len(questions), PARTITIONS_PER_ASK):
                ends |= await self._learn_from(leader_id, questions[at : at + PARTITIONS_PER_ASK])
                await asyncio.sleep(PAUSE_MS / 1000)
        self._ends = ends

    def _by_leader(self, wanted: Mapping[TopicPartition, object]) -> dict[int, list[ListOffsetsPartition]]:
        image, by_leader = self._image(), dict[int, list[ListOffsetsPartition]]()
        for partition in wanted:
            registered = image.partition(*partition)
            if registered is not None and registered.leader_id >= 0:
                question = ListOffsetsPartition(partition, registered.topic_id, LATEST_TIMESTAMP)
                by_leader.setdefault(registered.leader_id, []).append(question)
        return by_leader

    async def _learn_from(
        self, leader_id: int, questions: list[ListOffsetsPartition]
    ) -> dict[TopicPartition, _KnownEnd]:
        self.partitions_asked += len(questions)
        request = ListOffsetsRequest(tuple(questions), self._broker_id, ASK_MS, read_committed=True)
        try:
            answer: ListOffsetsResponse = await self._ask(leader_id, request, ASK_MS)
        except ApiError:  # it is gone, or of a release that brokers do not ask
            return {}
        topic_ids = {question.partition: question.topic_id for question in questions}
        return {
            result.partition: _KnownEnd(topic_ids[result.partition], result.offset)
            for result in answer.partitions
            if result.error is None and result.partition in topic_ids
        }

    def __repr__(self) -> str:
        return f"LogEnds({len(self._ends)} told)"
