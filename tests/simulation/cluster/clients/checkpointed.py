"""A reader that works as a query of Spark does: micro-batches, planned by the code of the Spark source, without a JVM.

All that outlives its process is a checkpoint: the text of each offset, and whether its micro-batch is done. It begins
anew at drawn moments, with new clients that know nothing: before a micro-batch, when its end is in the checkpoint, in
the middle of reading it, and before it is committed. What a micro-batch has read counts when it is committed, as in
Spark's file sink, so a micro-batch that is read again may not read other records. The tasks of a micro-batch have
clients of their own, as executors have.

The planning code is not async. It is given a client that knows the answers so far, and is begun again with one more
answer until it ends: it decides from the answers alone.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import TopicPartition
from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.errors import (
    LogTruncationError,
    OffsetOutOfRangeError,
    PenstockError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicOrPartitionError,
)
from penstock.record.reader import read_columns
from penstock.spark.log_client import LogClient
from penstock.spark.log_questions import LogQuestions
from penstock.spark.micro_batch import Limits, advance, newest_end, planned_ranges
from penstock.spark.options import Subscription
from penstock.spark.planning import DataLossError, OffsetAt, PlannedRange, PlannedTopic
from penstock.spark.positions import SourcePositions
from penstock.types import EpochEndOffset, MetadataOffset
from tests.simulation.cluster.clients.readers import RETRY_SECONDS, has_read, opened
from tests.simulation.cluster.plan import ReaderPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

NEW_SHARE = 0.12
"""At so many of the moments at which it can begin anew, it does."""
ROWS_MAX = 300
TIMEOUT_MS = 6_000
LOST = (
    DataLossError,
    LogTruncationError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    UndecodableBatchError,
    UnknownTopicOrPartitionError,
)
"""The errors that a task takes for lost records."""

T = TypeVar("T")
Question = Callable[[LogQuestions], Awaitable[Any]]
Rows = list[tuple[int, tuple[int, ...], tuple[bytes | None, ...]]]


class BegunAnew(Exception):
    """The process ends here."""


@dataclass(slots=True)
class Checkpoint:
    """The checkpoint that Spark keeps: the end of each micro-batch as text, and how many are done."""

    ends: list[str] = field(default_factory=list)
    done: int = 0

    @property
    def is_under_way(self) -> bool:
        return self.done < len(self.ends)

    def place(self, number: int) -> SourcePositions:
        """Where the micro-batch of this number ends; the beginning of everything before the first."""
        if number < 0:
            return SourcePositions(initial=True)
        return SourcePositions.from_json(json.loads(self.ends[number]))


class _Unanswered(BaseException):
    """The planning code has asked something that is not known yet."""

    def __init__(self, question: Question) -> None:
        self.question = question


class KnownAnswers:
    """A LogClient of the answers so far, in the order of the questions."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = answers
        self._next = 0

    def _ask(self, question: Question) -> Any:
        if self._next >= len(self._answers):
            raise _Unanswered(question)
        answer = self._answers[self._next]
        self._next += 1
        if isinstance(answer, PenstockError):
            raise answer
        return answer

    def list_topics(self) -> list[str]:
        return self._ask(lambda q: q.list_topics())  # type: ignore[no-any-return]

    def describe(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        return self._ask(lambda q: q.describe(topics))  # type: ignore[no-any-return]

    def newest_topics(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        return self._ask(lambda q: q.newest_topics(topics))  # type: ignore[no-any-return]

    def list_offsets(self, at_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        return self._ask(lambda q: q.list_offsets(at_ms))  # type: ignore[no-any-return]

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ask(lambda q: q.high_watermarks(partitions))  # type: ignore[no-any-return]

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEndOffset]:
        return self._ask(lambda q: q.epoch_ends(epochs, topic_ids))  # type: ignore[no-any-return]

    def remember(self, positions: SourcePositions) -> None:
        self._ask(lambda q: q.remember(positions))

    def seen(self) -> MetadataOffset:
        return self._ask(lambda q: q.seen())  # type: ignore[no-any-return]

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
        raise NotImplementedError("no query begins with the offsets of a group")

    def commit(self, group_id: str, positions: SourcePositions) -> None:
        raise NotImplementedError("no query commits to a group")

    def fetch(self, span: PlannedRange) -> Iterator[RawBuffer]:
        raise NotImplementedError("tasks read, and not the planning code")

    def sample(self, tp: TopicPartition, offset: int, topic_id: str) -> RawBuffer:
        raise NotImplementedError("only a limit of bytes needs samples")


async def decided(work: Callable[[LogClient], T], questions: LogQuestions) -> T:
    """The decision of the planning code, with every answer that it asks for."""
    answers: list[Any] = []
    while True:
        try:
            return work(KnownAnswers(answers))
        except _Unanswered as asked:
            try:
                answers.append(await asked.question(questions))
            except PenstockError as error:
                answers.append(error)


class CheckpointReader:
    """One of them; its name in the ledger is its own."""

    def __init__(self, clients: Clients, number: int, plan: ReaderPlan) -> None:
        self.clients, self.plan = clients, plan
        self.name = f"reader-{number}"
        self._draw = random.Random(clients.network.scheduler.draw.getrandbits(64))
        self._checkpoint = Checkpoint()
        self._limits = Limits(Subscription(topics=(plan.topic,)), self._draw.random() < 0.5, ROWS_MAX)

    async def read(self) -> None:
        """Until everything that was written has been read, one process after the other."""
        log = self.clients.logs[self.plan.topic]  # a plain topic is made once, before anybody reads
        while not self._has_read(log):
            cluster = self.clients.cluster_client()
            try:
                await self._live(log, LogQuestions(cluster, TIMEOUT_MS))
            except BegunAnew:
                self.clients.calls["queries begun anew"] += 1
            except PenstockError as error:
                if isinstance(error, LOST):
                    message = f"{self.name} of {self.plan.topic} was told {error!r}"
                    self.clients.ledger.report("told-lost", f"I52: {message}")
                self.clients.refused[type(error).__name__] += 1
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                await cluster.close()

    def _has_read(self, log: int) -> bool:
        return has_read(self.clients, self.name, log, self.clients.partitions(self.plan.topic))

    def _maybe_end(self) -> None:
        if self.clients.ends is None and self._draw.random() < NEW_SHARE:
            raise BegunAnew

    async def _live(self, log: int, questions: LogQuestions) -> None:
        """One process: what is under way in the checkpoint first, then one micro-batch after the other."""
        checkpoint = self._checkpoint
        while not self._has_read(log):
            if not checkpoint.is_under_way:
                start = checkpoint.place(checkpoint.done - 1)
                end = await decided(lambda client, start=start: self._advance(client, start), questions)  # type: ignore[misc]
                if end.same_places(start):
                    await asyncio.sleep(RETRY_SECONDS + self.plan.pause_s)
                    self._maybe_end()
                    continue
                checkpoint.ends.append(json.dumps(end.to_json()))
            self._maybe_end()
            rows = await self._micro_batch(questions)
            self._maybe_end()
            checkpoint.done += 1
            for partition, offsets, values in rows:
                self.clients.ledger.read(self.name, log, partition, offsets, values)
            await asyncio.sleep(self.plan.pause_s)

    def _advance(self, client: LogClient, start: SourcePositions) -> SourcePositions:
        target = newest_end(client, self._limits.subscription, start)
        return advance(client, start, target, self._limits)

    async def _micro_batch(self, questions: LogQuestions) -> Rows:
        """The rows that the tasks of the micro-batch under way read."""
        done = self._checkpoint.done
        start, end = self._checkpoint.place(done - 1), self._checkpoint.place(done)
        fail = self._limits.fail_on_data_loss
        spans = await decided(lambda client: planned_ranges(client, start, end, fail), questions)
        rows: Rows = []
        async with await opened(self.clients) as consumer:
            for span in spans:
                if not span.size:
                    continue
                place = span.topic, span.partition, span.lo, span.hi, span.topic_id
                async for buffer in consumer.fetch_raw(*place, span.leader_epoch, span.seen):
                    self._maybe_end()
                    columns = read_columns(buffer.records, from_offset=buffer.from_offset, to_offset=span.hi)
                    rows.append((span.partition, tuple(columns.offsets), tuple(columns.values)))
        return rows
