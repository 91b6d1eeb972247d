"""The log of a led partition, as its shard writes to it: appends, markers, and why nothing may be written now.

What is appended here is the only writing of this lead. Not here: decisions and answers (led_shard.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordination.commit_barrier import CommitBarrier
from broker.coordination.log_errors import not_appended
from broker.coordination.record_log import TransactionalRecord, TxnProducer, Written
from broker.coordination.shard_ports import ShardPorts
from broker.coordination.tick_batches import TickLimits, tick_batches
from broker.replication.hosting.role_news import Lead
from broker.replication.leader.leader_appends import ACKS_ALL
from penstock.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    NotCoordinatorError,
)
from penstock.record.batch import Buffer
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR
from storage.append.producer_rules import BUMPING_VERSION
from storage.disk.disk_errors import is_disk_full

SHORT_MS, SHORT_MS_MAX = 1_000, 10_000
"""The time in which writes are refused without another attempt after a full disk has refused an append; twice as long
each time. An attempt throws the shard's state away, and requests that only read are not answered until it is loaded
again."""


class ShardLog:
    """The log of a shard from the begin of a lead to its end, on the event loop."""

    def __init__(self, lead: Lead, ports: ShardPorts) -> None:
        self._lead, self._ports, self._partition = lead, ports, lead.partition
        self.barrier = CommitBarrier(lead.partition, ports.clock, ports.commit_timeout_ms, self.deposed)
        self._epochs: dict[int, int] = {}
        """The epochs of producers whose records wait for the tick, by their ids."""
        self._shortage: KafkaStorageError | None = None
        self._short_ms = self._short_until_ms = 0

    @property
    def is_led(self) -> bool:
        """The partition is led, and in the epoch of this lead: in between, others may have written to it."""
        leading = self._partition.leading
        return leading is not None and leading.leader_epoch == self._lead.leader_epoch

    def refusal(self) -> ApiError | None:
        """The error for which nothing may be written now; None if the log may be written."""
        leading, partition = self._partition.leading, self._partition
        if (deposed := self.deposed()) is not None:
            return deposed
        if partition.offline is not None:
            return not_appended(partition.offline)
        if self._shortage is not None and self._ports.clock.now_ms() < self._short_until_ms:
            return CoordinatorNotAvailableError(str(self._shortage))
        if leading is None or leading.may_commit(partition.min_insync_replicas):
            return None
        key, why = partition.topic_partition, leading.too_few_in_sync(partition.min_insync_replicas)
        return CoordinatorNotAvailableError(f"{key} {why}")

    def deposed(self) -> ApiError | None:
        """The error for which nothing that is known here may be told: another broker may lead by now, and have changed
        it."""
        if self._ports.may_answer():
            return None
        return NotCoordinatorError(
            f"broker {self._partition.broker_id} has not heard from the controller for a session, so another broker may"
            f" lead {self._partition.topic_partition}; ask for the coordinator again, of another broker"
        )

    @property
    def is_short(self) -> bool:
        """The last append found no room."""
        return self._shortage is not None

    def must_take(self, producer: TxnProducer) -> None:
        """Raises if the log would take no record of this producer's transaction behind those that wait for the tick."""
        epoch = self._epochs.get(producer.producer_id)
        if epoch is None:
            self._partition.log.producers.must_take_unnumbered(producer.producer_id, producer.producer_epoch)
        elif producer.producer_epoch < epoch:
            raise InvalidProducerEpochError(f"{producer}: epoch {epoch} has begun")
        elif producer.producer_epoch > epoch:
            raise InvalidTxnStateError(f"{producer}: its transaction of epoch {epoch} is open")

    def waits(self, records: Sequence[Written]) -> None:
        """A turn has written them, and the tick will append them."""
        for one in records:
            if isinstance(one, TransactionalRecord):
                self._epochs[one.producer.producer_id] = one.producer.producer_epoch

    def nothing_waits(self) -> None:
        """All that waited for the tick is given up."""
        self._epochs.clear()

    def is_open(self, producer: TxnProducer) -> bool:
        """True if the producer has an open transaction of this epoch here."""
        return self._epochs.get(producer.producer_id) == producer.producer_epoch or (
            self._partition.log.transactions.is_open(producer.producer_id, producer.producer_epoch)
        )

    def append(self, turns: Sequence[Sequence[Written]]) -> None:
        """Append all that waits. If it raises, a part of it may be in the log."""
        self._epochs.clear()
        config, ports = self._partition.log.config, self._ports
        limits = TickLimits(config.max_message_bytes, config.segment_bytes, ports.codec)
        for records in tick_batches(turns, ports.make_encode(), ports.clock.wall_ms(), limits):
            self._append(records)

    def append_marker(self, marker: Marker, transaction_version: int) -> bool:
        """Append a marker. False: the log does not need it. Raises if the log refuses it; nothing was written then.
        Everything that was decided before must be in the log."""
        partition = self._partition
        there = partition.log.transactions.answer_marker(marker, transaction_version)
        if there is None:
            self._append(build_marker(marker, self._ports.clock.wall_ms()))
        if transaction_version < BUMPING_VERSION:
            partition.guards.marked(marker.producer_id)  # also of a transaction that wrote nothing here
        return there is None

    def _append(self, records: Buffer) -> None:
        try:
            info = self._ports.logs.append(self._partition, records, ACKS_ALL, COORDINATOR)
        except KafkaStorageError as error:
            if is_disk_full(error):
                self._short_ms = min(2 * self._short_ms, SHORT_MS_MAX) or SHORT_MS
                self._short_until_ms = self._ports.clock.now_ms() + self._short_ms
                self._shortage = error.with_traceback(None)
            raise
        self._shortage, self._short_ms = None, 0
        self.barrier.appended(info.last_offset + 1)
        self._ports.logs.when_acked(self._partition, info, ACKS_ALL, _nobody)

    def __repr__(self) -> str:
        return f"ShardLog({self._partition.topic_partition}, epoch {self._lead.leader_epoch})"


def _nobody(error: ApiError | None) -> None:
    """The barrier hears of the commit."""
