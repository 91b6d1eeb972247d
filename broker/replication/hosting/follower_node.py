"""Implements the port through which the fetchers ask their node, over its parts; see follower/fetcher_ports.py."""

from __future__ import annotations

from collections.abc import Callable

from broker.replication.durability import Durability
from broker.replication.hosting.hosted_partitions import PartitionLookup
from broker.replication.leader.log_start_commit import Waiter
from broker.replication.lost_replicas import LostReplicas
from broker.replication.partition import Partition
from penstock.types import TopicPartition
from storage.log.log import Log


class FollowerNode:
    """The node, as its fetchers ask it. There is one per broker."""

    def __init__(
        self,
        lost: LostReplicas,
        hosted: PartitionLookup,
        durability: Durability,
        expect_cut: Callable[[Log, int, Callable[[], bool]], None],
    ) -> None:
        self._lost, self._hosted, self._durability = lost, hosted, durability
        self._expect_cut = expect_cut

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, as the controller answered it."""
        return self._lost.broker_epoch

    def find(self, partition: TopicPartition) -> Partition | None:
        return self._hosted.find(partition)

    def request_flush(self, partition: Partition) -> None:
        self._durability.request_flush(partition)

    def expect_cut(self, partition: Partition, offset: int, is_wanted: Callable[[], bool]) -> None:
        self._expect_cut(partition.log, offset, is_wanted)

    def when_disk_answers(
        self, partition: Partition, then: Callable[[BaseException | None], None], work: Callable[[], object] | None
    ) -> None:
        self._durability.when_disk_answers(partition, then, work)

    def make_log_start_durable(self, partition: Partition, done: Waiter) -> None:
        self._durability.make_log_start_durable(partition, done)

    def __repr__(self) -> str:
        return f"FollowerNode(broker epoch {self.broker_epoch})"
