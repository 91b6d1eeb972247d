"""The clients of a simulated cluster, all in one process of a machine of their own; they tell the ledger everything.

Writers send and keep what they are promised: with acks=1 that is nothing while there are faults, or leaders move. Not
here: the readers (clients/readers.py), and the judge (tests/chaos/ledger.py).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from metadata.image import MetadataImage
from penstock import AsyncAdmin, AsyncAtomicBatches, AsyncConsumer, AsyncProducer, TopicPartition
from penstock.client.admin.admin_types import QuotaEntity
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.environment import ClientEnvironment
from penstock.client.options.config import admin_config
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.errors import PenstockError
from penstock.types import Endpoint
from tests.chaos.ledger import NO_KEY, encode_value
from tests.simulation.cluster.calendars.keeper import Keeper
from tests.simulation.cluster.client_invariants import ClientInvariants
from tests.simulation.cluster.clients.checkpointed import CheckpointReader
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.clients.keyed import keyed_topics
from tests.simulation.cluster.clients.operators import Operator
from tests.simulation.cluster.clients.readers import RETRY_SECONDS, Reader
from tests.simulation.cluster.fibers import FiberThreads
from tests.simulation.cluster.groups.group import Group
from tests.simulation.cluster.invariants import CheckedLedger
from tests.simulation.cluster.kafka.flooder import Flooder
from tests.simulation.cluster.kafka.readers import KafkaReader
from tests.simulation.cluster.kafka.writers import KafkaWriter
from tests.simulation.cluster.loop import MachineTime, ProcessLoop
from tests.simulation.cluster.machine import Failed
from tests.simulation.cluster.network import CLIENTS, Network
from tests.simulation.cluster.plan import (
    BATCH_BYTES,
    Kind,
    Plan,
    ReaderKind,
    ReaderPlan,
    Task,
    TopicKind,
    TopicPlan,
    WriterPlan,
)
from tests.simulation.cluster.processing.group import Processing
from tests.simulation.cluster.quota_invariants import QuotaInvariants
from tests.simulation.cluster.racks.rack_plan import RackDraw
from tests.simulation.cluster.rpc import SimulatedTransport
from tests.simulation.cluster.sink.application import SinkApplication
from tests.simulation.cluster.transactions.work import Transactions

if TYPE_CHECKING:
    from tests.simulation.cluster.levels.level_operator import LevelOperator
    from tests.simulation.cluster.security.secured import Secured
    from tests.simulation.cluster.voters.voter_operator import VoterOperator

RETAINED_MINUTES_MIN = 100
"""With a longer retention no calendar that jumps lets an offset expire."""
KEYS = 20
GROWING_AGE_MS = 700
"""Clients of a topic that gets more partitions hear of them so soon."""
IDLE_MS = 5_000
"""The least that a producer may be told: one that sends seldom forgets its topic in between."""
OLD_MS = 3_600_000
"""The age of dated records: less than the retention of topics from which nothing shall be deleted."""
IN_FLIGHT_MAX = 400
"""Records of one writer that wait for their ack."""
PROMPT_MS_MAX = 10_000
"""A whole cluster acks a writer something within this time, whatever had happened before it was whole."""
BACKLOG_MAX = 20
"""With no more records before it, this holds for each record."""


class Site(Protocol):
    """The machines' operator: its knowledge, and its orders."""

    def take_out(self, broker_id: int, seconds: float) -> None:
        """Stops a broker in order, and starts it again later."""

    def is_last(self, broker_id: int) -> bool:
        """True if no other broker is in service, or only such as have been ordered to stop."""

    def replace_disk(self, index: int, amount: float) -> None:
        """Gives a controller an empty disk, if nothing that was promised is lost with the old one."""

    def lacks_a_disk(self) -> bool:
        """True if a disk is lost, and the cluster does not know of it yet."""


class Clients:
    """See the module."""

    name = CLIENTS

    def __init__(
        self,
        network: Network,
        plan: Plan,
        endpoints: tuple[Sequence[Endpoint], Sequence[Endpoint]],
        failed: Failed,
        ledger: CheckedLedger,
        invariants: ClientInvariants,
        site: Site,
    ) -> None:
        """`endpoints` are those for gRPC, and those for Kafka's protocol."""
        self.network, self.plan = network, plan
        self._endpoints, self.kafka_endpoints = endpoints
        self.bootstrap = ",".join(map(str, self._endpoints))
        self._leaders_move = any(operator.task in (Task.MOVE, Task.FORGET, Task.MAKE) for operator in plan.operators)
        self.ledger, self._invariants, self.site = ledger, invariants, site
        self.process = network.scheduler.process(self.name)
        self.time = MachineTime(network.scheduler)
        self._loop = ProcessLoop(self.process, self.time, lambda what, error: failed(self.name, what, error))
        self._tasks: list[asyncio.Task[Any]] = []
        self.logs: dict[str, int] = {}
        """The number of each topic's log in the ledger."""
        self.is_mended = self.is_over = False
        """Operators do no more; and, when it is over, writers send no more. Readers go on to `ends`."""
        self.whole_ms: int | None = None
        """Since then everybody is in service and in sync, and nothing is about to change that."""
        self.ends: dict[TopicPartition, int] | None = None
        self.counts = {topic.name: topic.partitions for topic in plan.topics}
        """How many partitions of each topic clients were told of; in the end, how many there are."""
        self.topic_ids: dict[str, str] = {}
        self.deleted: dict[TopicPartition, int] = {}
        """The offsets that delete_records was given: nothing is left below."""
        self.calls: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        """Calls of operators, and errors that they were told, by their names."""
        self.quotas = QuotaInvariants(plan)
        self.racks = RackDraw(plan.racks, plan.seed)
        self.keyed = keyed_topics(self)
        self.groups = [Group(self, each) for each in plan.groups]
        self.transactions = Transactions(self)
        self.processings = [Processing(self, each) for each in plan.processings]
        self.sinks = [SinkApplication(self, each) for each in plan.sinks]
        self.keeper = Keeper(self, plan.calendars) if plan.calendars is not None else None
        self.voter_operator: VoterOperator | None = None
        self.level_operator: LevelOperator | None = None
        self.secured: Secured | None = None
        """Everything that is tried besides on a secured cluster."""
        self.possible_duplicates: dict[int, int] = {}
        self._sent: Counter[int] = Counter()
        """By writer: the next sequence."""
        self._failing: set[int] = set()
        """Writers of which a record has failed."""
        self.acked = self.failed_records = 0
        self._asked_ms: dict[int, int] = {}
        self._acked_ms: dict[int, int] = {}
        """By writer: when it sent its newest record, and when a whole cluster acked its newest one."""
        self.worst_ack_ms = self.worst_whole_ms = 0
        self.errors: Counter[str] = Counter()
        """The records that failed, by the name of what they were told."""

    def environment(self) -> ClientEnvironment:
        seed = self.network.scheduler.draw.getrandbits(64)
        transport = SimulatedTransport(self.network, self.process, self.name, self._endpoints)
        return ClientEnvironment(self.time, transport, random.Random(seed), FiberThreads(self.process), _no_background)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work)
        self._tasks.append(task)
        return task

    @property
    def is_idle(self) -> bool:
        """Whatever was begun has ended; the error of a task that failed is raised."""
        return self.raise_failures() == len(self._tasks)

    def raise_failures(self) -> int:
        """How many tasks have ended."""
        done = [task for task in self._tasks if task.done()]
        for task in done:
            task.result()
        return len(done)

    # -- topics --------------------------------------------------------------------------------------------------------

    def admin(self, limit_ms: int = 10_000, **login: str) -> AsyncAdmin:
        options: dict[str, Any] = {**self._login, **login}
        admin = AsyncAdmin(self.bootstrap, environment=self.environment(), default_api_timeout_ms=limit_ms, **options)
        self._invariants.watch(core_of(admin).cluster)
        return admin

    async def create_topics(self) -> None:
        async with self.admin() as admin:
            for topic in self.plan.topics:
                await self._create(admin, topic)
            if self.keeper is not None:
                await self.keeper.create_topics(admin)
            if (rate := self.plan.byte_rate) is not None:
                limits = {"producer_byte_rate": rate, "consumer_byte_rate": rate}
                assert not any((await admin.alter_client_quotas({QuotaEntity(client_id=""): limits})).values())

    async def lift_quotas(self) -> None:
        """From here on nobody waits for one: what readers have left to read may be more than a quota of a minute."""
        while True:
            try:
                async with self.admin() as admin:
                    lifted = {"producer_byte_rate": None, "consumer_byte_rate": None}
                    if not any((await admin.alter_client_quotas({QuotaEntity(client_id=""): lifted})).values()):
                        return
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _create(self, admin: AsyncAdmin, topic: TopicPlan) -> None:
        made = await admin.create_topic(topic.name, topic.partitions, topic.replication_factor, topic.config)
        self.topic_ids[topic.name] = made.topic_id
        log = self.logs[topic.name] = self.ledger.created(topic.name)
        if topic.kind is TopicKind.LOSSY:
            self.ledger.may_lose(log)
        for partition in range(topic.partitions if topic.kind is TopicKind.RETAINED else 0):
            self.ledger.may_be_gone(log, partition, 1 << 62)

    # -- writers -------------------------------------------------------------------------------------------------------

    def writes(self) -> list[Coroutine[Any, Any, None]]:
        """The work of everybody who changes something, until it is over."""
        return [
            *(self.write(number, plan) for number, plan in enumerate(self.plan.writers)),
            *(topic.write() for topic in self.keyed),
            *(KafkaWriter(self, number, plan).write() for number, plan in enumerate(self.plan.kafka_writers)),
            *self.transactions.writes(),
            *(sink.work() for sink in self.sinks),
            *(Operator(self, plan).work() for plan in self.plan.operators),
            *(Flooder(self, number, plan).work() for number, plan in enumerate(self.plan.floods)),
            *(self.secured.works() if self.secured is not None else []),
            *(self.keeper.works() if self.keeper is not None else []),
            *(self.voter_operator.works() if self.voter_operator is not None else []),
            *(self.level_operator.works() if self.level_operator is not None else []),
        ]

    def producer(
        self, linger_ms: int, acks: str = "all", *, is_idempotent: bool = True, batch_bytes: int = BATCH_BYTES
    ) -> AsyncProducer:
        producer = AsyncProducer(
            self.bootstrap,
            environment=self.environment(),
            acks=acks,
            enable_idempotence=is_idempotent and acks == "all",
            batch_size=batch_bytes,
            linger_ms=linger_ms,
            delivery_timeout_ms=self.plan.delivery_timeout_ms,
            request_timeout_ms=5_000,
            metadata_max_idle_ms=IDLE_MS,
            **self._ages(),
            **self._login,
        )
        core = core_of(producer)
        self._invariants.watch(core.cluster)
        self._invariants.neighbours.watch(core)
        self.quotas.watch(producer.statistics)
        return producer

    def transactional_producer(self, transactional_id: str, **options: Any) -> AsyncProducer:
        """Its answers depend on the coordinator's, too: nobody promises how soon that answers."""
        producer = AsyncProducer(
            self.bootstrap,
            environment=self.environment(),
            transactional_id=transactional_id,
            delivery_timeout_ms=self.plan.delivery_timeout_ms,
            request_timeout_ms=2_500,
            metadata_max_idle_ms=IDLE_MS,
            **{**self._ages(), **self._login, **options},
        )
        self._invariants.watch(core_of(producer).cluster)
        return producer

    def atomic_batches(self, max_block_ms: int) -> AsyncAtomicBatches:
        environment = self.environment()
        assert isinstance(environment.transport, SimulatedTransport)
        environment.transport.is_shared = True
        batches = AsyncAtomicBatches(
            self.bootstrap,
            environment=environment,
            delivery_timeout_ms=self.plan.delivery_timeout_ms,
            request_timeout_ms=2_500,
            max_block_ms=max_block_ms,
            metadata_max_idle_ms=IDLE_MS,
            **self._login,
        )
        self._invariants.watch(core_of(batches).cluster)
        return batches

    async def write(self, number: int, plan: WriterPlan) -> None:
        """Sends until it is over; then waits for every answer."""
        producer = self.producer(
            plan.linger_ms, plan.acks, is_idempotent=plan.is_idempotent, batch_bytes=plan.batch_bytes
        )
        if is_idempotent(plan):
            self.ledger.is_idempotent(number, plan.topic)
        waiting: dict[int, int] = {}  # first records of what was sent together, and when it was sent
        while not self.is_over:
            is_waiting = self.is_mended and self.whole_ms is None  # for followers that catch up slowly
            try:
                at_once = plan.records if plan.in_bulk else 1
                for _ in range(plan.records // at_once if len(waiting) < IN_FLIGHT_MAX and not is_waiting else 0):
                    await self._send(producer, number, plan, waiting, at_once)
            except PenstockError as error:
                self._count_failures(error, 1)
            await asyncio.sleep(plan.pause_s)
        await producer.flush()
        if self.whole_ms is not None:
            await self._require_some(producer, number, plan, waiting)
        self.possible_duplicates[number] = producer.statistics().possible_duplicates
        await producer.close()
        assert not waiting, f"writer {number}: flush and close are over, and {len(waiting)} records have no answer"

    async def _send(
        self, producer: AsyncProducer, number: int, plan: WriterPlan, waiting: dict[int, int], count: int
    ) -> None:
        """`count` records, in bulk where it is more than one."""
        # A bulk with keys is spread over partitions, and its promise does not say which record is where.
        grows = self.grows(plan.topic)
        is_keyed = plan.is_keyed and not (plan.in_bulk and (grows or len(self.partitions(plan.topic)) > 1))
        # Where a topic grows, the records of a key are in several partitions; the ledger then judges these alone.
        key = self._sent[number] % KEYS if is_keyed and count == 1 and not grows else NO_KEY
        first = self.ledger.send(number, plan.topic, count, key)
        self._sent[number] += count
        values = [encode_value(number, first + n) for n in range(count)]
        keys = [b"key-%d" % ((first + n) % KEYS) for n in range(count)] if is_keyed else None
        future: RecordFuture | BulkFuture
        time_ms = self.time.wall_ms() - OLD_MS if plan.is_dated else None
        if plan.in_bulk:
            future = await producer.send_many(plan.topic, values, keys, timestamp_ms=time_ms)
        else:
            future = await producer.send(plan.topic, values[0], keys and keys[0], timestamp_ms=time_ms)
        began_ms, has_backlog = self.time.now_ms(), len(waiting) > BACKLOG_MAX
        # The oldest record's delivery time-out fails those that share its batch, and those behind it.
        oldest_ms = next(iter(waiting.values()), began_ms)
        waiting[first] = self._asked_ms[number] = began_ms

        def answered(answer: RecordFuture | BulkFuture) -> None:
            waiting.pop(first, None)
            took_ms, error = self.time.now_ms() - began_ms, answer.exception(0)
            self.worst_ack_ms = max(self.worst_ack_ms, took_ms)
            if not has_backlog and not (error is not None and self._may_shrink(plan.topic)):
                self._invariants.answered(plan.topic, took_ms / 1000, self.network.scheduler.now_s)
            if self.whole_ms is not None:
                self._require_prompt(number, plan.topic, (oldest_ms, began_ms), has_backlog, error is None)
            if error is not None:
                self._count_failures(error, count)
                self._failing.add(number)
                if not getattr(error, "nothing_written", False) and not is_idempotent(plan):
                    self.ledger.failed_unknown(number, first, count)
                return
            self.acked += count
            if plan.acks == "all" or self.promises_acks_1:
                self._promised(number, first, answer)

        future.add_done_callback(answered)

    def _require_prompt(
        self, number: int, topic: str, since: tuple[int, int], has_backlog: bool, is_acked: bool
    ) -> None:
        """`since`: when the oldest record was sent that waited before this one, and when this one was.

        Not of a topic that is made anew: it may be gone for a while. With a limit of producers some are refused, and a
        producer that gives up early may do so before PROMPT_MS_MAX is over."""
        oldest_ms, began_ms = since
        now_ms, whole_ms = self.time.now_ms(), self.whole_ms or 0
        since_ms = max(whole_ms, began_ms, self._acked_ms.get(number, 0) if has_backlog else 0)
        self.worst_whole_ms = max(self.worst_whole_ms, now_ms - since_ms)
        is_remade = self._is_remade(topic)
        if now_ms - since_ms > PROMPT_MS_MAX and not is_remade:
            text = f"writer {number} has waited {now_ms - since_ms} ms for an ack of {topic} of a whole cluster"
            self.ledger.report("late-ack", text)
        is_next = not has_backlog or self._acked_ms.get(number, 0) < whole_ms
        gives_up = self.plan.delivery_timeout_ms < PROMPT_MS_MAX and now_ms - whole_ms <= PROMPT_MS_MAX
        if is_next and oldest_ms >= whole_ms and not (is_acked or is_remade or self._has_limit or gives_up):
            self.ledger.report("refused", f"writer {number}: a whole cluster has not taken a record of {topic}")
        if is_acked:
            self._acked_ms[number] = now_ms

    async def _require_some(
        self, producer: AsyncProducer, number: int, plan: WriterPlan, waiting: dict[int, int]
    ) -> None:
        """Requires that a whole cluster took some of the records that it was sent: the answers may all be failures, and
        prompt. They may also have shared their batch with a record from before: then it is to take one more."""
        was_asked = self._asked_ms.get(number, -1) >= (self.whole_ms or 0)
        if not was_asked or self._is_remade(plan.topic) or self._has_limit:
            return
        if number not in self._acked_ms:
            await self._send(producer, number, plan, waiting, plan.records if plan.in_bulk else 1)
            await producer.flush()
        if number not in self._acked_ms:
            self.ledger.report("refused", f"writer {number}: a whole cluster has taken no record of {plan.topic}")

    def _is_remade(self, topic: str) -> bool:
        return any(plan.name == topic and plan.kind is TopicKind.REMADE for plan in self.plan.topics)

    def _may_shrink(self, topic: str) -> bool:
        """True if the next topic of that name may lack partitions that this one has got: what is meant for these waits
        until its delivery time-out, as it does with Kafka's producers."""
        return self._is_remade(topic) and self.grows(topic)

    @property
    def _has_limit(self) -> bool:
        """True if brokers may know too few producers."""
        return any(key.startswith("producer.id.max") for key in self.plan.config)

    @property
    def promises_acks_1(self) -> bool:
        """True if no leader changes: else what is acked with acks=1 may be lost."""
        return not (self.plan.faults or self._leaders_move)

    def is_flooded_alone(self) -> bool:
        """True if flooders alone could explain an answer that is late (I88)."""
        return bool(self.plan.floods) and not self.plan.faults and self.plan.byte_rate is None

    @property
    def may_forget_producers(self) -> bool:
        """True if brokers may forget a producer that still sends."""
        has_jumps = any(fault.kind is Kind.WALL_JUMP for fault in self.plan.faults)
        return has_jumps or any(key.startswith("producer.id") for key in self.plan.config)

    @property
    def may_forget_offsets(self) -> bool:
        """True if calendars jump by more than coordinators keep the offsets of a group without members."""
        has_jumps = any(fault.kind is Kind.WALL_JUMP for fault in self.plan.faults)
        minutes = int(str(self.plan.config.get("offsets.retention.minutes", 10_080)))
        return has_jumps and minutes < RETAINED_MINUTES_MIN

    def _count_failures(self, error: BaseException, records: int) -> None:
        self.failed_records += records
        self.errors[type(error).__name__] += records

    def _promised(self, number: int, first: int, answer: RecordFuture | BulkFuture) -> None:
        if isinstance(answer, RecordFuture):
            result = answer.result(0)
            self.ledger.ack(number, first, result.partition, result.offset)
            return
        for span in answer.ranges(0):
            count = span.last_offset + 1 - span.first_offset
            self.ledger.ack(number, first, span.partition, span.first_offset, count)
            first += count

    # -- readers -------------------------------------------------------------------------------------------------------

    def consumer(self, **options: Any) -> AsyncConsumer:
        options = {"auto_offset_reset": "none", **self._ages(), **self._login, **self.racks.options(), **options}
        consumer = AsyncConsumer(self.bootstrap, environment=self.environment(), **options)
        self._invariants.watch(core_of(consumer).cluster)
        self._invariants.readers.watch(core_of(consumer))
        return consumer

    def cluster_client(self) -> ClusterClient:
        """For a client that is made of the parts of others."""
        cluster = ClusterClient(tuple(self._endpoints), admin_config(self._login), self.environment())
        self._invariants.watch(cluster)
        return cluster

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in range(self.counts[topic])]

    def grows(self, topic: str) -> bool:
        """True if somebody adds partitions to the topic."""
        return any(each.task is Task.GROW and each.topic == topic for each in self.plan.operators)

    @property
    def _login(self) -> dict[str, Any]:
        """The options of every client of a secured cluster."""
        return {} if self.secured is None else dict(self.secured.worker)

    def _ages(self) -> dict[str, Any]:
        """The option of clients that are to find new partitions."""
        return {"metadata_max_age_ms": GROWING_AGE_MS} if any(map(self.grows, self.counts)) else {}

    def count_partitions(self, image: MetadataImage) -> None:
        """Nobody adds partitions any more: what there is counts, and what anybody was told of must be there."""
        for topic in filter(self.grows, self.counts):
            found = len(image.topics_by_name[topic].partitions)
            if found < self.counts[topic]:
                self.ledger.report(
                    "shrunk", f"{topic} has {found} partitions, and was told to have {self.counts[topic]}"
                )
            self.counts[topic] = found

    def reads(self) -> list[Coroutine[Any, Any, None]]:
        """The work of every reader, until everything that was written has been read."""
        return [
            *(self._reader(number, plan).read() for number, plan in enumerate(self.plan.readers)),
            *(KafkaReader(self, number, plan).read() for number, plan in enumerate(self.plan.kafka_readers)),
            *(topic.read() for topic in self.keyed),
            *(member for group in self.groups for member in group.works()),
            *self.transactions.reads(),
            *(member for processing in self.processings for member in processing.works()),
        ]

    def _reader(self, number: int, plan: ReaderPlan) -> Reader | CheckpointReader:
        return (CheckpointReader if plan.kind is ReaderKind.CHECKPOINT else Reader)(self, number, plan)

    def judge(self) -> list[str]:
        """Everything that contradicts what the clients were told. Call it once."""
        self._judge_counts()
        self.transactions.judge()
        for each in (*self.processings, *self.sinks):
            each.judge()
        verdict = self.ledger.judge(self.possible_duplicates)
        found = [f"{kind}: {number}" for kind, number in verdict.anomalies.items()]
        return [*found, *verdict.examples, *(text for topic in self.keyed for text in topic.judge())]

    def doubts(self) -> int:
        """The possible duplicates of idempotent writers."""
        idempotent = [number for number, plan in enumerate(self.plan.writers) if is_idempotent(plan)]
        return sum(self.possible_duplicates.get(number, 0) for number in idempotent)

    def _judge_counts(self) -> None:
        """An idempotent producer counts no possible duplicates if none of its records failed, and its log never lost or
        forgot it."""
        forgets = "producer.id.expiration.ms" in self.plan.config
        for number, plan in enumerate(self.plan.writers):
            kind = next(topic.kind for topic in self.plan.topics if topic.name == plan.topic)
            is_sure = is_idempotent(plan) and kind is TopicKind.PLAIN and number not in self._failing and not forgets
            if is_sure and self.possible_duplicates[number]:
                text = f"writer {number} counts {self.possible_duplicates[number]} possible duplicates of {plan.topic}"
                self.ledger.report("uncertain", text)


def is_idempotent(plan: WriterPlan) -> bool:
    return plan.is_idempotent and plan.acks == "all"


def _no_background() -> Any:
    raise AssertionError("a plain client, where only async ones are")
