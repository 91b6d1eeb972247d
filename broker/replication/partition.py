"""One partition on this broker: its log, its role, its high watermark, and the requests that wait for it.

It is leader or follower or neither, as the metadata says; the role changes only in `become_leader`, `become_follower`
and `stop`. A leader appends, serves reads and counts acknowledgements, and refuses a sender that knows another leader
epoch (KIP-320); what only a follower does to its log is in `follower/follower_log.py`. The partition calls its log
directly and never waits: group_commit.py flushes, alter_partition.py sends ISR proposals, and waiting requests are
callbacks in `OffsetWaiters`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.replication.leader.leader_state import LeaderState, ProposedIsr
from broker.replication.leader.partition_watcher import PartitionWatcher
from broker.replication.leader.purgatory import LowWatermarkWaiters, OffsetWaiters
from broker.replication.leader.transaction_guards import TransactionGuards
from broker.replication.partition_reads import check_range, read_batches, readable_end, stable_end
from metadata.registrations import PartitionRegistration
from penstock.errors import (
    ApiError,
    CorruptFileError,
    FencedLeaderEpochError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    UnknownLeaderEpochError,
)
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import Buffer
from penstock.types import NO_EPOCH, NO_LEADER, NO_OFFSET, LeaderHint, TopicPartition
from storage.append.append_info import AppendInfo
from storage.append.append_origin import COORDINATOR, PRODUCER, AppendOrigin
from storage.disk.disk_errors import is_shortage
from storage.log.later_read import LaterRead
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.log_config import FlushPolicy, LogConfig

GAPS_MS: Final = 2_000
"""So long after an append was refused here, or this broker began to lead, a gap in a producer's sequence may be of a
batch that was refused while the next ones were on their way. Their producer shall send all again, in order: told of a
gap, librdkafka begins a new producer epoch, and what it sends anew under that may be in the log already."""


@dataclass(frozen=True, slots=True)
class PartitionReports:
    """The callbacks for the events of a partition; one value for all partitions of a broker."""

    follower_fetched: Callable[[Partition, int], None] = lambda partition, replica_id: None
    """A replica's fetch acknowledged what it has: it may join the ISR."""
    disk_error: Callable[[Partition, Exception], None] = lambda partition, error: None
    """A read, an append or a truncation of the log failed."""
    append_refused: Callable[[Partition], None] = lambda partition: None
    """A full disk, or a lack of descriptors, refused an append."""
    lead_changed: Callable[[Partition, LeaderState | None], None] = lambda partition, ended: None
    """It leads in a new epoch, or leads no longer; with the state of the lead that has ended."""


NO_REPORTS = PartitionReports()


class Partition:
    """One partition on this broker. All methods are called on the event loop."""

    def __init__(
        self,
        broker_id: int,
        partition_log: Log,
        high_watermark: int,
        min_insync_replicas: int,
        reports: PartitionReports = NO_REPORTS,
    ) -> None:
        self.broker_id = broker_id
        self.log = partition_log
        self.topic_partition: TopicPartition = partition_log.topic_partition
        number = self.topic_partition.partition
        self.topic_id = partition_log.topic_id
        self.high_watermark = min(max(high_watermark, partition_log.log_start_offset), partition_log.log_end_offset)
        self.min_insync_replicas = min_insync_replicas
        self.state = PartitionRegistration(self.topic_id, number, (), (), NO_LEADER, NO_EPOCH, NO_EPOCH)
        self.leading: LeaderState | None = None
        self._gaps_until_ms = 0
        """The time until which a gap in a producer's sequence is no error of the producer's."""
        self._offline: ApiError | None = None
        self.leader_hint = LeaderHint(NO_LEADER, NO_EPOCH, topic_id=self.topic_id)
        self.watchers: dict[PartitionWatcher, None] = {}
        self.reports = reports
        self.acks_all, self.acks_one = OffsetWaiters(), OffsetWaiters()
        self.deletions = LowWatermarkWaiters()
        self.guards = TransactionGuards()

    def configure(self, log_config: LogConfig, flush_policy: FlushPolicy, min_insync_replicas: int) -> None:
        """The settings of its topic, from now on."""
        self.min_insync_replicas = min_insync_replicas
        if (self.log.config, self.log.settings.flush_policy) != (log_config, flush_policy):
            self.log.update_config(log_config, flush_policy)

    # -- roles ---------------------------------------------------------------------------------------------------------

    def become_leader(self, state: PartitionRegistration, now_ms: int) -> bool:
        """Lead in `state.leader_epoch`; True when that epoch is new here. The epoch is recorded BEFORE any append."""
        self.state, is_new = state, self.leading is None or state.leader_epoch > self.leading.leader_epoch
        if self.leading is None or is_new:
            end = self.log.log_end_offset
            self.log.assign_epoch(state.leader_epoch, end)
            self._lead(LeaderState.begin(self.broker_id, state, end, now_ms))
            if end:  # else no producer is known that could leave a gap
                self._gaps_until_ms = now_ms + GAPS_MS
        else:
            self.leading.metadata_changed(state, now_ms)
        self._after_isr_change()
        self._notify(wake_replicas=is_new, wake_others=is_new)
        return is_new

    def become_follower(self, state: PartitionRegistration, hint: LeaderHint) -> bool:
        """Follow (or wait for a leader); True when the leader epoch is new here. Nothing is truncated yet: the first
        fetch from the new leader compares epochs and decides that (KIP-101)."""
        is_new = state.leader_epoch > self.state.leader_epoch or self.leading is not None
        left_isr = self.broker_id in self.state.isr and self.broker_id not in state.isr
        self.state, self.leader_hint = state, hint
        self._lead(None)
        if is_new:
            self._fail_waiters(self.not_leader())
        if is_new or left_isr:
            self._notify(wake_replicas=True, wake_others=True)
        return is_new

    def stop(self, error: ApiError) -> None:
        """This broker no longer hosts the partition, or its disk failed: every waiting request gets `error`."""
        self._offline = error
        self._lead(None)
        self._notify(wake_replicas=True, wake_others=True)
        self._fail_waiters(error)

    def _lead(self, leading: LeaderState | None) -> None:
        ended, self.leading = self.leading, leading
        if ended is not leading:
            self.guards.end_all()
            self.reports.lead_changed(self, ended)

    @property
    def offline(self) -> ApiError | None:
        """The error that a request gets, if the partition takes none now: it has stopped, or it is held."""
        return self._offline

    def hold(self, why: ApiError) -> None:
        """Take no request until `release`: each gets `why`. What waits for an ack goes on waiting."""
        self._offline = why

    def release(self) -> None:
        """Take requests again, in the role that the partition has; what its log has flushed meanwhile is acked."""
        self._offline = None
        self.flushed(self.log.flushed_offset)

    def not_leader(self) -> NotLeaderOrFollowerError:
        return NotLeaderOrFollowerError(
            f"broker {self.broker_id} does not lead {self.topic_partition}", leader=self.leader_hint
        )

    def leader_state(self, current_leader_epoch: int = NO_EPOCH) -> LeaderState:
        """The leader's state; raises the typed error that a request of this epoch gets otherwise (KIP-320)."""
        if self._offline is not None:
            # One error object is raised for many requests: it must not keep the frames, and so the records, of each.
            raise self._offline.with_traceback(None)
        if current_leader_epoch != NO_EPOCH:
            check_leader_epoch(self.topic_partition, self.state, current_leader_epoch)
        if self.leading is None:
            raise self.not_leader()
        return self.leading

    def must_be_in_sync(self, current_leader_epoch: int) -> None:
        """Raises the typed error of a consumer that may not read here, where this broker follows (KIP-392)."""
        if self._offline is not None:
            raise self._offline.with_traceback(None)
        if current_leader_epoch != NO_EPOCH:
            check_leader_epoch(self.topic_partition, self.state, current_leader_epoch)
        if self.broker_id not in self.state.isr:
            raise self.not_leader()

    # -- produce -------------------------------------------------------------------------------------------------------

    def append_as_leader(
        self, records: Buffer, acks: int, now_ms: int, wall_ms: int, origin: AppendOrigin = PRODUCER
    ) -> AppendInfo:
        """Append to the page cache. With acks=all and too small an ISR, it is refused BEFORE a byte is written."""
        leading = self._may_append(acks, now_ms)
        end_before = self.log.log_end_offset
        try:
            info = self.log.append.as_leader(records, leading.leader_epoch, wall_ms, origin)
        except OutOfOrderSequenceError as gap:
            if now_ms < self._gaps_until_ms:
                raise self._one_before_was_refused(gap) from gap
            raise
        except KafkaStorageError as error:
            if is_shortage(error):
                self.reports.append_refused(self)
            self.reports.disk_error(self, error)
            raise
        except CorruptFileError as damage:  # the first append to an idle log loads its indexes
            self.reports.disk_error(self, damage)
            raise KafkaStorageError(f"{self.topic_partition}: appending failed: {damage}") from damage
        if origin is COORDINATOR:
            self.guards.appended(records)
        if not info.is_duplicate:
            leading.note_append(end_before, now_ms)
            for watcher in tuple(self.watchers):
                if watcher.is_replica:
                    watcher.partition_changed(self.topic_partition, True)
        return info

    def _may_append(self, acks: int, now_ms: int) -> LeaderState:
        try:
            leading = self.leader_state()
            self.must_have_enough(leading, acks)
        except ApiError:
            self._gaps_until_ms = now_ms + GAPS_MS
            raise
        return leading

    def _one_before_was_refused(self, gap: OutOfOrderSequenceError) -> NotLeaderOrFollowerError:
        return NotLeaderOrFollowerError(
            f"{self.topic_partition}: {gap}; a batch before it may have been refused a moment ago, so send both again"
        )

    def must_have_enough(self, leading: LeaderState, acks: int) -> None:
        """NotEnoughReplicasError if nothing may be appended with these acks."""
        if acks == -1 and not leading.may_commit(self.min_insync_replicas):
            why = leading.too_few_in_sync(self.min_insync_replicas)
            raise NotEnoughReplicasError(f"{self.topic_partition} {why}; nothing was written")

    def flushed(self, _offset: int) -> None:
        """The log's flushed offset rose: acks=1 requests below it are answered, and the leader's copy counts to it."""
        self.acks_one.reached(self.log.flushed_offset)
        self.maybe_advance_high_watermark()

    def maybe_advance_high_watermark(self) -> bool:
        """Invariant I7: the high watermark never falls, and is never above what the maximal ISR holds durably."""
        if self.leading is None:
            return False
        offset = self.leading.committed_offset(self.log.flushed_offset, self.min_insync_replicas)
        if offset is None or offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.acks_all.reached(offset)
        self._notify(wake_replicas=self.leading.has_readers_elsewhere, wake_others=True)
        return True

    def follower_high_watermark(self, leader_high_watermark: int) -> None:
        """Raise it to the leader's, but not above this log's end: consumers here may read up to it."""
        before = self.high_watermark
        self.high_watermark = max(before, min(leader_high_watermark, self.log.log_end_offset))
        if self.high_watermark > before:
            self._notify(wake_replicas=False, wake_others=True)

    # -- fetch ---------------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """No transaction that begins below it is undecided."""
        return stable_end(self.log, self.high_watermark)

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        is_replica: bool,
        read_committed: bool = False,
        later: LaterRead | None = None,
        min_one_batch: bool = True,
    ) -> Records | LaterRead:
        """Whole batches from `fetch_offset`, as far as the fetcher may read. See partition_reads.py for that, for
        `later`, and for what is returned instead of records."""
        bound = readable_end(self.log, self.high_watermark, is_replica=is_replica, read_committed=read_committed)
        check_range(self.log, fetch_offset, bound)
        try:
            return read_batches(self.log, fetch_offset, max_bytes, bound, later, min_one_batch=min_one_batch)
        except (OSError, CorruptFileError, KafkaStorageError) as error:
            self.reports.disk_error(self, error)
            raise KafkaStorageError(f"{self.topic_partition}: reading failed: {error}") from error

    # -- deletion ------------------------------------------------------------------------------------------------------

    def log_start_moved(self) -> None:
        """A deletion or retention has moved the log start: waiting fetches of followers are answered at once."""
        self._notify(wake_replicas=True, wake_others=False)
        self.check_low_watermark()

    def check_low_watermark(self) -> None:
        """Answer the deletions that it has reached: a log start, the ISR or the set of live replicas has changed."""
        if len(self.deletions):
            self.deletions.reached(self.low_watermark())

    def low_watermark(self) -> int:
        """See LeaderState; -1 where this broker does not lead."""
        return self.leading.low_watermark(self.log.log_start_offset) if self.leading is not None else NO_OFFSET

    # -- ISR -----------------------------------------------------------------------------------------------------------

    def isr_committed(
        self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, elr: tuple[int, ...] = ()
    ) -> None:
        """The controller accepted a proposal; the metadata log will bring the same ISR later."""
        if self.leading is not None and self.leading.leader_epoch == leader_epoch:
            self.leading.commit_isr(isr, partition_epoch, elr)
            self._after_isr_change()

    def isr_rejected(self, proposed: ProposedIsr) -> None:
        """The controller refused the proposal for good: its partition epoch is over, so it never will be committed."""
        if self.leading is not None:
            self.leading.reject_proposal(proposed)
            self.maybe_advance_high_watermark()

    def _after_isr_change(self) -> None:
        leading = self.leading
        if leading is None:
            return
        self.maybe_advance_high_watermark()
        self.check_low_watermark()
        if not leading.may_commit(self.min_insync_replicas) and len(self.acks_all):
            why = f"{leading.too_few_in_sync(self.min_insync_replicas)}; the records are written but not acked"
            self.acks_all.fail_all(NotEnoughReplicasAfterAppendError(f"{self.topic_partition} {why}"))

    # -- views ---------------------------------------------------------------------------------------------------------

    def _fail_waiters(self, error: ApiError) -> None:
        self.acks_all.fail_all(error)
        self.acks_one.fail_all(error)
        self.deletions.fail_all(error)

    def _notify(self, *, wake_replicas: bool, wake_others: bool) -> None:
        for watcher in tuple(self.watchers):
            watcher.partition_changed(self.topic_partition, wake_replicas if watcher.is_replica else wake_others)

    def __repr__(self) -> str:
        role = "leader" if self.leading else "offline" if self._offline else "follower"
        at = f"epoch {self.state.leader_epoch}, hw {self.high_watermark}, end {self.log.log_end_offset}"
        return f"Partition({self.topic_partition}, {role}, {at})"


def check_leader_epoch(partition: TopicPartition, state: PartitionRegistration, current_leader_epoch: int) -> None:
    """The sender's epoch must be that of `state`: an older one hears of the leader, a newer one asks again."""
    known = state.leader_epoch
    if current_leader_epoch < known:
        raise FencedLeaderEpochError(
            f"{partition}: leader epoch {current_leader_epoch} is older than {known}",
            leader=LeaderHint(state.leader_id, known, topic_id=state.topic_id),
        )
    if current_leader_epoch > known:
        raise UnknownLeaderEpochError(
            f"{partition}: leader epoch {current_leader_epoch} is newer than {known} of this broker"
        )
