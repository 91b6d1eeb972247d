"""Producer: the plain face, for any number of threads.

`send` runs in the caller's thread and is made to be cheap: no lock, no clock, no object but the future (accumulator.py
says why that is safe). It blocks only for a topic's first metadata and for memory, at most `max_block_ms`. The network
works on the process's background loop. Not here: the calls that both faces have (producer_calls.py).
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack

from penstock.client import forks
from penstock.client.background import IN_CALLBACK
from penstock.client.cluster.waiting import Waiting
from penstock.client.environment import Background, ClientEnvironment, given_or_system
from penstock.client.faces import at_once, blocking, documented_by, face, finished, in_callers_thread
from penstock.client.forgotten import close_when_forgotten
from penstock.client.options.config import ProducerConfig
from penstock.client.options.foreign_words import PRODUCER_METHODS
from penstock.client.options.options import OF_ENVIRONMENT
from penstock.client.options.typed_options import ProducerOptions
from penstock.client.producer.batch import KEYED_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, ProducerBatch
from penstock.client.producer.future import RecordFuture, wait_done
from penstock.client.producer.partitioner import partition_for_key
from penstock.client.producer.pending_record import NotAppended
from penstock.client.producer.producer_calls import ProducerCalls
from penstock.client.producer.producer_core import ProducerCore
from penstock.client.producer.transactions.transaction import Transaction
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.errors import CalledInCallbackError, TimedOutError
from penstock.record.builder import HeadersLike

P = ParamSpec("P")
T = TypeVar("T")


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
        self._core, self._transactions = core, core.transactions
        self._sticky = self._core.partitions.sticky
        self._keyed = self._core.partitions.keyed
        self._background = environment.background()
        self._calls = ProducerCalls(core, _Thread(core, self._background), "Producer")

    def _run(self, call: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs) -> T:
        """The result of a call on the loop; ClientClosedError as soon as another thread has closed the producer."""
        return self._background.run(self._core.cluster.waiting_calls.until_closed(call, *args, **more))

    partitions_for = blocking(ProducerCore.partitions_for, "_core")
    metrics = at_once(ProducerCore.metrics, "_core")
    statistics = at_once(ProducerCore.statistics, "_core")

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
        """Appends a record with a key to the open batch of its partition. None if the long way must be taken: no batch
        is open there, or the record does not fit."""
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
        seen = core.memory.available_bytes
        answer = core.append(topic, record, partition)
        if isinstance(answer, NotAppended):
            return finished(self._calls.append_later(topic, record, partition, answer, seen))
        return answer

    send_many = in_callers_thread(ProducerCalls.send_many)
    flush = in_callers_thread(ProducerCalls.flush)

    # -- transactions --------------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A block whose records are read all together or never: `with producer.transaction() as t: t.send(...)`.

        It commits at its end, and aborts when it raises. The producer needs a `transactional_id` (transactions.md).
        """
        self._core.transactions.checked("transaction")
        return Transaction(self, self._core.transactions, self._run)

    begin_transaction = blocking(TransactionCalls.begin_transaction, "_transactions")
    commit_transaction = blocking(TransactionCalls.commit_transaction, "_transactions")
    abort_transaction = blocking(TransactionCalls.abort_transaction, "_transactions")
    send_offsets = blocking(TransactionCalls.send_offsets, "_transactions")

    # -- end -----------------------------------------------------------------------------------------------------------

    @documented_by(ProducerCore.waiting_for)
    def waiting_for(self) -> tuple[Waiting, ...]:
        return self._background.run(self._core.waiting_for())

    @documented_by(ProducerCalls.close)
    def close(self, timeout: float | None = None) -> None:
        if self._core.closed:
            return
        if self._background.is_current:
            raise CalledInCallbackError(IN_CALLBACK)
        self._background.discard(self)
        if self._background.alive:
            finished(self._calls.close(timeout))
        else:
            self._core.begin_close()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Producer({self._calls.name()})"


class _Thread:
    """Waits in the thread of the caller, for what the background loop does."""

    def __init__(self, core: ProducerCore, background: Background) -> None:
        self._core, self._background = core, background

    async def topic(self, topic: str, partition: int | None) -> None:
        wait = self._core.cluster.waiting_calls.until_closed(self._core.wait_topic, topic, partition)
        self._background.run(wait)

    async def memory(self, seen_available: int, seconds: float) -> None:
        self._core.memory.wait(seen_available, seconds)

    async def turn(self) -> None:
        """The loop has a thread of its own."""

    async def acked(self, timeout: float | None) -> None:
        clock = self._core.clock
        began_ms = clock.now_ms()
        batches = self._unfinished(timeout)
        waited = (clock.now_ms() - began_ms) / 1000
        wait_done(batches, None if timeout is None else timeout - waited)

    def _unfinished(self, timeout: float | None) -> list[ProducerBatch]:
        """The batches that a flush waits for, seen from the loop, where batches move."""
        if not self._background.alive:
            return self._core.partitions.unfinished()
        try:
            return self._background.run(self._core.unfinished(), timeout)
        except concurrent.futures.TimeoutError:
            raise TimedOutError(f"flush: the client did not come to it within {timeout} s") from None

    async def ran(self, call: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **more: P.kwargs) -> None:
        if self._background.alive:
            self._background.run(call(*args, **more))

    def __repr__(self) -> str:
        return f"_Thread({self._background!r})"


def producer_over(core: ProducerCore, environment: ClientEnvironment) -> Producer:
    """The face of a core that somebody else starts and closes."""
    made = Producer.__new__(Producer)
    made._take(core, environment)
    return made
