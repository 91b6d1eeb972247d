"""The partitions of this broker, and what happens to all of them: roles, lost replicas, ISR upkeep, checkpoints.

Told by the metadata (through `broker/quorum/metadata_publisher.py`) which partitions this broker hosts and in which
role; gives a leader's partitions to the request path and a follower's to the fetchers. The decisions about one
partition are in partition.py and leader_state.py; sending AlterPartition is alter_partition.py's; what a disk error
takes offline is disk_failures.py's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict

from broker.replication.assignment import Assignment, TopicSettings
from broker.replication.disk_failures import DiskFailures
from broker.replication.follower.fetcher_manager import FetcherManager
from broker.replication.hosting_slices import HostingSlices
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.leader.log_start_commit import LogStartCommit, Waiter
from broker.replication.log_deletions import LogDeletions
from broker.replication.lost_replicas import LostReplicas, Verdict, why_no_empty_log
from broker.replication.partition import Partition
from broker.replication.refused_appends import RefusedAppends
from broker.replication.replica_statistics import ReplicaManagerStatistics, Traffic, count_roles
from broker.replication.unknown_partition import unknown_partition
from metadata.registrations import PartitionRegistration
from penstock.clock import Clock
from penstock.errors import ApiError, CorruptFileError, KafkaStorageError, UnknownTopicOrPartitionError
from penstock.threads import Threads
from penstock.types import NO_EPOCH, NO_LEADER, LeaderHint, TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_table import LogId

_log = logging.getLogger(__name__)


class ReplicaManager:
    """See the module. One per node; all methods are called on the event loop."""

    def __init__(
        self,
        broker_id: int,
        log_manager: LogManager,
        group_commit: GroupCommit,
        clock: Clock,
        threads: Threads,
        lag_time_ms_max: int,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.broker_id = broker_id
        self.clock = clock
        self.fetchers: FetcherManager | None = None
        self.log_starts = LogStartCommit(
            log_manager.checkpoints.try_log_starts,
            threads.executor("log-starts", len(log_manager.checkpoints.log_dirs)),
        )
        self.on_storage_failure: Callable[[str, Exception], None] = lambda directory, error: None
        self.on_replica_lost: Callable[[], None] = lambda: None
        self.on_log_gone: Callable[[TopicPartition], None] = lambda key: None
        self.traffic = Traffic()
        self._log_manager = log_manager
        self._group_commit = group_commit
        self._partitions: dict[TopicPartition, Partition] = {}
        self._assignments: dict[TopicPartition, Assignment] = {}
        self._high_watermarks = log_manager.high_watermarks()
        self.lost = LostReplicas(broker_id)
        self.to_create = HostingSlices(self._create, clock.now_ms, on_fatal)
        self.deletions = LogDeletions(
            log_manager.removal, lambda key, is_new: self.to_create.submit(key, is_new=is_new), threads
        )
        self.refused = RefusedAppends(clock.now_ms)
        self.failures = DiskFailures(log_manager, self.lost, self.refused, self)
        self.isrs = IsrUpkeep(lambda: self.broker_epoch, lag_time_ms_max)
        for key, offline in log_manager.table.offline.items():
            self.lost.found(key.topic_partition, offline.error)
        self._retired_shrinks = self._retired_expands = 0

    @property
    def broker_epoch(self) -> int:
        """That of this broker's registration, as the controller answered it."""
        return self.lost.broker_epoch

    def registered(self, broker_epoch: int) -> None:
        """The controller has answered a registration."""
        self.lost.broker_epoch = broker_epoch
        self.revive_lost()

    def find(self, partition: TopicPartition) -> Partition | None:
        return self._partitions.get(partition)

    def get(self, partition: TopicPartition, topic_id: str) -> Partition:
        """The hosted partition of exactly that topic, or the typed error that a client may retry after new metadata.

        Every request that names a partition comes through here, a follower's too. A name alone is not enough: the topic
        may have been deleted and made anew, and this node, or the one that asks, may not have heard of it yet.
        """
        found = self._partitions.get(partition)
        if found is not None and found.topic_id == topic_id:
            return found
        assignment = self._assignments.get(partition)
        hosted_id = found.topic_id if found is not None else None
        assigned_id = assignment.topic_id if assignment is not None else None
        raise unknown_partition(self.broker_id, partition, topic_id, hosted_id=hosted_id, assigned_id=assigned_id)

    def partitions(self) -> Iterable[Partition]:
        return tuple(self._partitions.values())

    # -- roles ---------------------------------------------------------------------------------------------------------

    def apply(
        self,
        key: TopicPartition,
        topic_id: str,
        state: PartitionRegistration,
        settings: TopicSettings,
        hint: LeaderHint,
    ) -> None:
        """This broker hosts `key` now, in the role that `state` says; AFTER its log is there."""
        assignment = self._assignments[key] = Assignment(topic_id, state, settings, hint)
        if key in self.lost and not self._sets_logs_of_other_topics_aside(key, topic_id):
            self._revive(key)
            return
        partition = self._partitions.get(key)
        is_new = state.partition_epoch == 0
        if partition is not None:
            self._take_role(partition, assignment)
        elif self._log_manager.get(key, topic_id) is not None:
            self._create(key, is_new)
        else:
            self.to_create.submit(key, is_new=is_new)

    def _create(self, key: TopicPartition, is_new: bool) -> None:
        """Host a partition that was not, in the role that the newest word of the metadata says."""
        if self.deletions.postpones(key, is_new=is_new):
            return
        assignment = self._assignments[key]
        state = assignment.state
        if gone := self._log_gone(key, assignment):
            if key not in self.lost:
                self.lost.not_created(key, KafkaStorageError(gone), is_new=False)
            self._say(key, gone)
            return
        try:
            partition = self._host(key, assignment, is_new=is_new)
        except (ApiError, CorruptFileError, OSError) as error:
            self._not_created(key, state, error, is_new)
            return
        self.lost.forget(key)
        self._take_role(partition, assignment)

    def _not_created(self, key: TopicPartition, state: PartitionRegistration, error: Exception, is_new: bool) -> None:
        if key in self.lost:
            self._say(key, f"it cannot be hosted yet: {error}")
            return
        _log.error("%s cannot be hosted: %s", key, error)
        self.lost.not_created(key, error, is_new=is_new)
        if self.broker_id in state.isr:
            self.leave_isrs(state)

    def _log_gone(self, key: TopicPartition, assignment: Assignment) -> str:
        """Why no empty log may take the place of one that held records; "" when one may, or a log is there."""
        if self._log_manager.get(key, assignment.topic_id) is not None:
            return ""
        vanished = self._log_manager.table.vanished.get_as(key, assignment.topic_id)
        return why_no_empty_log(self.broker_id, assignment.state, vanished)

    def _sets_logs_of_other_topics_aside(self, key: TopicPartition, topic_id: str) -> bool:
        """A log that is offline is kept for its own topic; one that gets the name later does not wait for it."""
        partition, offline = self._partitions.get(key), self._log_manager.table.offline
        if partition is not None and partition.topic_id == topic_id:
            return False
        others = tuple(offline.named(key))
        if not others or offline.get_as(key, topic_id) is not None:
            return False
        for found in others:
            try:
                path = self._log_manager.removal.stray(key, found)
                _log.warning("%s: a log of topic id %s, which was deleted, stands aside as %s", key, found, path)
            except KafkaStorageError as error:
                _log.error("%s: a log of topic id %s, which was deleted, cannot be set aside: %s", key, found, error)
            self._high_watermarks.pop(LogId(key, found), None)
        if partition is not None:
            self._dismiss(partition)
        self.lost.forget(key)
        self.to_create.forget(key)
        return True

    def _host(self, key: TopicPartition, assignment: Assignment, *, is_new: bool) -> Partition:
        """A partition over the log that is there, or over a new one; raises what the log manager raises."""
        settings = assignment.settings
        partition_log = self._log_manager.get_or_create(key, assignment.topic_id, settings.log, is_new=is_new)
        partition = Partition(
            self.broker_id,
            partition_log,
            self._high_watermarks.pop(LogId(key, assignment.topic_id), 0),
            settings.min_insync_replicas,
        )
        partition.on_follower_fetch = self.isrs.maybe_expand
        partition.on_disk_error = self.failures.disk_error
        partition.on_append_refused = self.refused.refused
        self._partitions[key] = partition
        self._group_commit.subscribe(partition_log, partition.flushed)
        return partition

    def _take_role(self, partition: Partition, assignment: Assignment) -> None:
        _, state, settings, hint = assignment
        partition.log.flush_policy = settings.flush_policy
        if partition.log.config != settings.log:
            partition.log.update_config(settings.log)
        partition.min_insync_replicas = min(settings.min_insync_replicas, len(state.replicas))
        try:
            if state.leader_id == self.broker_id:
                self._lead(partition, state)
            else:
                self._follow(partition, state, hint)
        except (OSError, KafkaStorageError) as error:
            self.failures.partition_failed(partition, error)

    def _lead(self, partition: Partition, state: PartitionRegistration) -> None:
        self.stop_fetching(partition)
        if partition.become_leader(state, self.clock.now_ms()):
            _log.info("%s: leading", partition)
        if partition.log.flushed_offset < partition.log.log_end_offset:
            self.request_flush(partition)
        else:
            self._group_commit.flush_when_idle(partition.log)  # the epoch, and the log itself if it is new
        partition.maybe_advance_high_watermark()
        self.isrs.reconsider(partition)

    def _follow(self, partition: Partition, state: PartitionRegistration, hint: LeaderHint) -> None:
        if partition.leading is not None:
            self._retired_shrinks += partition.leading.isr_shrinks
            self._retired_expands += partition.leading.isr_expands
        is_new = partition.become_follower(state, hint)
        if is_new or (self.fetchers and not self.fetchers.follows(partition.topic_partition, state.leader_id)):
            self.stop_fetching(partition)
            if state.leader_id != NO_LEADER:
                self._fetch_when_durable(partition, state)
        elif partition.log.flushed_offset < partition.log.log_end_offset:
            self.request_flush(partition)  # its flush.policy may be fsync from now on

    def _fetch_when_durable(self, partition: Partition, state: PartitionRegistration) -> None:
        """Start fetching AFTER the log's tail is flushed: the first fetch acknowledges all of it."""
        if partition.state != state or partition.offline is not None or self.fetchers is None:
            return
        if partition.log.flushed_offset < partition.log.log_end_offset:
            partition.acks_one.add(
                partition.log.log_end_offset, lambda _error: self._fetch_when_durable(partition, state)
            )
            self.request_flush(partition)
            return
        self.fetchers.add(partition, state.leader_id, state.leader_epoch)

    def stop_fetching(self, partition: Partition) -> None:
        if self.fetchers is not None:
            self.fetchers.remove([partition.topic_partition])

    def remove(self, key: TopicPartition, topic_id: str) -> None:
        """A committed record says that this broker hosts the partition no longer: its data is deleted."""
        partition = self._partitions.get(key)
        if partition is not None and partition.log.topic_id != topic_id:
            return
        self._assignments.pop(key, None)
        self.to_create.forget(key)
        self.deletions.forget(key)
        if partition is None and self._log_manager.table.is_of_others(key, topic_id):
            return  # the log of another topic that had this name: no record says that it goes
        self.lost.forget(key)
        if partition is not None:
            partition.stop(UnknownTopicOrPartitionError(f"{key} was deleted"))
            self._dismiss(partition)
        try:
            self.deletions.delete(key, topic_id)
        except KafkaStorageError as error:  # its log dir failed; the next start finds it, and sets it aside as stray
            _log.error("%s was deleted, but not from its disk: %s", key, error)

    def _dismiss(self, partition: Partition) -> None:
        self._partitions.pop(partition.topic_partition, None)
        self.stop_fetching(partition)
        self._group_commit.unsubscribe(partition.log)
        self.refused.forget(partition.topic_partition)
        self.on_log_gone(partition.topic_partition)

    def hosts(self, key: TopicPartition) -> bool:
        """Whether this broker serves the partition, or would if it could."""
        return key in self._partitions or key in self.lost or key in self.to_create or key in self.deletions

    # -- replicas that are lost ----------------------------------------------------------------------------------------

    def revive_lost(self) -> None:
        """Take every lost replica into service that may be by now; called on schedule and after a registration."""
        for key in self.lost.partitions:
            self._revive(key)

    def _revive(self, key: TopicPartition) -> None:
        """See lost_replicas.py for when a damaged log may be given up."""
        lost, assignment = self.lost.get(key), self._assignments.get(key)
        if lost is None or assignment is None:
            return
        if gone := self._log_gone(key, assignment):
            self._say(key, gone)
            return
        verdict = self.lost.verdict(key, assignment.state)
        if verdict is Verdict.WAIT:
            self._say(key, f"{lost.why}; {self.lost.obstacle(key, assignment.state)}")
            return
        if verdict is Verdict.REBUILD:
            try:
                self._give_up_log(key, assignment)
            except (ApiError, OSError) as error:
                self._say(key, f"it cannot be hosted yet: {error}")
                return
        self.to_create.submit(key, is_new=lost.starts_empty)

    def _give_up_log(self, key: TopicPartition, assignment: Assignment) -> None:
        path = self._log_manager.removal.set_aside_rotten(key, assignment.topic_id)
        partition = self._partitions.get(key)
        if partition is not None:
            self._dismiss(partition)
        self._high_watermarks.pop(LogId(key, assignment.topic_id), None)
        self.lost.set_aside(key)
        leader_id = assignment.state.leader_id
        _log.warning("%s: its damaged log stands aside as %s; fetching it anew from broker %d", key, path, leader_id)

    def _say(self, key: TopicPartition, what: str) -> None:
        """Once, until it is something else."""
        lost = self.lost.get(key)
        if lost is not None and lost.said != what:
            lost.said = what
            _log.error("%s is offline here, %s", key, what)

    def leave_isrs(self, state: PartitionRegistration) -> None:
        """A replica is lost: no other member of an ISR may rely on this broker for it, or wait for it to lead."""
        if len(state.replicas) > 1:
            self.on_replica_lost()

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def request_flush(self, partition: Partition) -> None:
        self._group_commit.request(partition.log)

    def when_disk_answers(self, partition: Partition, then: Callable[[BaseException | None], None]) -> None:
        self._group_commit.when_disk_answers(partition.log, then)

    def flush_due(self) -> None:
        """flush.messages and flush.ms: only with flush.policy=os is there ever something due; called on schedule."""
        now_ms = self.clock.now_ms()
        for partition in self._partitions.values():
            if partition.offline is None and partition.log.flush_is_due(now_ms):
                self._group_commit.flush(partition.log)

    def make_log_start_durable(self, partition: Partition, done: Waiter) -> None:
        """Call `done` once the log start that the partition has now survives a crash."""
        self.log_starts.request(partition.log.log_dir, done)

    def check_isrs(self) -> None:
        """Called on schedule."""
        self.isrs.check(self._partitions.values(), self.clock.now_ms())

    def brokers_changed(self, registered_epochs: dict[int, int], active_brokers: frozenset[int]) -> None:
        """Who is registered, and who of them is in service, as the metadata has it now."""
        self.isrs.registered_epochs, self.isrs.active_brokers = registered_epochs, active_brokers
        self.lost.registered_epoch = registered_epochs.get(self.broker_id, NO_EPOCH)
        for partition in self._partitions.values():
            self.isrs.reconsider(partition)

    def high_watermarks(self) -> dict[LogId, int]:
        """What replication-offset-checkpoint should hold; of partitions that are not hosted, what it held before.

        May be called in any thread.
        """
        known = dict(self._high_watermarks)
        for key, partition in tuple(self._partitions.items()):
            known[LogId(key, partition.topic_id)] = partition.high_watermark
        return known

    def statistics(self) -> ReplicaManagerStatistics:
        return ReplicaManagerStatistics(
            **count_roles(tuple(self._partitions.values()), self._retired_shrinks, self._retired_expands),
            to_create=len(self.to_create) + len(self.deletions),
            offline=len(self.lost),
            **asdict(self.traffic),
            replication_bytes_in=self.fetchers.bytes_in() if self.fetchers else 0,
        )

    def __repr__(self) -> str:
        return f"ReplicaManager(broker {self.broker_id}, {len(self._partitions)} partitions)"
