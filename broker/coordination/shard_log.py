"""The log of a led partition, as its shard writes to it: appends, markers, and why nothing may be written now.

What is appended here is the only writing of this lead. Not here: decisions and answers (led_shard.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.coordination.commit_barrier import CommitBarrier
from broker.coordination.log_errors import not_appended
from broker.coordination.record_log import TransactionalRecord, Written
from broker.coordination.shard_ports import ShardPorts
from broker.coordination.tick_batches import TickLimits, tick_batches
from broker.replication.hosting.role_news import Lead
from broker.replication.leader.leader_appends import ACKS_ALL
from penstock.errors import ApiError, CoordinatorNotAvailableError
from penstock.record.batch import NO_PRODUCER_EPOCH, Buffer
from penstock.record.markers import Marker, build_marker
from storage.append.append_origin import COORDINATOR


class ShardLog:
    """From the begin of a lead to its end, on the event loop."""

    def __init__(self, lead: Lead, ports: ShardPorts) -> None:
        self._lead, self._ports, self._partition = lead, ports, lead.partition
        self.barrier = CommitBarrier(lead.partition, ports.clock, ports.commit_timeout_ms)
        self._epochs: dict[int, int] = {}
        """The epochs of producers whose records wait for the tick, by their ids."""

    @property
    def is_led(self) -> bool:
        """The partition is led, and in the epoch of this lead: in between, others may have written to it."""
        leading = self._partition.leading
        return leading is not None and leading.leader_epoch == self._lead.leader_epoch

    def refusal(self) -> ApiError | None:
        """Why nothing may be written now; None if it may."""
        leading, partition = self._partition.leading, self._partition
        if partition.offline is not None:
            return not_appended(partition.offline)
        if leading is None or leading.may_commit(partition.min_insync_replicas):
            return None
        key, why = partition.topic_partition, leading.too_few_in_sync(partition.min_insync_replicas)
        return CoordinatorNotAvailableError(f"{key} {why}")

    def epoch_of(self, producer_id: int) -> int:
        """Its newest epoch, also of records that wait for the tick; -1 if it is not known."""
        known = self._partition.log.producers.known_now().get(producer_id)
        return max(
            self._epochs.get(producer_id, NO_PRODUCER_EPOCH), NO_PRODUCER_EPOCH if known is None else known.epoch
        )

    def waits(self, records: Sequence[Written]) -> None:
        """A turn has written them, and the tick will append them."""
        for one in records:
            if isinstance(one, TransactionalRecord):
                self._epochs[one.producer.producer_id] = one.producer.producer_epoch

    def append(self, turns: Sequence[Sequence[Written]]) -> None:
        """Append all that waits. If it raises, a part of it may be in the log."""
        self._epochs.clear()
        config, ports = self._partition.log.config, self._ports
        limits = TickLimits(config.max_message_bytes, config.segment_bytes, ports.codec)
        for records in tick_batches(turns, ports.make_encode(), ports.clock.wall_ms(), limits):
            self._append(records)

    def append_marker(self, marker: Marker) -> bool:
        """Append a marker. False: it is in the log already. Raises if the log refuses it; nothing was written then."""
        return self._append(build_marker(marker, self._ports.clock.wall_ms()))

    def _append(self, records: Buffer) -> bool:
        info = self._ports.logs.append(self._partition, records, ACKS_ALL, COORDINATOR)
        self.barrier.appended(info.last_offset + 1)
        self._ports.logs.when_acked(self._partition, info, ACKS_ALL, _nobody)
        return not info.is_duplicate

    def __repr__(self) -> str:
        return f"ShardLog({self._partition.topic_partition}, epoch {self._lead.leader_epoch})"


def _nobody(error: ApiError | None) -> None:
    """The barrier hears of the commit."""
