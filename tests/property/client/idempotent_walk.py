"""An idempotent producer's decisions, driven by a seed against model brokers.

The dispatcher, the accumulator and the sequences are those that ship; connections and brokers are models. A connection
keeps the order of its requests. When it breaks, the producer forgets it, and its broker may carry out what it still
holds, at any later time. `is_calm`: no batch fails for good and no broker forgets a producer. Then nothing is written
twice, nothing is counted, and no epoch ends. `has_bad_records` with it: brokers refuse batches for good, which ends
epochs; nothing is written twice all the same. Otherwise the log holds no more duplicates than are counted. Where a
producer id runs out of epochs, `keeps_order` is False: the next id shuts out no late copy of a batch that has failed.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.backoff import Backoff
from penstock.client.cluster.metadata_cache import MetadataCache
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.failed_batches import DispatchLimits
from penstock.client.producer.sending.outcomes import Acked, Failed, OutboundRequest, Outcome
from penstock.errors import (
    ApiError,
    InvalidRecordError,
    MessageTooLargeError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    RequestTimedOutError,
    ResourceExhaustedError,
    TimedOutError,
    UnknownProducerIdError,
)
from penstock.messages.metadata import BrokerInfo, MetadataResponse, PartitionInfo, TopicInfo
from penstock.messages.produce import PartitionProduceResult, ProduceResponse
from penstock.record.batch import read_header, verify_crc
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.reader import read_records
from penstock.types import Endpoint, LeaderHint, ProducerIdAndEpoch, TopicPartition
from tests.property.client.model_partition import NODES, Partition, Written, append
from tests.support.client_environment import pool_of, stepped_threads

POISON = 7
"""The number, among 30 records, of the one that each broker refuses where the walk has bad records."""
ROUNDS_MAX = 2_000
DELIVERY_TIMEOUT_MS, YOUNG_MS = 3_000, 1_000


@dataclass
class Slot:
    """A request at its broker: for each batch an answer, or where it stands in the log until its leader resigns."""

    request: OutboundRequest
    results: list[PartitionProduceResult | None]
    waits: dict[int, tuple[Partition, int, int]] = field(default_factory=dict)


@dataclass
class Connection:
    """A stream to one node; `is_late`: the producer has given it up."""

    node: int
    sent: deque[tuple[OutboundRequest, list[bytes]]] = field(default_factory=deque)
    slots: deque[Slot] = field(default_factory=deque)
    unanswered: list[OutboundRequest] = field(default_factory=list)
    is_late: bool = False


class Walk:
    """See the module. `step` until enough is seen, then `finish`; AssertionError where a promise is broken."""

    def __init__(
        self, seed: int, *, is_calm: bool = False, has_bad_records: bool = False, keeps_order: bool = True
    ) -> None:
        self.random = random.Random(f"idempotent {seed}")
        self.is_calm, self.keeps_order = is_calm, keeps_order
        self.has_bad_records = has_bad_records or not is_calm
        self.now_ms = 1_000
        self.partitions = {TopicPartition("t", number): Partition() for number in range(2)}
        self.cache = MetadataCache()
        config = AccumulatorConfig(10_000, 0, Codec.NONE, idempotent_in_flight_max=5)
        self.accumulator = Accumulator(config, pool_of(1 << 30), stepped_threads())
        limits = DispatchLimits(10**9 if is_calm else DELIVERY_TIMEOUT_MS, 1_000, 10**9, Backoff(50, 400, self.random))
        self.dispatcher = BatchDispatcher(self.accumulator, self.cache, limits)
        self.connections: dict[int, Connection] = {}
        self.late: list[Connection] = []
        self.sent: list[tuple[ProducerBatch, tuple[int, ...]]] = []
        self.acked: dict[int, tuple[TopicPartition, int]] = {}
        self.counted = 0
        self.numbers = 0
        self.ids = 100
        self.values_max = 3
        self.metadata_offset = 0
        self.works_from_ms = 10**9
        self.seen: Counter[str] = Counter()
        self.learn()
        self.actions: tuple[tuple[int, Callable[[], object]], ...] = (
            (60, self.send),
            (90, self.pump),
            (140, self.take_request),
            (90, self.replicate),
            (140, self.hear_answer),
            (20, self.pass_time),
            (20, self.learn),
            (20, self.identify),
            (20, self.break_connection),
            (8, self.leave_old_leaders),
            (8, self.elect),
            (8, self.depose_ends),
            (20, self.time_out_at_broker),
            (6, self.change_limit),
            (4, self.forget_producers),
        )

    def step(self) -> None:
        weights = [weight for weight, _ in self.actions]
        self.random.choices(self.actions, weights)[0][1]()

    # -- the producer --------------------------------------------------------------------------------------------------

    def send(self) -> None:
        if len(self.accumulator.partitions.unfinished()) > 20:
            return
        tp = self.random.choice(list(self.partitions))
        values = tuple(range(self.numbers, self.numbers + self.random.choice((1, 1, 2, 4))))
        self.numbers = values[-1] + 1
        batch = ProducerBatch(tp, 0, self.now_ms, stepped_threads())
        batch.set_encoded(build_batch([b"%d" % value for value in values], timestamps_ms=0), len(values))
        self.sent.append((batch, values))
        self.accumulator.append_bulk(self.accumulator.partitions.queue(tp), batch)

    def pump(self) -> None:
        self.apply(self.dispatcher.failures.expire(self.now_ms))
        while requests := self.dispatcher.drain(self.now_ms, self._can_send):
            for request in requests:
                connection = self.connections.setdefault(request.node_id, Connection(request.node_id))
                connection.unanswered.append(request)
                connection.sent.append((request, [batch.encoded or b"" for _, batch in request.entries]))
        self.dispatcher.wishes.take_metadata()

    def _can_send(self, node: int) -> bool:
        return node not in self.connections or len(self.connections[node].unanswered) < 10

    def identify(self) -> None:
        if self.dispatcher.wishes.take_producer_id():
            self.ids += 1
            self.dispatcher.on_producer_id(ProducerIdAndEpoch(self.ids, 0))

    def learn(self) -> None:
        """The producer hears who leads."""
        infos = tuple(
            PartitionInfo(tp.partition, partition.leader, partition.epoch, 0, NODES, ())
            for tp, partition in self.partitions.items()
        )
        self.metadata_offset += 1
        brokers = tuple(BrokerInfo(node, "host", node) for node in NODES)
        topic = TopicInfo("t", "id", infos)
        self.cache.update(MetadataResponse("c", 1, brokers, (topic,), self.metadata_offset), self.now_ms)

    def pass_time(self) -> None:
        self.now_ms += self.random.choice((1, 20, 100, 400))

    def break_connection(self) -> None:
        if self.connections:
            node = self.random.choice(list(self.connections))
            connection = self.connections.pop(node)
            self._give_up(connection)
            self.apply(self.dispatcher.on_broken(connection.unanswered, NetworkError("broken"), self.now_ms))

    def _give_up(self, connection: Connection) -> None:
        """Drops the connection: its broker may carry out later what it has, and what has not arrived yet arrives in
        part."""
        connection.is_late = True
        for _ in range(self.random.randint(0, len(connection.sent))):
            connection.sent.pop()
        self.late.append(connection)

    def leave_old_leaders(self) -> None:
        """A broker is silent, and others lead what it has."""
        for node, connection in list(self.connections.items()):
            for request in list(connection.unanswered):
                self.apply(self.dispatcher.take_back(request, self.now_ms))
                if not request.pending():
                    connection.unanswered.remove(request)
            if not connection.unanswered and (connection.sent or connection.slots):
                self._give_up(self.connections.pop(node))

    def apply(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            batch, tp = outcome.batch, outcome.batch.topic_partition
            self.seen[type(outcome).__name__] += 1
            if isinstance(outcome, Acked):
                values = read_values(batch.encoded or b"")
                for index, value in enumerate(values):
                    assert value not in self.acked, f"{value} is acked twice"
                    self.acked[value] = tp, outcome.base_offset + index
                self.counted += len(values) * batch.possible_duplicates(is_acked=True)
                batch.finish(outcome.base_offset, -1)
            elif isinstance(outcome, Failed):
                is_poisoned = self.has_bad_records and isinstance(outcome.error, InvalidRecordError)
                is_late = not self.is_calm and isinstance(outcome.error, TimedOutError)
                assert is_poisoned or is_late, outcome.error
                assert is_poisoned or batch.created_ms < self.works_from_ms, f"failed though all works: {outcome.error}"
                self.counted += batch.record_count * batch.possible_duplicates(is_acked=False)
                batch.fail(outcome.error)

    # -- the brokers ---------------------------------------------------------------------------------------------------

    def take_request(self) -> None:
        """A broker carries out the next request of one of its streams."""
        connections = self.late if self.random.random() < 0.1 else list(self.connections.values())
        holding = [connection for connection in connections if connection.sent]
        if holding:
            connection = self.random.choice(holding)
            self._carry_out(connection, *connection.sent.popleft())

    def _carry_out(self, connection: Connection, request: OutboundRequest, records: list[bytes]) -> None:
        slot = Slot(request, [None] * len(records))
        connection.slots.append(slot)
        self.seen["late request"] += connection.is_late
        for index, ((queue, _), data) in enumerate(zip(request.entries, records, strict=True)):
            partition = self.partitions[queue.topic_partition]
            try:
                at = self._append(connection.node, partition, data)
                slot.waits[index] = partition, at, partition.resigned[connection.node]
            except ApiError as error:
                self.seen[type(error).__name__] += 1
                slot.results[index] = PartitionProduceResult(queue.topic_partition, error)

    def _append(self, node: int, partition: Partition, data: bytes) -> int:
        header = read_header(data)
        assert verify_crc(data, 0, header) and header.size_bytes == len(data)
        values = read_values(data)
        last = header.base_sequence + header.last_offset_delta
        batch = Written(header.producer_id, header.producer_epoch, header.base_sequence, last, values)
        if not partition.leads(node):
            hint = LeaderHint(partition.leader, partition.epoch, Endpoint("host", partition.leader), "id")
            raise NotLeaderOrFollowerError(leader=self.random.choice((None, hint)))
        log = partition.logs[node]
        is_known = batch in log
        if not is_known:
            if self.random.random() < 0.08:
                raise self.random.choice((NotEnoughReplicasError, ResourceExhaustedError))
            if len(values) > self.values_max:
                raise MessageTooLargeError
            if self.has_bad_records and any(value % 30 == POISON for value in values):
                raise InvalidRecordError
        try:
            at = append(log, batch, partition.known_from)
        except (OutOfOrderSequenceError, UnknownProducerIdError):
            if self.is_calm and node == partition.deposed:  # what it missed would end an epoch
                raise NotLeaderOrFollowerError from None
            raise
        self.seen["duplicate"] += is_known
        return at

    def replicate(self) -> None:
        partition = self.random.choice(list(self.partitions.values()))
        partition.replicate(self.random.choice(sorted(partition.isr)), self.random.randint(0, 3))

    def hear_answer(self) -> None:
        """The oldest answer of a stream comes, if it is complete by now."""
        for node, connection in self.random.sample(list(self.connections.items()), len(self.connections)):
            while connection.slots and self._complete(node, connection.slots[0]):
                slot = connection.slots.popleft()
                if slot.request in connection.unanswered:
                    connection.unanswered.remove(slot.request)
                    results = tuple(result for result in slot.results if result is not None)
                    answer = ProduceResponse(results)
                    self.apply(self.dispatcher.on_answer(slot.request, answer, self.now_ms))
                    return

    def _complete(self, node: int, slot: Slot) -> bool:
        for index, (partition, at, resigned) in list(slot.waits.items()):
            tp = slot.request.entries[index][0].topic_partition
            if partition.resigned[node] != resigned:
                slot.results[index] = PartitionProduceResult(tp, NotEnoughReplicasAfterAppendError())
                del slot.waits[index]
            elif at < partition.committed_at(node):
                slot.results[index] = PartitionProduceResult(tp, None, partition.offset(node, at))
                del slot.waits[index]
        return not slot.waits

    def time_out_at_broker(self) -> None:
        """A broker could not commit something in time; what came behind it has more time."""
        waiting = [c.slots[0] for c in self.connections.values() if c.slots]
        for slot in waiting[:1]:
            for index in slot.waits:
                tp = slot.request.entries[index][0].topic_partition
                slot.results[index] = PartitionProduceResult(tp, RequestTimedOutError())
            slot.waits.clear()

    def elect(self) -> None:
        partition = self.random.choice(list(self.partitions.values()))
        partition.elect(self.random.choice(sorted(partition.isr)), is_heard=self.random.random() < 0.5)

    def depose_ends(self) -> None:
        self.random.choice(list(self.partitions.values())).hear()

    def change_limit(self) -> None:
        """Makes batches too large now that were taken before: a whole batch may come back beside its halves."""
        if not self.is_calm:
            self.values_max = self.random.choice((1, 3))

    def forget_producers(self) -> None:
        """Producers were silent for longer than any copy of a batch is under way."""
        held = any(c.sent or c.slots for c in (*self.connections.values(), *self.late))
        if not self.is_calm and not held and not self.accumulator.partitions.unfinished():
            self.late.clear()
            for partition in self.partitions.values():
                if partition.deposed is None:
                    partition.known_from = partition.committed
                    self.seen["forgotten"] += 1

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """All is mended; every batch ends, what is young is acked, and the logs have what was promised."""
        self.works_from_ms, self.values_max = self.now_ms - YOUNG_MS, 3
        for _ in range(8):
            self.send()
        for _ in range(ROUNDS_MAX):
            if not self.accumulator.partitions.unfinished():
                break
            self._mended_round()
        assert not self.accumulator.partitions.unfinished(), "it never ends"
        for connection in self.late:  # the last copies arrive
            while connection.sent:
                self._carry_out(connection, *connection.sent.popleft())
        self._mended_round()
        for tp, partition in self.partitions.items():
            self._check(tp, partition)
        assert self._duplicates() <= self.counted, f"{self._duplicates()} copies, {self.counted} counted"
        if self.is_calm:
            assert not self._duplicates(), f"{self._duplicates()} copies, though none can be"
        if not self.has_bad_records:
            assert len(self.acked) == self.numbers and not self.counted, f"{self.counted} counted, though none can be"
            epochs = {batch.epoch for partition in self.partitions.values() for batch in partition.logs[1]}
            assert epochs <= {0}, "an epoch ended, though nothing was missing"

    def _mended_round(self) -> None:
        self.learn()
        self.pump()
        self.identify()
        for connection in self.connections.values():
            while connection.sent:
                self._carry_out(connection, *connection.sent.popleft())
        for partition in self.partitions.values():
            partition.hear()
            for node in NODES:
                partition.replicate(node, len(partition.logs[partition.leader]))
        for _ in range(10):
            self.hear_answer()
        self.now_ms += 20

    def _log(self, tp: TopicPartition) -> list[int]:
        partition = self.partitions[tp]
        return [value for batch in partition.logs[partition.leader] for value in batch.values]

    def _check(self, tp: TopicPartition, partition: Partition) -> None:
        found = self._log(tp)
        for value, (where, offset) in self.acked.items():
            assert where != tp or (offset < len(found) and found[offset] == value), f"{value} is acked and not there"
        first = list(dict.fromkeys(found))
        assert first == sorted(first) or not self.keeps_order, f"out of order: {first}"

    def _duplicates(self) -> int:
        found = Counter(value for tp in self.partitions for value in self._log(tp))
        return sum(times - 1 for times in found.values())


def read_values(data: bytes) -> tuple[int, ...]:
    return tuple(int(record.value or b"") for record in read_records(data))
