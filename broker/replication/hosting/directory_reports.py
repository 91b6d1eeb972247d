"""Tells the controller which log dir holds each replica here, where the metadata does not say so (KIP-858).

The controller knows most of it already: the only log dir of a broker is assigned when a topic is created, and a
registration names every replica. What is left is a new replica of a broker with several log dirs, which chooses one by
itself. A report is sent again until the controller has acknowledged it, or the replica is gone. Replicas are served
meanwhile.

One request is under way at a time. Not here: the choice of a log dir (log_manager.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from random import Random
from typing import Any

from broker.replication.partition import Partition
from metadata.registrations import PartitionKey, PartitionRegistration
from metadata.requests import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, HostedReplicas
from penstock.backoff import Backoff
from penstock.errors import ApiError
from penstock.tasks import watch
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

RETRY_MS = 50
RETRY_MS_MAX = 5_000
"""Nothing waits for a report, so a controller that refuses one for long is not asked often."""
REPLICAS_MAX = 1_000
"""The most replicas of one request; the controller allows 10,000."""


class DirectoryReports:
    """One per broker, on the event loop."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        directory_id: Callable[[str], str],
        call: Callable[[AssignReplicasToDirsRequest], Awaitable[Any]],
        on_fatal: Callable[[BaseException], None],
        random: Random,
    ) -> None:
        """`directory_id(path)` is the id of a log dir."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_id = directory_id
        self._call = call
        self._on_fatal = on_fatal
        self._backoff = Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._failures = 0
        self._pending: dict[TopicPartition, Partition] = {}
        self._has_work = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="directory-reports")
        watch(self._task, self._on_fatal)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def check(self, partition: Partition, state: PartitionRegistration) -> None:
        """The replica is served over its log; `state` is the newest metadata of it."""
        if state.directory_of(self._broker_id) == self._directory_id(partition.log.log_dir):
            self._pending.pop(partition.topic_partition, None)
        else:
            self._pending[partition.topic_partition] = partition
            self._has_work.set()

    def forget(self, key: TopicPartition) -> None:
        """The replica is served here no longer."""
        self._pending.pop(key, None)

    async def _run(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            wanted = dict(islice(self._pending.items(), REPLICAS_MAX))
            if not wanted:
                continue
            told = {key: partition.log.log_dir for key, partition in wanted.items()}
            try:
                refused = self._answered(wanted, told, await self._call(self._request(wanted)))
            except ApiError as error:
                refused = error
            if self._pending:
                self._has_work.set()
            if refused is None:
                self._failures = 0
                continue
            self._failures += 1
            if self._failures == 1:
                _log.warning("the log dirs of %d replicas were not recorded: %s; retrying", len(wanted), refused)
            await asyncio.sleep(self._backoff.wait_ms(self._failures) / 1000)

    def _request(self, wanted: Mapping[TopicPartition, Partition]) -> AssignReplicasToDirsRequest:
        numbers: dict[tuple[str, str], list[int]] = {}
        for key, partition in wanted.items():
            log_dir = self._directory_id(partition.log.log_dir)
            numbers.setdefault((partition.topic_id, log_dir), []).append(key.partition)
        held = (HostedReplicas(topic_id, tuple(found), log_dir) for (topic_id, log_dir), found in numbers.items())
        return AssignReplicasToDirsRequest(self._broker_id, self._broker_epoch(), tuple(held))

    def _answered(
        self,
        wanted: Mapping[TopicPartition, Partition],
        told: Mapping[TopicPartition, str],
        response: AssignReplicasToDirsResponse,
    ) -> ApiError | None:
        """An error of one of the replicas. Those with an error are reported again, AFTER those that wait, and so are
        those that are not in the log dir any more that was `told`."""
        by_id = {PartitionKey(partition.topic_id, key.partition): key for key, partition in wanted.items()}
        refused = None
        for result in response.replicas:
            key = by_id.get(PartitionKey(result.topic_id, result.partition))
            if key is None or self._pending.get(key) is not wanted[key]:
                continue
            partition = self._pending.pop(key)
            if result.error is not None or partition.log.log_dir != told[key]:
                refused = result.error or refused
                self._pending[key] = partition
        return refused

    def __len__(self) -> int:
        """How many replicas are to be reported."""
        return len(self._pending)

    def __repr__(self) -> str:
        return f"DirectoryReports({len(self)} replicas to report)"
