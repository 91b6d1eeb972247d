"""The scheduled jobs of all replicas of a broker that need no disk by themselves.

    log-flusher      log.flush.scheduler.interval.ms    flushes that flush.messages and flush.ms ask for
    isr-check        half of replica.lag.time.max.ms    followers that lag leave the ISR
    lost-replicas    every 5 s                          replicas that can be served again

Not here: what is done to their logs (log_upkeep.py, checkpoint_jobs.py), when a job runs (scheduler.py).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.node_config import NodeConfig
from broker.jobs.scheduler import Scheduler
from broker.replication.durability import Durability
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.leader.isr_upkeep import IsrUpkeep
from penstock.clock import Clock

LOST_REPLICAS_MS = 5_000
"""A disk that was full is looked at again after this time."""
ISR_CHECKS_PER_LAG = 2
"""The ISR is looked at twice in `replica.lag.time.max.ms`, as Kafka does."""


class ReplicaUpkeep:
    """The scheduled jobs of all replicas. There is one per broker, on the event loop."""

    def __init__(
        self,
        hosted: HostedPartitions,
        durability: Durability,
        isrs: IsrUpkeep,
        revive_lost: Callable[[], None],
        scheduler: Scheduler,
        clock: Clock,
    ) -> None:
        self._hosted = hosted
        self._durability = durability
        self._isrs = isrs
        self._revive_lost = revive_lost
        self._scheduler = scheduler
        self._clock = clock

    def schedule(self, config: NodeConfig) -> None:
        """Add every job, with the node's intervals."""
        add = self._scheduler.add
        add("log-flusher", config.log_flush_scheduler_interval_ms, self.flush_due)
        add("isr-check", config.replica_lag_time_max_ms // ISR_CHECKS_PER_LAG, self.check_isrs)
        add("lost-replicas", LOST_REPLICAS_MS, self.revive_lost)

    async def flush_due(self) -> None:
        self._durability.flush_due(self._hosted.all(), self._clock.now_ms())

    async def check_isrs(self) -> None:
        self._isrs.check(self._hosted.all(), self._clock.now_ms())

    async def revive_lost(self) -> None:
        self._revive_lost()

    def __repr__(self) -> str:
        return f"ReplicaUpkeep({self._hosted!r})"
