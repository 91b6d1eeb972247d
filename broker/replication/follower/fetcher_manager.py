"""Gives each followed partition to a fetcher: `num.replica.fetchers` for each source broker, made when needed.

It assigns and forgets; fetching is fetcher_driver.py's. A partition is in at most one fetcher. The manager watches the
partitions that are followed: one that goes offline is fetched no more.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from random import Random

from broker.replication.follower.fetcher_config import FetcherConfig
from broker.replication.follower.fetcher_driver import ReplicaFetcher
from broker.replication.follower.fetcher_ports import FetcherNode, ReplicaFetchStream, Timed
from broker.replication.follower.fetcher_values import FetcherStatistics
from broker.replication.move_throttle import MoveThrottle, MovingCopies
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class _Followed:
    partition: Partition
    fetcher: tuple[int, int]
    """Source broker, and number among its fetchers."""


class FetcherManager:
    """All fetchers of a node."""

    is_replica = False
    """A watcher that reads nothing: what was appended is no news for it."""

    def __init__(
        self,
        config: FetcherConfig,
        fetchers_per_broker: int,
        clock: Clock,
        random: Random,
        open_stream: Callable[[int], ReplicaFetchStream],
        node: FetcherNode,
        on_fatal: Callable[[BaseException], None],
        throttle: MoveThrottle,
        timed: Timed = lambda work: work,
    ) -> None:
        self._config = config
        self._fetchers_per_broker = fetchers_per_broker
        self._clock = clock
        self._random = random
        self._open_stream = open_stream
        self._node = node
        self._on_fatal = on_fatal
        self._timed = timed
        self._copies = MovingCopies(throttle, self._is_moving)
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._followed: dict[TopicPartition, _Followed] = {}
        self._kick_scheduled = False
        self._stopped = False

    def add(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        """Follow `partition` from `leader_id`; not after `stop`, although the metadata goes on telling of leaders."""
        if self._stopped:
            return
        name = partition.topic_partition
        key = (leader_id, zlib.crc32(str(name).encode()) % self._fetchers_per_broker)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = ReplicaFetcher(
                name=f"{leader_id}-{key[1]}",
                config=self._config,
                clock=self._clock,
                random=self._random,
                open_stream=lambda: self._open_stream(leader_id),
                node=self._node,
                on_fatal=self._on_fatal,
                timed=self._timed,
                copies=self._copies,
            )
        fetcher.add(partition, leader_epoch)
        self._followed[name] = _Followed(partition, key)
        partition.watchers[self] = None
        if not self._kick_scheduled:
            self._kick_scheduled = True
            asyncio.get_running_loop().call_soon(self._kick)

    def _kick(self) -> None:
        self._kick_scheduled = False
        for fetcher in self._fetchers.values():
            fetcher.kick()

    def _is_moving(self, partition: TopicPartition) -> bool:
        followed = self._followed.get(partition)
        return followed is not None and followed.partition.state.is_moving_to(self._config.broker_id)

    def remove(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            followed = self._followed.pop(partition, None)
            if followed is not None:
                followed.partition.watchers.pop(self, None)
                self._fetchers[followed.fetcher].remove([partition])

    def partition_changed(self, partition: TopicPartition, wake: bool) -> None:
        """Removes a partition that is offline now. Called by the partitions that are followed."""
        followed = self._followed.get(partition)
        if followed is not None and followed.partition.offline is not None:
            self.remove([partition])

    def follows(self, partition: TopicPartition, leader_id: int) -> bool:
        followed = self._followed.get(partition)
        return followed is not None and followed.fetcher[0] == leader_id

    async def stop(self) -> None:
        """Ends all fetchers. `remove` may come later: raft runs on, and the metadata goes on telling of leaders."""
        self._stopped = True
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()
        self._followed.clear()

    def bytes_in(self) -> int:
        return sum(fetcher.bytes_in for fetcher in tuple(self._fetchers.values()))

    def answers_refused(self) -> int:
        """Answers of leaders whose records were not taken, see `ReplicaFetcher`; of the fetchers since the start."""
        return sum(fetcher.answers_refused for fetcher in tuple(self._fetchers.values()))

    def statistics(self) -> dict[str, FetcherStatistics]:
        """Statistics of every fetcher, by its name (source broker, number)."""
        return {fetcher.name: fetcher.core.statistics() for fetcher in tuple(self._fetchers.values())}
