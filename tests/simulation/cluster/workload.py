"""The clients of a simulated cluster, all in one process of a machine of their own; they tell the ledger everything.

Writers send and keep what they are promised; readers read every topic from its beginning while it is written. A reader
may be refused for a while and asks again; what it may not do is go past a record. At the end a new reader reads what is
there. Not here: the judge (tests/chaos/ledger.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.environment import ClientEnvironment
from penstock.client.producer.future import RecordFuture
from penstock.errors import CorruptMessageError, LogTruncationError, OffsetOutOfRangeError, PenstockError
from tests.chaos.ledger import Ledger, encode_value
from tests.simulation.cluster.fibers import FiberThreads
from tests.simulation.cluster.loop import MachineTime, ProcessLoop
from tests.simulation.cluster.machine import Failed
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.plan import Plan, ReaderPlan, TopicPlan, WriterPlan
from tests.simulation.cluster.rpc import SimulatedTransport

KEYS = 20
DELIVERY_TIMEOUT_MS = 20_000
RETRY_SECONDS = 0.2
IN_FLIGHT_MAX = 400
"""Records of one writer that wait for their ack."""
LOST = (OffsetOutOfRangeError, LogTruncationError, CorruptMessageError)
"""What no reader of a log from which nothing is deleted may ever be told."""


class Clients:
    """See the module."""

    name = "clients"

    def __init__(self, network: Network, plan: Plan, bootstrap: str, failed: Failed) -> None:
        self.network, self.plan, self.bootstrap = network, plan, bootstrap
        self.ledger = Ledger()
        self.process = network.scheduler.process(self.name)
        self.time = MachineTime(lambda: network.scheduler.now_s)
        self._loop = ProcessLoop(self.process, self.time, lambda what, error: failed(self.name, what, error))
        self._tasks: list[asyncio.Task[Any]] = []
        self.logs: dict[str, int] = {}
        """The number of each topic's log in the ledger."""
        self.is_over = False
        """Writers send no more; readers go on to `ends`."""
        self.ends: dict[TopicPartition, int] | None = None
        self.possible_duplicates: dict[int, int] = {}
        self.acked = self.failed_records = 0
        self.worst_ack_ms = 0

    def environment(self) -> ClientEnvironment:
        seed = self.network.scheduler.draw.getrandbits(64)
        transport = SimulatedTransport(self.network, self.process, self.name)
        return ClientEnvironment(self.time, transport, random.Random(seed), FiberThreads(self.process), _no_background)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.append(task)
        return task

    @property
    def is_idle(self) -> bool:
        """Whatever was begun has ended; the error of a task that failed is raised."""
        done = [task for task in self._tasks if task.done()]
        for task in done:
            task.result()
        return len(done) == len(self._tasks)

    # -- topics --------------------------------------------------------------------------------------------------------

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(self.bootstrap, environment=self.environment(), default_api_timeout_ms=10_000)

    async def create_topics(self) -> None:
        async with self.admin() as admin:
            for topic in self.plan.topics:
                await self._create(admin, topic)

    async def _create(self, admin: AsyncAdmin, topic: TopicPlan) -> None:
        await admin.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.config)
        self.logs[topic.name] = self.ledger.created(topic.name)

    # -- writers -------------------------------------------------------------------------------------------------------

    async def write(self, number: int, plan: WriterPlan) -> None:
        """Sends until it is over; then waits for every answer."""
        producer = AsyncProducer(
            self.bootstrap,
            environment=self.environment(),
            acks="all",
            linger_ms=plan.linger_ms,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=5_000,
        )
        waiting: set[int] = set()
        while not self.is_over:
            try:
                for _ in range(plan.records if len(waiting) < IN_FLIGHT_MAX else 0):
                    await self._send(producer, number, plan, waiting)
            except PenstockError:
                self.failed_records += 1
            await asyncio.sleep(plan.pause_s)
        await producer.flush()
        self.possible_duplicates[number] = producer.statistics().possible_duplicates
        await producer.close()
        assert not waiting, f"writer {number}: flush and close are over, and {len(waiting)} records have no answer"

    async def _send(self, producer: AsyncProducer, number: int, plan: WriterPlan, waiting: set[int]) -> None:
        sequence = self.ledger.send(number, plan.topic)
        key = b"key-%d" % (sequence % KEYS) if plan.is_keyed else None
        future = await producer.send(plan.topic, encode_value(number, sequence), key)
        began_ms = self.time.now_ms()
        waiting.add(sequence)

        def answered(answer: RecordFuture) -> None:
            waiting.discard(sequence)
            self.worst_ack_ms = max(self.worst_ack_ms, self.time.now_ms() - began_ms)
            if answer.exception(0) is not None:
                self.failed_records += 1
                return
            told = answer.result(0)
            self.acked += 1
            self.ledger.ack(number, sequence, told.partition, told.offset)

        future.add_done_callback(answered)

    # -- readers -------------------------------------------------------------------------------------------------------

    def _consumer(self) -> AsyncConsumer:
        return AsyncConsumer(self.bootstrap, environment=self.environment(), auto_offset_reset="none")

    def partitions(self, topic: str) -> list[TopicPartition]:
        (plan,) = (each for each in self.plan.topics if each.name == topic)
        return [TopicPartition(topic, partition) for partition in range(plan.partitions)]

    async def read(self, plan: ReaderPlan) -> None:
        """From the beginning to the end, while it is written."""
        log, partitions = self.logs[plan.topic], self.partitions(plan.topic)
        for tp in partitions:
            self.ledger.begin_range("reader", log, tp.partition, 0)
        async with self._consumer() as consumer:
            is_assigned = False
            while not self._has_read("reader", log, partitions):
                try:
                    if not is_assigned:
                        await self._assign(consumer, partitions)
                        is_assigned = True
                    await self._poll(consumer, "reader", log)
                except LOST as error:
                    self.ledger.report("told-lost", f"a reader of {plan.topic} was told {error!r}")
                    return
                except PenstockError:
                    await asyncio.sleep(RETRY_SECONDS)
                await asyncio.sleep(plan.pause_s)

    async def _assign(self, consumer: AsyncConsumer, partitions: Sequence[TopicPartition]) -> None:
        await consumer.assign(partitions)
        for tp in partitions:
            await consumer.seek(tp, 0)

    async def _poll(self, consumer: AsyncConsumer, reader: str, log: int) -> None:
        for record in await consumer.poll(200, max_records=500):
            if reader == "final":
                self.ledger.read_final(log, record.partition, (record.offset,), (record.value,))
            else:
                self.ledger.read(reader, log, record.partition, (record.offset,), (record.value,))

    def _has_read(self, reader: str, log: int, partitions: Sequence[TopicPartition]) -> bool:
        ends = self.ends
        return ends is not None and all(
            self.ledger.next_offset(reader, log, tp.partition) >= ends[tp] for tp in partitions
        )

    # -- the end -------------------------------------------------------------------------------------------------------

    async def find_ends(self) -> None:
        """How far every partition can be read, once it can be told."""
        wanted = [tp for topic in self.plan.topics for tp in self.partitions(topic.name)]
        async with self._consumer() as consumer:
            while self.ends is None:
                try:
                    self.ends = await consumer.end_offsets(wanted)
                except PenstockError:
                    await asyncio.sleep(RETRY_SECONDS)

    async def read_final(self) -> None:
        """Every topic again, by a new consumer."""
        for topic in self.plan.topics:
            log, partitions = self.logs[topic.name], self.partitions(topic.name)
            async with self._consumer() as consumer:
                await self._assign(consumer, partitions)
                while not self._has_read("final", log, partitions):
                    await self._poll(consumer, "final", log)


def _no_background() -> Any:
    raise AssertionError("a plain client, where only async ones are")
