"""Tells the controller which log dir holds each replica here, where the metadata does not say so (KIP-858).

The controller knows most of it already: the only log dir of a broker is assigned when a topic is created, and a
registration names every replica. What is left is a new replica of a broker with several log dirs, which chooses one by
itself. A report is sent again until the controller has acknowledged it, or the replica is gone. Replicas are served
meanwhile.

A replica that moves to another log dir is announced: its new dir is reported BEFORE it is there, so that the controller
knows which replicas go with a dir that fails. While it is announced, that dir alone is reported, whatever the metadata
says. When the announcement is over, the dir where the replica is by then is reported once more.

One request is under way at a time (broker/call_queue.py). Not here: the choice of a log dir (log_manager.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import field
from itertools import islice
from random import Random

from broker.call_queue import CallQueue
from broker.replication.partition import Partition
from metadata.registrations import PartitionKey, PartitionRegistration
from penstock.backoff import Backoff
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.messages.nodes.brokers import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, HostedReplicas
from penstock.types import NO_EPOCH, TopicPartition

_log = logging.getLogger(__name__)

RETRY_MS = 50
RETRY_MS_MAX = 2_000
"""Nothing waits for a report, so a controller that refuses one for long is not asked often."""
REPLICAS_MAX = 1_000
"""The most replicas of one request; the controller allows 10,000."""


@dataclass(slots=True, eq=False)
class Announcement:
    """A replica that is about to be in another log dir."""

    partition: Partition
    log_dir: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """An event that is set when the report was acknowledged, or will not be: waiters need not wait any longer."""
    broker_epoch: int | None = None
    """The broker epoch under which the controller has acknowledged the report: the next registration names the dirs
    anew."""


class DirectoryReports:
    """Reports the log dirs of replicas. There is one per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        directory_id: Callable[[str], str],
        call: Callable[[AssignReplicasToDirsRequest], Awaitable[AssignReplicasToDirsResponse]],
        on_fatal: Callable[[BaseException], None],
        random: Random,
    ) -> None:
        """`directory_id(path)` is the id of a log dir."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_id = directory_id
        self._pending: dict[TopicPartition, Partition] = {}
        self._announced: dict[TopicPartition, Announcement] = {}
        self._asked: dict[TopicPartition, tuple[Partition, str]] = {}
        """The replicas of the last request, and the log dirs that it named."""
        self._asked_epoch = NO_EPOCH
        self.calls = CallQueue("directory-reports", self, call, Backoff(RETRY_MS, RETRY_MS_MAX, random), on_fatal)

    def check(self, partition: Partition, state: PartitionRegistration) -> None:
        """The replica is served over its log; `state` is the newest metadata of it."""
        if partition.topic_partition in self._announced:
            return
        if state.directory_of(self._broker_id) == self._directory_id(partition.log.log_dir):
            self._pending.pop(partition.topic_partition, None)
        else:
            self._report(partition)

    def _report(self, partition: Partition) -> None:
        self._pending[partition.topic_partition] = partition
        self.calls.wake()

    def forget(self, key: TopicPartition) -> None:
        """The replica is served here no longer."""
        self._pending.pop(key, None)
        announcement = self._announced.pop(key, None)
        if announcement is not None:
            announcement.over.set()

    # -- replicas that move (KIP-858) ----------------------------------------------------------------------------------

    def announce(self, partition: Partition, log_dir: str) -> Announcement:
        """Report the log dir where the replica will be, until the announcement is withdrawn."""
        announcement = self._announced[partition.topic_partition] = Announcement(partition, log_dir)
        self._report(partition)
        return announcement

    def holds(self, announcement: Announcement) -> bool:
        """True if the metadata has the announced log dir, by the controller's answer."""
        is_made = self._announced.get(announcement.partition.topic_partition) is announcement
        return is_made and announcement.broker_epoch == self._broker_epoch()

    def withdraw(self, announcement: Announcement) -> None:
        """The replica is there by now, or it stays where it is; nothing if the announcement is over."""
        key = announcement.partition.topic_partition
        if self._announced.get(key) is announcement:
            del self._announced[key]
            announcement.over.set()
            self._report(announcement.partition)

    def _place(self, partition: Partition) -> str:
        """The log dir to report."""
        announcement = self._announced.get(partition.topic_partition)
        return partition.log.log_dir if announcement is None else announcement.log_dir

    # -- reports -------------------------------------------------------------------------------------------------------

    def next_request(self) -> AssignReplicasToDirsRequest | None:
        """The reports that wait longest."""
        wanted = islice(self._pending.items(), REPLICAS_MAX)
        self._asked = {key: (partition, self._place(partition)) for key, partition in wanted}
        if not self._asked:
            return None
        numbers: dict[tuple[str, str], list[int]] = {}
        for key, (partition, reported) in self._asked.items():
            numbers.setdefault((partition.topic_id, self._directory_id(reported)), []).append(key.partition)
        held = (HostedReplicas(topic_id, tuple(found), log_dir) for (topic_id, log_dir), found in numbers.items())
        self._asked_epoch = self._broker_epoch()
        return AssignReplicasToDirsRequest(self._broker_id, self._asked_epoch, tuple(held))

    def failed(self, error: ApiError, attempt: int) -> None:
        if attempt == 1:
            _log.warning("the log dirs of %d replicas were not recorded: %s; retrying", len(self._asked), error)

    def answered(self, answer: AssignReplicasToDirsResponse, attempt: int) -> bool:
        """Replicas with an error are reported again, AFTER those that wait, and so are those for which another log dir
        is to be reported by now than was told."""
        by_id = {PartitionKey(partition.topic_id, key.partition): key for key, (partition, _) in self._asked.items()}
        refused = None
        for result in answer.replicas:
            key = by_id.get(PartitionKey(result.topic_id, result.partition))
            if key is None:
                continue
            partition, reported = self._asked[key]
            if self._pending.get(key) is not partition:
                continue
            del self._pending[key]
            if result.error is not None or self._place(partition) != reported:
                refused = result.error or refused
                self._pending[key] = partition
            elif (announcement := self._announced.get(key)) is not None:
                announcement.broker_epoch = self._asked_epoch
                announcement.over.set()
        if refused is not None:
            self.failed(refused, attempt)
        return refused is None

    def __len__(self) -> int:
        """How many replicas are to be reported."""
        return len(self._pending)

    def __repr__(self) -> str:
        return f"DirectoryReports({len(self)} replicas to report)"
