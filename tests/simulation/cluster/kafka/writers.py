"""Producers in Kafka's protocol, idempotent and not, with acks 0, 1 and all.

A *line* is the records of one partition in their order. It has up to some batches on their way at a time, in requests
that go out one behind the other on one connection; what is refused, or has no answer, is sent again from the oldest on.
A batch of an idempotent producer keeps its sequence through all attempts, so nothing of it may stand twice or out of
order (I37). Of the others, what may be written twice is counted. With acks=0 nothing is sent again, and no answer may
come (I58). Not here: the judge (tests/chaos/ledger.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.kafka.schemas.producers import InitProducerIdRequest
from penstock.record.batch import with_producer
from penstock.record.builder import build_batch
from tests.chaos.ledger import encode_value
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.kafka.kafka_client import KafkaClient, Leader
from tests.simulation.cluster.plan import KafkaWriterPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

FIRST_PRODUCER = 500_000
"""The number of the first of these producers in the ledger."""
QUEUED_MAX = 8
"""Batches of a line that wait."""
TIMEOUT_MS = 3_000
PROMPT_MS_MAX = 10_000
"""A whole cluster acks a batch within this time, whatever had happened before it was whole."""
BY_ID_VERSION = 13
RESET_SHARE = 0.01
"""So many of the requests end in the middle, and their connection with them."""
LOOK_SHARE, END_SHARE = 0.1, 0.01
"""After so many of the requests a client asks for metadata on the same connection, or ends its half of it."""
OUT_OF_ORDER, DUPLICATE, INVALID_EPOCH, UNKNOWN_PRODUCER = 45, 46, 47, 59
FORGOTTEN = (OUT_OF_ORDER, DUPLICATE, INVALID_EPOCH, UNKNOWN_PRODUCER)
"""If the oldest batch of a line gets one of these, its partition does not know what it has acked."""
UNKNOWN_OUTCOME = (-1, 7, 20, 56)
"""Error codes after which a batch may be written."""


@dataclass(slots=True)
class Batch:
    """Records of one line that go together."""

    first: int
    """The sequence of its first record in the ledger."""
    count: int
    encoded: bytes
    began_ms: int
    sequence: int = -1
    """That of its first record in the partition, under the line's producer id."""
    may_be_written: int = 0
    """Attempts whose outcome is unknown."""


@dataclass(slots=True)
class Line:
    """See the module."""

    partition: int
    waiting: deque[Batch] = field(default_factory=deque)
    producer: tuple[int, int] = (-1, -1)
    next_sequence: int = 0
    has_work: asyncio.Event = field(default_factory=asyncio.Event)


class KafkaWriter:
    """One producer."""

    def __init__(self, clients: Clients, number: int, plan: KafkaWriterPlan) -> None:
        self.clients, self.plan = clients, plan
        self.number = FIRST_PRODUCER + number
        self._client = KafkaClient(clients, f"kafka-writer-{number}")
        self._lines = [Line(tp.partition) for tp in clients.partitions(plan.topic)]
        self._sent = 0
        self.possible_duplicates = 0

    async def write(self) -> None:
        """Sends until it is over; then waits for every answer."""
        clients, plan, draw = self.clients, self.plan, self._client.draw
        if plan.is_idempotent:
            clients.ledger.is_idempotent(self.number, plan.topic)
        sending = [clients.spawn(self._send_line(line)) for line in self._lines]
        while not clients.is_over:
            line = draw.choice(self._lines)
            if len(line.waiting) < QUEUED_MAX and not (clients.is_mended and clients.whole_ms is None):
                line.waiting.append(self._batch())
                line.has_work.set()
            await asyncio.sleep(plan.pause_s)
        for line in self._lines:
            line.has_work.set()
        await asyncio.gather(*sending)
        self._client.drop()
        clients.possible_duplicates[self.number] = self.possible_duplicates

    def _batch(self) -> Batch:
        count, clients = self._client.draw.randint(1, self.plan.records), self.clients
        first = clients.ledger.send(self.number, self.plan.topic, count)
        values = [encode_value(self.number, first + n) for n in range(count)]
        encoded = build_batch(values, timestamps_ms=clients.time.wall_ms())
        if self.plan.acks == 0:
            clients.ledger.failed_unknown(self.number, first, count)
        return Batch(first, count, encoded, clients.time.now_ms())

    # -- a line --------------------------------------------------------------------------------------------------------

    async def _send_line(self, line: Line) -> None:
        """Until it is over, and nothing waits."""
        while True:
            if not line.waiting:
                if self.clients.is_over:
                    return
                line.has_work.clear()
                await line.has_work.wait()
                continue
            try:
                if self.plan.is_idempotent and line.producer[0] < 0:
                    line.producer, line.next_sequence = await self._producer_id(), 0
                leader, connection = await self._client.leading(self.plan.topic, line.partition)
                is_well = await self._send_some(line, leader, connection)
            except Broken:
                is_well = False
            if not is_well:
                await self._client.refresh(self.plan.topic)

    async def _producer_id(self) -> tuple[int, int]:
        """From whichever node leads the first partition."""
        while True:
            _, connection = await self._client.leading(self.plan.topic, 0)
            answer = await connection.ask(InitProducerIdRequest(transaction_timeout_ms=60_000), 4)
            if not answer.error_code:
                return answer.producer_id, answer.producer_epoch
            await self._client.pause()

    async def _send_some(self, line: Line, leader: Leader, connection: Connection) -> bool:
        """The oldest batches, pipelined. False: some are to be sent again."""
        draw = self._client.draw
        batches = list(line.waiting)[: draw.randint(1, self.plan.in_flight)]
        requests = [self._request(line, batch, leader) for batch in batches]
        version = self._client.version(ProduceRequest, self.plan.version)
        if draw.random() < RESET_SHARE:
            connection.cut_inside(requests[0], version, draw.random())
            return False
        if self.plan.acks == 0:
            for request in requests:
                connection.send(request, version, is_answered=False)
                line.waiting.popleft()
            return not connection.is_broken
        answers = [connection.send(request, version) for request in requests]
        if draw.random() < LOOK_SHARE:
            self.clients.spawn(self._look(connection))
        if draw.random() < END_SHARE:
            connection.end_input()
        done = [await self._outcome(connection, answer, line.partition) for answer in answers]
        is_well = True
        for batch, outcome in zip(batches, done, strict=True):
            if not outcome[0] and is_well:
                line.waiting.popleft()
                self._acked(line, batch, outcome[1])
            else:
                is_well = self._again(line, batch, outcome, is_oldest=is_well)
        return is_well

    async def _look(self, connection: Connection) -> None:
        with suppress(Broken):
            await self._client.refresh_at(connection, self.plan.topic)

    def _request(self, line: Line, batch: Batch, leader: Leader) -> ProduceRequest:
        encoded = batch.encoded
        if self.plan.is_idempotent:
            if batch.sequence < 0:
                batch.sequence = line.next_sequence
                line.next_sequence += batch.count
            encoded = with_producer(encoded, *line.producer, batch.sequence)
        data = PartitionProduceData(index=line.partition, records=memoryview(encoded))
        topic = TopicProduceData(name=self.plan.topic, topic_id=leader.topic_id, partition_data=[data])
        return ProduceRequest(acks=self.plan.acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])

    async def _outcome(self, connection: Connection, answer: asyncio.Future[object], partition: int) -> tuple[int, int]:
        """The error code (-1: there is no answer) and the offset."""
        try:
            response = await connection.answer_of(answer)
        except Broken:
            return -1, -1
        found = [part for topic in response.responses for part in topic.partition_responses]  # type: ignore[attr-defined]
        if [part.index for part in found] != [partition]:
            self._client.wrong("answers", f"I58: asked to write {partition}, it was answered {found}")
            return -1, -1
        return found[0].error_code, found[0].base_offset

    def _again(self, line: Line, batch: Batch, outcome: tuple[int, int], *, is_oldest: bool) -> bool:
        """The batch stays where it is; False."""
        code, _ = outcome
        self.clients.refused[f"kafka {code}"] += 1
        if self.plan.is_idempotent:
            if is_oldest and code in FORGOTTEN:
                self._forgotten(line, code)
        elif code in UNKNOWN_OUTCOME or not code:
            batch.may_be_written += 1
            self.possible_duplicates += batch.count
            self.clients.ledger.failed_unknown(self.number, batch.first, batch.count)
        elif len(line.waiting) > 1:  # those behind it may have been written before it
            self.clients.ledger.failed_unknown(self.number, batch.first, batch.count)
        return False

    def _forgotten(self, line: Line, code: int) -> None:
        """Everything that waits goes out under a new producer id: it may be written twice."""
        if not self.clients.may_forget_producers:
            self._client.wrong("forgotten", f"{self.plan.topic}-{line.partition} refuses its oldest batch: {code}")
        line.producer, line.next_sequence = (-1, -1), 0
        for batch in line.waiting:
            batch.sequence = -1
            self.possible_duplicates += batch.count

    def _acked(self, line: Line, batch: Batch, offset: int) -> None:
        clients = self.clients
        now_ms = clients.time.now_ms()
        clients.acked += batch.count
        clients.calls["kafka records acked"] += batch.count
        if clients.whole_ms is not None and now_ms - max(clients.whole_ms, batch.began_ms) > PROMPT_MS_MAX:
            waited_ms = now_ms - max(clients.whole_ms, batch.began_ms)
            self._client.wrong("late-ack", f"{waited_ms} ms for an ack of {self.plan.topic} of a whole cluster")
        if self.plan.acks != -1 and not clients.promises_acks_1:
            return
        if offset < 0:
            self._client.wrong("answers", f"an ack of {self.plan.topic}-{line.partition} has offset {offset}")
            return
        clients.ledger.ack(self.number, batch.first, line.partition, offset, batch.count)
