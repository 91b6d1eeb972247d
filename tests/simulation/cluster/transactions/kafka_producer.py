"""A producer of transactions in Kafka's protocol, as clients below transaction version 2 are (KIP-98, KIP-360).

It names each partition to the coordinator before it writes there, has the same epoch in all of its transactions, and
numbers batches on through them. Where it does not know what a partition has, or is told that its epoch is over, it asks
for the next epoch by the id and epoch that it has: that ends what hangs, or says that another producer has its id. One
batch is on its way at a time; now and then it does not wait for the answer, and aborts, as librdkafka does. Not here:
what is written, and when a transaction ends (writer.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.kafka.schemas.producers import InitProducerIdRequest
from broker.kafka.schemas.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, EndTxnRequest
from penstock import TopicPartition
from penstock.errors import ProducerFencedError, TimedOutError, TransactionAbortedError
from penstock.record.batch import with_producer
from penstock.record.builder import build_batch
from tests.simulation.cluster.groups.coordinator_client import ELSEWHERE, TRANSACTION, CoordinatorClient
from tests.simulation.cluster.kafka.connection import Broken, Connection
from tests.simulation.cluster.plan import TransactorPlan
from tests.simulation.cluster.transactions.producers import BLOCK_MS, OutcomeUnknown

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

UNKNOWN_TOPIC, INVALID_EPOCH, INVALID_STATE, NO_MAPPING, CONCURRENT, FENCED = 3, 47, 48, 49, 51, 90
EPOCH_IS_OVER = frozenset({INVALID_EPOCH, NO_MAPPING, FENCED})
PASSING = frozenset({UNKNOWN_TOPIC, 5, 6, 7, 9, CONCURRENT, 13, 19, 20, 56, 72, 74, 75, 76, 89, 100}) | ELSEWHERE
"""The same request is sent again."""
INIT_VERSION, ADD_VERSION, END_VERSION, PRODUCE_VERSIONS = 4, 3, 3, (9, 10, 11)
LEFT = -2
"""The outcome of a batch that is left on its way."""
WRITE_MS = 4_000
"""So long a record is tried."""


class KafkaProducer:
    """See the module."""

    def __init__(self, clients: Clients, transactional_id: str, plan: TransactorPlan) -> None:
        self._clients, self._id, self._plan = clients, transactional_id, plan
        self._coordinator = CoordinatorClient(clients, transactional_id, transactional_id, TRANSACTION)
        self._client = self._coordinator.client
        self._producer = (-1, -1)
        self._must_recover = True
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._is_lost = False
        """An answer to the end of the transaction is missing."""

    # -- the producer --------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        if self._must_recover:
            await self._initialize()
        self._added, self._is_lost = set(), False

    async def _initialize(self) -> None:
        question = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._plan.timeout_ms,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
        )
        answer = await self._asked(question, INIT_VERSION, BLOCK_MS)
        if answer.error_code:
            raise ProducerFencedError(f"error code {answer.error_code} to {question}")
        self._producer, self._must_recover = (answer.producer_id, answer.producer_epoch), False
        self._sequences = {}

    async def _asked(self, question: Any, version: int, limit_ms: int) -> Any:
        """The coordinator's answer, whose error code is none that passes. TimedOutError if there is none."""
        deadline_ms = self._clients.time.now_ms() + limit_ms
        while self._clients.time.now_ms() < deadline_ms:
            try:
                answer = await self._coordinator.ask(question, version)
                if getattr(answer, "error_code", 0) != CONCURRENT:
                    return answer
                await asyncio.sleep(0.02)
            except Broken:
                self._is_lost |= isinstance(question, EndTxnRequest)
                self._coordinator.forget()
                await self._client.pause()
        raise TimedOutError(f"{self._id}: no coordinator answered in {limit_ms} ms")

    def _fail(self, why: str) -> TransactionAbortedError:
        """The transaction can only be aborted, and nobody knows what the partitions have."""
        self._must_recover = True
        self._clients.failed_records += 1
        return TransactionAbortedError(why)

    # -- records -------------------------------------------------------------------------------------------------------

    async def send(self, tp: TopicPartition, value: bytes, acked: Callable[[int], None]) -> None:
        if tp not in self._added:
            await self._add(tp)
        deadline_ms, version = self._clients.time.now_ms() + WRITE_MS, self._client.draw.choice(PRODUCE_VERSIONS)
        sequence = self._sequences.get(tp, 0)
        batch = build_batch([value], keys=[value], timestamps_ms=self._clients.time.wall_ms())
        records = with_producer(batch, *self._producer, sequence, is_transactional=True)
        while self._clients.time.now_ms() < deadline_ms:
            code, offset = await self._produced(tp, records, version)
            if not code:
                self._sequences[tp] = sequence + 1
                acked(offset)
                return
            if code not in PASSING and code != -1:
                raise self._fail(f"error code {code} from {tp}")
            await self._client.refresh(tp.topic)
        raise self._fail(f"no ack of {tp} in {WRITE_MS} ms")

    async def _produced(self, tp: TopicPartition, records: bytes, version: int) -> tuple[int, int]:
        """The error code (-1: there is no answer) and the offset."""
        data = PartitionProduceData(index=tp.partition, records=memoryview(records))
        topic = TopicProduceData(name=tp.topic, partition_data=[data])
        question = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=2_000, topic_data=[topic])
        try:
            async with asyncio.timeout(WRITE_MS / 1000):
                _, connection = await self._client.leading(tp.topic, tp.partition)
            if self._client.draw.random() < self._plan.left_share:
                self._clients.spawn(self._forget(connection, connection.send(question, version)))
                return LEFT, -1
            answer = await connection.ask(question, version)
        except (Broken, TimeoutError):
            return -1, -1
        found = answer.responses[0].partition_responses[0]
        self._clients.refused[f"kafka transactional {found.error_code}"] += bool(found.error_code)
        return found.error_code, found.base_offset

    async def _forget(self, connection: Connection, answer: asyncio.Future[object]) -> None:
        with suppress(Broken):
            await connection.answer_of(answer)

    async def _add(self, tp: TopicPartition) -> None:
        question = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition])],
        )
        deadline_ms = self._clients.time.now_ms() + WRITE_MS
        while (left_ms := deadline_ms - self._clients.time.now_ms()) > 0:
            self._added.add(tp)  # the coordinator may have it, whatever it answers
            answer = await self._asked(question, ADD_VERSION, left_ms)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if not code:
                return
            if code not in PASSING:
                raise self._fail(f"error code {code} to add {tp}")
            if code in ELSEWHERE:
                self._coordinator.forget()
            await self._client.pause()
        raise self._fail(f"{tp} was not added in {WRITE_MS} ms")

    # -- the end -------------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        code = await self._ended(is_committed=True)
        if not code:
            return
        self._must_recover = True
        if self._is_lost and code in EPOCH_IS_OVER:  # what has no answer may have committed it
            raise OutcomeUnknown(f"error code {code} to a commit that was asked for twice")
        raise TransactionAbortedError(f"error code {code} to the commit")

    async def abort(self) -> None:
        if await self._ended(is_committed=False):
            self._must_recover = True

    async def _ended(self, *, is_committed: bool) -> int:
        if not self._added:
            return 0
        question = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=is_committed,
        )
        code: int = (await self._asked(question, END_VERSION, BLOCK_MS)).error_code
        return code

    async def close(self) -> None:
        self._client.drop()

    async def die(self) -> None:
        self._client.drop()

    def __repr__(self) -> str:
        return f"KafkaProducer({self._id}, {self._producer})"
