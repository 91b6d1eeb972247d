"""The place where records wait to be sent: open batches by partition, closed ones behind them, all within
`buffer_memory`.

Shared by callers' threads and the sender's thread, without a lock on the way of a record: a batch that may be appended
to lies in its partition's *slot*, and the thread that takes it out (`deque.pop` is atomic) owns it until it is put
back. So a sender that finds a slot empty never waits for a caller that lost the GIL in mid-append; it comes back a
moment later. A lock guards only the opening of batches. The thread that closes a batch appends it to the closed ones;
only the sender takes these.

Memory is granted to a batch in steps (GRANT_BYTES), not per record, and given back when the batch is done. Times come
in as arguments. Not here: which partitions there are (partition_queues.py), where a batch goes (sending/).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.memory import BufferShare, MemoryPool
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.partition_queues import AccumulatorConfig, PartitionQueues
from penstock.client.producer.pending_record import NotAppended, PendingRecord
from penstock.client.producer.transactions.open_transaction import OpenTransaction
from penstock.errors import ClientClosedError, InvalidRecordError, PenstockError
from penstock.threads import Threads

GRANT_BYTES = 64 * 1024
"""A batch takes memory in steps of this; smaller costs calls per record, larger wastes with many idle partitions."""
YIELD_SECONDS = 0.0002
"""How long a caller steps aside when another one has the batch in hand."""


class Accumulator:
    """The batches of one producer that are open, and their closing."""

    def __init__(
        self,
        config: AccumulatorConfig,
        memory: MemoryPool,
        threads: Threads,
        transaction: OpenTransaction | None = None,
    ) -> None:
        self.config = config
        self.memory = memory
        self._transaction = transaction
        self.partitions = PartitionQueues(config, threads.lock(), transaction)
        self.share = BufferShare(self.partitions.queues, memory.total_bytes)
        self._opening, self._active = self.partitions.opening, self.partitions.active
        self._threads = threads
        self._flushing: set[object] = set()
        self._closed = False

    # -- appending: callers' threads -----------------------------------------------------------------------------------

    def try_append(
        self, queue: PartitionQueue, record: PendingRecord, now_ms: int, wall_ms: int
    ) -> RecordFuture | NotAppended:
        """Appends to the open batch, opens one if none is open, and closes it when it is full."""
        while True:
            try:
                batch = queue.slot.pop()
            except IndexError:
                queue = self._open_or_pause(queue, now_ms, wall_ms)
                continue
            except BaseException:
                self.put_back(queue.slot)
                raise
            try:
                if batch.room < record.size_bytes:
                    refusal = self._make_room(queue, batch, record.size_bytes, now_ms)
                    if refusal is not None:
                        return refusal
                batch.room -= record.size_bytes
                return batch.append_full(record.key, record.value, record.headers, record.timestamp_ms)
            except BaseException:
                self._mend(queue, batch)
                raise
            finally:
                if queue.open is batch:
                    queue.slot.append(batch)

    def _open_or_pause(self, queue: PartitionQueue, now_ms: int, wall_ms: int) -> PartitionQueue:
        """Opens a batch; lets another caller go on that has the open one in hand. Returns the partition's queue, which
        is another one if it was forgotten meanwhile."""
        if queue.open is not None:
            self._threads.pause(YIELD_SECONDS)
            return queue
        with self._opening:
            self._check_open()
            queue = self.partitions.current(queue)
            queue.used_ms = now_ms
            if queue.open is None:
                batch = ProducerBatch(queue.topic_partition, wall_ms, now_ms, self._threads)
                self._active[queue] = None
                queue.open = batch
                queue.slot.append(batch)
        return queue

    def put_back(self, slot: deque[ProducerBatch]) -> None:
        """Puts back the batch of a caller whose `slot.pop()` was interrupted by Ctrl-C: it is in nobody's hand.

        CPython handles a signal behind a call, and a pop that fails raises IndexError, so this pop has succeeded.
        """
        for queue in self.partitions.queues():
            if queue.slot is slot and queue.open is not None and not slot:
                slot.append(queue.open)

    def _mend(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Mends the batch of a caller that was interrupted with it in hand, by Ctrl-C above all."""
        if queue.open is batch:
            batch.mend()
        elif batch.encoded is None and not batch.done:  # closed already: nobody else would encode it
            self.encode(batch)

    def _make_room(
        self, queue: PartitionQueue, batch: ProducerBatch, size_bytes: int, now_ms: int
    ) -> NotAppended | None:
        """Grants the batch in hand more memory; else lets it go where it is empty (no memory), or closes it (full)."""
        left = queue.limit_bytes - batch.used_bytes
        if size_bytes > left and batch.values:
            self._close(queue, batch)
            self.encode(batch)
            return NotAppended.BATCH_CLOSED
        needed = size_bytes - batch.room
        wanted = max(needed, min(GRANT_BYTES, left) - batch.room)
        if not self._take(queue, batch, wanted, now_ms, must=False):
            wanted = needed
            if not self._take(queue, batch, needed, now_ms, must=True):
                if not batch.values:
                    queue.open = None
                return NotAppended.NO_MEMORY
        batch.room += wanted
        return None

    def _take(self, queue: PartitionQueue, batch: ProducerBatch, size_bytes: int, now_ms: int, *, must: bool) -> bool:
        return self.share.allows(queue, size_bytes, now_ms) and self.memory.try_take(batch, size_bytes, must=must)

    def take_bulk(self, queue: PartitionQueue, batch: ProducerBatch, size_bytes: int) -> bool:
        """Memory for a batch that was made elsewhere."""
        return self._take(queue, batch, size_bytes, batch.created_ms, must=True)

    def append_bulk(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Queues a batch that is complete and encoded already, behind whatever the partition has open."""
        with self._opening:
            self._check_open()
            queue = self.partitions.current(queue)
            queue.used_ms = batch.created_ms
            while queue.open is not None:
                try:
                    ahead = queue.slot.pop()
                except IndexError:
                    self._threads.pause(YIELD_SECONDS)
                    continue
                except BaseException:
                    self.put_back(queue.slot)
                    raise
                try:
                    self._close(queue, ahead)
                    self.encode(ahead)
                except BaseException:
                    self._mend(queue, ahead)
                    raise
                finally:
                    if queue.open is ahead:
                        queue.slot.append(ahead)
            self._active[queue] = None
            queue.ready += (batch,)  # no call, so no signal behind it that could leave it where nobody looks

    def _check_open(self) -> None:
        """Checks again for a caller that was let in before the close, and has waited since for memory or a topic.
        Called with the lock: a record that passes this check before its transaction is ended is in an open batch once
        `barrier` returns."""
        if self._closed:
            raise ClientClosedError("this producer was closed before it took the record; make a new one")
        if self._transaction is not None:
            self._transaction.must_take_records()

    def barrier(self) -> None:
        """Every batch whose opening was allowed before this is open from now on."""
        with self._opening:
            return

    # -- closing: the thread that has the batch in hand ----------------------------------------------------------------

    def _close(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        batch.close()
        # BEFORE the next may be opened: the order of batches is the order of sends. No call, so no signal in between.
        queue.ready += (batch,)
        queue.open = None

    def encode(self, batch: ProducerBatch) -> None:
        """Makes the bytes of a closed batch; a batch that cannot be made fails now, alone."""
        try:
            batch.encode(self.config.codec)
        except Exception as error:  # left as it is, it would hold up its partition, and every flush, for ever
            message = f"{batch.topic_partition}: the batch of {batch.record_count} records cannot be made: {error!r}"
            self.memory.give_back(batch)
            failure = error if isinstance(error, PenstockError) else InvalidRecordError(message)
            if self._transaction is not None:
                self._transaction.on_failed(failure)
            batch.fail(failure)

    @contextlib.contextmanager
    def flush(self) -> Iterator[None]:
        """Makes every open batch due, while the context lasts."""
        this = object()  # in a set: Ctrl-C between a step and its undoing leaves no count that is never undone
        try:
            self._flushing.add(this)
            yield
        finally:
            self._flushing.discard(this)

    def close_due(self, now_ms: int) -> int | None:
        """Closes every batch whose time has come; returns when to look again (None: not before another send).

        A batch is due when it is `linger_ms` old, at a flush, or when memory is short; but while the partition has
        something on its way, it may as well grow (`PartitionQueue.closes_at_ms`). Called by the sender's thread.
        """
        hurry = bool(self._flushing) or self.memory.is_short
        next_ms: int | None = None
        for queue in self.partitions.queues():
            batch = queue.open
            if batch is None and not queue.waiting:
                self.partitions.retire(queue)
            if batch is None:
                continue
            due_ms = queue.closes_at_ms(now_ms if hurry else batch.created_ms + self.config.linger_ms, now_ms)
            if due_ms is None:
                continue
            if due_ms > now_ms:
                next_ms = due_ms if next_ms is None else min(next_ms, due_ms)
                continue
            try:
                batch = queue.slot.pop()
            except IndexError:  # a caller has it in hand, or opened it this moment
                next_ms = now_ms + 1
                continue
            self._close(queue, batch)
            self.encode(batch)
        return next_ms

    def close_all(self) -> None:
        """Closes every open batch, due or not: nothing more will be taken or sent."""
        with self._opening:
            self._closed = True
        for queue in self.partitions.queues():
            while queue.open is not None:
                try:
                    batch = queue.slot.pop()
                except IndexError:
                    self._threads.pause(YIELD_SECONDS)
                    continue
                self._close(queue, batch)
                self.encode(batch)

    def __repr__(self) -> str:
        return f"Accumulator({self.partitions!r}, {self.memory!r})"
