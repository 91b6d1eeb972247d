"""The partitions that one producer writes to: a queue each, found by partition, by key, or as the topic's sticky one.

    sticky, keyed    slots of open batches by topic: send finds them by itself, without a call (producer.py)
    active           the queues that have a batch: a cycle of the sender looks at these alone
    forgotten        a topic that nobody uses any more; its queues take nothing from then on, and a new one remembers
                     which epochs of a producer id were used

`opening` is held while a batch is opened, and while a queue is forgotten or leaves `active`: so a batch never is where
nobody looks. Not here: what is appended and closed (accumulator.py), and sent (sending/).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.partitioner import StickyChooser
from penstock.client.producer.sequences import PartitionSequences
from penstock.client.producer.transactions.open_transaction import OpenTransaction
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import HEADER_BYTES
from penstock.record.codecs import Codec
from penstock.threads import Lock
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class AccumulatorConfig:
    """The limits of batches."""

    batch_size: int
    linger_ms: int
    codec: Codec
    idempotent_in_flight_max: int = 0
    """How many batches of a partition may be with its broker at a time; 0: the producer is not idempotent, so one."""


class PartitionQueues:
    """The queues of all partitions."""

    def __init__(self, config: AccumulatorConfig, opening: Lock, transaction: OpenTransaction | None = None) -> None:
        self._config, self.opening, self._transaction = config, opening, transaction
        self.sticky: dict[str, deque[ProducerBatch]] = {}
        """Topic to the slot where records without a key go now; read by the fast path of send."""
        self.keyed: dict[str, tuple[deque[ProducerBatch], ...]] = {}
        """Topic to its partitions' slots, for records with a key; read by send too. Empty with a user's partitioner."""
        self.active: dict[PartitionQueue, None] = {}
        """The queues that have a batch. A thread that opens a batch adds its queue here, with the lock."""
        self._sticky_queues: dict[str, PartitionQueue] = {}
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._used_epochs: dict[int, int] = {}  # by producer id, the highest of a partition that was forgotten
        self._chooser = StickyChooser()

    def queue(self, tp: TopicPartition, max_batch_bytes: int | None = None) -> PartitionQueue:
        """The queue of a partition; `max_batch_bytes` is the topic's own limit of a batch."""
        found = self._queues.get(tp)
        if found is None:
            limit = min(self._config.batch_size, max_batch_bytes or self._config.batch_size)
            in_flight_max = self._config.idempotent_in_flight_max
            numbered = PartitionSequences(
                in_flight_max, self._used_epochs, is_transactional=self._transaction is not None
            )
            sequences = numbered if in_flight_max else None
            found = self._queues.setdefault(tp, PartitionQueue(tp, max(limit - HEADER_BYTES, 1), sequences))
        return found

    def queues(self) -> tuple[PartitionQueue, ...]:
        """Every partition that has a batch: with a thousand idle ones, a cycle of the sender must not look at each."""
        return tuple(self.active)

    def retire(self, queue: PartitionQueue) -> None:
        """Takes an idle partition out of `queues`. It stays while a batch may be being opened, because a flush by the
        caller that opens it must find it. The sender does not wait for the lock; its next cycle tries again."""
        if self.opening.acquire(blocking=False):
            try:
                if not queue.waiting:
                    self.active.pop(queue, None)
            finally:
                self.opening.release()

    def sticky_queue(self, topic: str, partitions: Sequence[int], max_batch_bytes: int | None) -> PartitionQueue:
        """The queue that a record without a key goes to: of the partition that has the topic's open batch, else of a
        new one."""
        found = self._sticky_queues.get(topic)
        if found is None or found.open is None:
            found = self.choose_queue(topic, partitions, max_batch_bytes)
            self._sticky_queues[topic] = found
            self.sticky[topic] = found.slot
        return found

    def keyed_slots(self, topic: str, partition_count: int, max_batch_bytes: int | None) -> None:
        """Lets send find the partitions' slots by itself."""
        queues = (self.queue(TopicPartition(topic, p), max_batch_bytes) for p in range(partition_count))
        self.keyed[topic] = tuple(queue.slot for queue in queues)

    def choose_queue(self, topic: str, partitions: Sequence[int], max_batch_bytes: int | None) -> PartitionQueue:
        """The least busy of `partitions`."""

        def waiting(partition: int) -> int:
            return self.queue(TopicPartition(topic, partition), max_batch_bytes).waiting

        partition = self._chooser.choose(partitions, waiting)
        return self.queue(TopicPartition(topic, partition), max_batch_bytes)

    def current(self, queue: PartitionQueue) -> PartitionQueue:
        """The queue, or a new one if it was forgotten. Called with the lock: nobody forgets it before something is in
        it."""
        if not queue.is_forgotten:
            return queue
        return self.queue(queue.topic_partition, queue.limit_bytes + HEADER_BYTES)

    @property
    def has_ready(self) -> bool:
        """True if a closed batch waits to be sent."""
        return any(queue.ready for queue in self.queues())

    @property
    def is_idle(self) -> bool:
        """True if no partition has a batch, open or not."""
        return not any(queue.waiting for queue in self.queues())

    def unfinished(self) -> list[ProducerBatch]:
        """Every batch with records that are not acked and have not failed, at this moment; on the sender's thread.
        Elsewhere a batch that moves, or is answered at this moment, would be in none of its places.

        An open batch without records is not waited for: its caller drops it where there is no memory."""
        found: dict[int, ProducerBatch] = {}
        for queue in self.queues():
            for batch in (*queue.in_flight, queue.open, *tuple(queue.ready)):
                if batch is not None and not batch.done and (batch.values or batch.record_count):
                    found[id(batch)] = batch
        return list(found.values())

    # -- forgetting: the sender's thread (`TopicUser`) -----------------------------------------------------------------

    def topics_in_use(self, since_ms: int) -> set[str]:
        """Topics with a batch that waits, or one that was begun since then."""
        return {
            tp.topic
            for tp, queue in tuple(self._queues.items())
            if queue.waiting or queue.used_ms >= since_ms or self._is_of_transaction(queue)
        }

    def _is_of_transaction(self, queue: PartitionQueue) -> bool:
        """The partition's sequences go on within the open transaction."""
        sequences, transaction = queue.sequences, self._transaction
        return transaction is not None and sequences is not None and sequences.identity == transaction.identity

    def forget_topic(self, topic: str) -> None:
        """Drops what the topic's partitions keep, but for those that got something to send at this moment."""
        with self.opening:
            for tp, queue in tuple(self._queues.items()):
                if tp.topic != topic or queue.waiting:
                    continue
                queue.is_forgotten = True
                del self._queues[tp]
                self.active.pop(queue, None)
                identity = queue.sequences.identity if queue.sequences is not None else None
                if identity is not None:
                    used = self._used_epochs.get(identity.producer_id, 0)
                    self._used_epochs[identity.producer_id] = max(used, identity.epoch)
            for by_topic in (self.sticky, self.keyed, self._sticky_queues):
                by_topic.pop(topic, None)

    def __repr__(self) -> str:
        return f"PartitionQueues({len(self._queues)} partitions, {len(self.active)} active)"
