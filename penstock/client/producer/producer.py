"""Producer: the plain face, for any number of threads.

`send` runs in the caller's thread and is made to be cheap: no lock, no clock, no object but the future (accumulator.py
says why that is safe). It blocks only for a topic's first metadata and for memory, at most `max_block_ms`. The network
works on the process's background loop.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.background import IN_CALLBACK
from penstock.client.cluster.group_positions import Offsets, PositionsSource
from penstock.client.cluster.waiting import Waiting
from penstock.client.environment import ClientEnvironment, given_or_system
from penstock.client.faces import at_once, blocking, documented_by, face
from penstock.client.forgotten import close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.foreign_words import PRODUCER_METHODS
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.batch import KEYED_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, ProducerBatch
from penstock.client.producer.bulk.bulk_plan import BulkPlan
from penstock.client.producer.future import BulkFuture, RecordFuture, wait_done
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.partitioner import partition_for_key
from penstock.client.producer.pending_record import NotAppended
from penstock.client.producer.producer_core import ProducerCore
from penstock.client.producer.transactions.transaction import Transaction
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.errors import CalledInCallbackError, TimedOutError
from penstock.record.builder import HeadersLike

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

MEMORY_WAIT_SECONDS = 0.5
"""A wait for memory looks again at least this often."""


@face(ProducerConfig, PRODUCER_METHODS)
class Producer:
    """Sends records to topics; thread-safe.

    A record goes to the topic that has the name when it is sent. A record that waits while its topic is deleted and
    made anew goes to the new one, as with Kafka's producer.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = OF_ENVIRONMENT,
        *,
        environment: ClientEnvironment | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        environment = given_or_system(environment)
        self._take(ProducerCore(bootstrap, options, environment), environment)
        self._core.start(self._background.loop)
        self._background.add(self)
        forks.belongs_here(self)
        name = f"{self!r} with client_id {self._core.config.client_id!r}"
        close_when_forgotten(self, name, self._core, self._background)

    def _take(self, core: ProducerCore, environment: ClientEnvironment) -> None:
        self._core = self._calls = core
        self._clock = environment.clock
        self._sticky = self._core.partitions.sticky
        self._keyed = self._core.partitions.keyed
        self._background = environment.background()

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread has closed the producer."""
        return self._background.run(self._core.cluster.waiting_calls.until_closed(call, *args, **more))

    partitions_for = blocking(ProducerCore.partitions_for)
    metrics = at_once(ProducerCore.metrics)
    statistics = at_once(ProducerCore.statistics)

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Queues one record and returns the promise of its RecordMetadata. Headers: pairs, or a dict."""
        if headers is None and partition is None and timestamp_ms is None and value.__class__ is bytes:
            if key is None:
                slot = self._sticky.get(topic)
                if slot:
                    try:
                        batch = slot.pop()
                    except IndexError:  # another thread has it in hand
                        return self._send_slow(topic, value, None, None, None, None)
                    except BaseException:  # Ctrl-C
                        self._core.accumulator.put_back(slot)
                        raise
                    try:
                        room = batch.room - len(value) - RECORD_OVERHEAD_BYTES
                        if room >= 0:
                            batch.room = room
                            batch.append(value)
                            return batch.next_future()
                    except BaseException:
                        batch.mend()
                        raise
                    finally:
                        slot.append(batch)
            elif key.__class__ is bytes:
                future = self._send_keyed(topic, value, key)
                if future is not None:
                    return future
        return self._send_slow(topic, value, key, headers, partition, timestamp_ms)

    def _send_keyed(self, topic: str, value: Any, key: bytes) -> RecordFuture | None:
        """The same short way for a record with a key; None where the long way must be taken."""
        slots = self._keyed.get(topic)
        if not slots:
            return None
        slot = slots[partition_for_key(key, len(slots))]
        try:
            batch = slot.pop()
        except IndexError:  # no open batch, or another thread has it in hand
            return None
        except BaseException:  # Ctrl-C
            self._core.accumulator.put_back(slot)
            raise
        try:
            room = batch.room - len(value) - len(key) - KEYED_OVERHEAD_BYTES
            keys = batch.keys
            if room < 0 or keys is None or len(keys) != len(batch.values):
                return None
            batch.room = room
            keys.append(key)
            batch.append(value)
            return batch.next_future()
        except BaseException:
            batch.mend()
            raise
        finally:
            slot.append(batch)

    def _send_slow(
        self, topic: str, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
    ) -> RecordFuture:
        core = self._core
        record = core.pending(key, value, headers, timestamp_ms)
        deadline_ms = self._clock.now_ms() + core.config.max_block_ms
        while True:
            seen = core.memory.available_bytes
            answer = core.append(topic, record, partition)
            if not isinstance(answer, NotAppended):
                return answer
            if answer is NotAppended.NO_TOPIC:
                self._run(core.wait_topic, topic, partition)
            else:
                self._wait_memory(seen, deadline_ms)

    def _wait_memory(self, seen: int, deadline_ms: int) -> None:
        core = self._core
        left_ms = deadline_ms - self._clock.now_ms()
        if left_ms <= 0:
            raise core.buffer_exhausted()
        with core.memory.waiting():
            core.sender.wake()
            core.memory.wait(seen, min(left_ms / 1000, MEMORY_WAIT_SECONDS))

    def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None] | Any,
        keys: Iterable[bytes | None] | Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BulkFuture:
        """Queues an iterable of bytes, or an Arrow array, in bulk; the promise is of all of them together.

        Waits while the buffer is full. When it raises, what was queued before is sent all the same.
        """
        core = self._core
        core.pending(None, None, None, timestamp_ms)
        while not core.knows(topic, partition):
            self._run(core.wait_topic, topic, partition)
        plan = BulkPlan(core, topic, partition, timestamp_ms)
        taken: list[tuple[ProducerBatch, int, int]] = []
        for queue, encoded, count in plan.batches(values, keys):
            taken.append((self._queue_bulk(queue, encoded, count), 0, count))
        return BulkFuture(taken)

    def _queue_bulk(self, queue: PartitionQueue, encoded: bytes, count: int) -> ProducerBatch:
        deadline_ms = self._clock.now_ms() + self._core.config.max_block_ms
        while True:
            seen = self._core.memory.available_bytes
            batch = self._core.append_bulk(queue, encoded, count)
            if batch is not None:
                return batch
            self._wait_memory(seen, deadline_ms)

    def flush(self, timeout: float | None = None) -> None:
        """Sends everything now and waits until it is acked or has failed; TimedOutError after `timeout` seconds."""
        began_ms = self._clock.now_ms()
        with self._core.accumulator.flush():
            self._core.sender.wake()
            batches = self._unfinished(timeout)
            waited = (self._clock.now_ms() - began_ms) / 1000
            wait_done(batches, None if timeout is None else timeout - waited)

    def _unfinished(self, timeout: float | None) -> list[ProducerBatch]:
        """The batches that a flush waits for, seen from the loop, where batches move."""
        if not self._background.alive:
            return self._core.partitions.unfinished()
        try:
            return self._background.run(self._core.unfinished(), timeout)
        except concurrent.futures.TimeoutError:
            raise TimedOutError(f"flush: the client did not come to it within {timeout} s") from None

    # -- transactions --------------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A block whose records are read all together or never: `with producer.transaction() as t: t.send(...)`.

        It commits at its end, and aborts when it raises. The producer needs a `transactional_id` (transactions.md).
        """
        self._core.transactions.checked("transaction")
        return Transaction(self, self._core.transactions, self._run)

    @documented_by(TransactionCalls.begin_transaction)
    def begin_transaction(self) -> None:
        self._run(self._core.transactions.begin_transaction)

    @documented_by(TransactionCalls.commit_transaction)
    def commit_transaction(self) -> None:
        self._run(self._core.transactions.commit_transaction)

    @documented_by(TransactionCalls.abort_transaction)
    def abort_transaction(self) -> None:
        self._run(self._core.transactions.abort_transaction)

    @documented_by(TransactionCalls.send_offsets)
    def send_offsets(self, consumer: PositionsSource, positions: Offsets | None = None) -> None:
        self._run(self._core.transactions.send_offsets, consumer, positions)

    # -- end -----------------------------------------------------------------------------------------------------------

    def waiting_for(self) -> tuple[Waiting, ...]:
        """The reasons why records that are sent are not acked, for a person."""
        return self._background.run(self._core.waiting_for())

    def close(self, timeout: float | None = None) -> None:
        """Flushes and closes; what is not acked within `timeout` seconds fails. Idempotent.

        An open transaction is aborted.
        """
        if self._core.closed:
            return
        if self._background.is_current:
            raise CalledInCallbackError(IN_CALLBACK)
        self._core.begin_close()
        try:
            if self._background.alive:
                self._background.run(self._core.transactions.close(timeout))
                self.flush(timeout)
        except TimedOutError:
            if timeout is None:
                raise
            unacked = self._core.unacked_records()
            _log.warning("%r: %d records were not acked within the %g s of its close", self, unacked, timeout)
        finally:
            self._background.discard(self)
            if self._background.alive:
                self._background.run(self._core.finish_close())

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else "open"
        return f"Producer({','.join(map(str, self._core.bootstrap))}, {state})"


def producer_over(core: ProducerCore, environment: ClientEnvironment) -> Producer:
    """The face of a core that somebody else starts and closes."""
    made = Producer.__new__(Producer)
    made._take(core, environment)
    return made
