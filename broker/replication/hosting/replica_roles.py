"""Has a hosted partition take its role: lead, follow, or wait for a leader, with the settings of its topic.

partition.py leads and follows; the fetchers fetch. This module keeps the order: a replica stops fetching BEFORE it
leads, and a follower's tail is durable BEFORE its first fetch acknowledges it. Not here: which role (the metadata
decides), how a partition comes to be hosted (replica_creation.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from broker.replication.durability import Durability
from broker.replication.hosting.replica_states import Replica
from broker.replication.leader.isr_upkeep import IsrUpkeep
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock.clock import Clock
from penstock.errors import KafkaStorageError
from penstock.types import NO_LEADER, LeaderHint, TopicPartition

_log = logging.getLogger(__name__)


class Fetchers(Protocol):
    """Fetches for the followers; see follower/fetcher_manager.py."""

    def add(self, partition: Partition, leader_id: int, leader_epoch: int) -> None: ...

    def remove(self, partitions: list[TopicPartition]) -> None: ...

    def follows(self, partition: TopicPartition, leader_id: int) -> bool: ...


class ReplicaRoles:
    """Has hosted partitions take their roles. There is one per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        *,
        durability: Durability,
        isrs: IsrUpkeep,
        fetchers: Fetchers,
        partition_failed: Callable[[Partition, Exception], None],
        check_directory: Callable[[Partition, PartitionRegistration], None],
    ) -> None:
        """`partition_failed` is called if the disk refuses a role's first steps; `check_directory` for every role."""
        self._broker_id = broker_id
        self._clock = clock
        self._durability = durability
        self._isrs = isrs
        self._fetchers = fetchers
        self._partition_failed = partition_failed
        self._check_directory = check_directory

    def take(self, replica: Replica) -> None:
        """Take the role and the settings of the metadata; nothing if the replica is not served, or has none."""
        partition, assignment = replica.partition, replica.assignment
        if partition is None or assignment is None:
            return
        _, state, settings, hint = assignment
        self._check_directory(partition, state)
        partition.configure(
            settings.log, settings.flush_policy, min(settings.min_insync_replicas, state.replication_factor)
        )
        try:
            if state.leader_id == self._broker_id:
                replica.lead()
                self._lead(partition, state)
            else:
                replica.follow()
                self._follow(partition, state, hint)
        except (OSError, KafkaStorageError) as error:
            self._partition_failed(partition, error)

    def _lead(self, partition: Partition, state: PartitionRegistration) -> None:
        self._fetchers.remove([partition.topic_partition])
        if partition.become_leader(state, self._clock.now_ms()):
            _log.info("%s: leading", partition)
        if partition.log.flushed_offset < partition.log.log_end_offset:
            self._durability.request_flush(partition)
        else:
            self._durability.flush_when_idle(partition)  # the epoch, and the log itself if it is new
        partition.maybe_advance_high_watermark()
        self._isrs.reconsider(partition)

    def _follow(self, partition: Partition, state: PartitionRegistration, hint: LeaderHint) -> None:
        is_new = partition.become_follower(state, hint)
        if is_new or not self._fetchers.follows(partition.topic_partition, state.leader_id):
            self._fetchers.remove([partition.topic_partition])
            if state.leader_id != NO_LEADER:
                self._fetch_when_durable(partition, state)
        elif partition.log.flushed_offset < partition.log.log_end_offset:
            self._durability.request_flush(partition)  # its flush.policy may be fsync from now on

    def _fetch_when_durable(self, partition: Partition, state: PartitionRegistration) -> None:
        """Start fetching AFTER the log's tail is flushed: the first fetch acknowledges all of it."""
        if partition.state != state or partition.offline is not None:
            return
        if partition.log.flushed_offset < partition.log.log_end_offset:
            partition.acks_one.add(
                partition.log.log_end_offset, lambda _error: self._fetch_when_durable(partition, state)
            )
            self._durability.request_flush(partition)
            return
        self._fetchers.add(partition, state.leader_id, state.leader_epoch)

    def __repr__(self) -> str:
        return f"ReplicaRoles(broker {self._broker_id}, {self._isrs!r})"
