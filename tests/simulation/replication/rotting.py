"""The same world, in which logs rot: the damaged replica goes offline, its broker registers anew, and the log is made
anew from the leader's, by the very rule of `lost_replicas.py`. Some other member of the ISR is always good, and lives
until the new registration: past that, nothing could be promised.

What must hold is what held before, above all I13: an emptied replica is in no ISR before it has caught up. `RotRules`
are the mistakes that this must notice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.replication.follower.fetcher_core import FetcherCore
from broker.replication.hosting.hosted_partitions import HostedPartitions
from broker.replication.lost_replicas import LostReplicas, Verdict
from metadata.registrations import PartitionRegistration
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import NO_LEADER
from tests.simulation.replication.world import Broker, Rules, World
from tests.support.partitions import PARTITION, make_log


@dataclass(frozen=True)
class RotRules:
    """The mistakes that a run makes on purpose; the defaults make none."""

    registers_anew: bool = True
    """Else the log is made anew as soon as the metadata that the broker knows allows it."""
    new_epoch: bool = True
    """Else the broker is only fenced, and unfenced again, under the epoch that it had."""


class RottingWorld(World):
    """See the module."""

    def __init__(self, seed: int, directory: Path, rot_rules: RotRules = RotRules()) -> None:
        self.rot_rules = rot_rules
        self.lost: dict[int, LostReplicas] = {}
        self.registrations: dict[int, int] = {}
        """By broker that has registered anew: the partition epoch from which its metadata shows that."""
        self.rotten = self.rebuilt = 0
        super().__init__(seed, directory, Rules())

    def more_steps(self) -> list[tuple[Callable[[], None], int]]:
        return [(self.rot, 4), (self.register_anew, 10)]

    def rot(self) -> None:
        """One broker's log turns out to be damaged."""
        if self.lost:
            return
        broker = self.random.choice(self.alive)
        if any(self.brokers[b].alive for b in self.controller.isr if b != broker.broker_id):
            lost = self.lost[broker.broker_id] = LostReplicas(HostedPartitions(broker.broker_id))
            lost.broker_epoch = lost.registered_epoch = broker.broker_epoch
            lost.found(PARTITION, CorruptFileError(broker.partition.log.directory, 0, "rot"))
            broker.fetcher.remove([PARTITION])
            broker.partition.stop(KafkaStorageError("rot"))
            broker.unacknowledged.clear()
            broker.unreported.clear()
            self.rotten += 1
            if not self.rot_rules.registers_anew:
                self._revive(broker)

    def register_anew(self) -> None:
        """As its own successor: a new epoch, and out of every ISR that has another member."""
        for broker_id, lost in self.lost.items():
            broker = self.brokers[broker_id]
            if lost.broker_epoch == broker.broker_epoch and broker_id not in self.registrations:
                if self.rot_rules.new_epoch:
                    self.next_broker_epoch += 1
                    broker.broker_epoch = lost.broker_epoch = self.next_broker_epoch
                isr = tuple(b for b in self.controller.isr if b != broker_id) or self.controller.isr
                electable = [b for b in isr if self.brokers[b].alive and b != broker_id]
                leads = self.controller.leader_id == broker_id
                self._change(isr, (electable[0] if electable else NO_LEADER) if leads else None)
                self.registrations[broker_id] = self.controller.partition_epoch

    def tell(self, broker: Broker) -> None:
        lost = self.lost.get(broker.broker_id)
        if lost is None:
            super().tell(broker)
            return
        broker.known_partition_epoch = self.controller.partition_epoch
        if broker.known_partition_epoch >= self.registrations.get(broker.broker_id, 1 << 60):
            lost.registered_epoch = broker.broker_epoch
        self._revive(broker)

    def _revive(self, broker: Broker) -> None:
        if self._may_be_rebuilt(broker, self.controller):
            self.rebuilt += 1
            del self.lost[broker.broker_id]
            self.registrations.pop(broker.broker_id, None)
            broker.partition.log.close()
            log = make_log(self.directory / f"{broker.broker_id}-{self.rebuilt}")
            broker.partition = self.rules.partition_class(broker.broker_id, log, 0, self.min_isr)
            broker.fetcher = FetcherCore(0, 1 << 20)
            broker.durable_log_start, broker.known_partition_epoch = 0, -1
            super().tell(broker)

    def _may_be_rebuilt(self, broker: Broker, state: PartitionRegistration) -> bool:
        if self.rot_rules == RotRules():
            return (
                self.lost[broker.broker_id].verdict(self.lost[broker.broker_id].hosted.known(PARTITION), state)
                is Verdict.REBUILD
            )
        if self.rot_rules.registers_anew and broker.broker_id not in self.registrations:
            return False
        return broker.broker_id not in state.isr and state.leader_id not in (NO_LEADER, broker.broker_id)

    def crash(self) -> None:
        if not self.lost:
            super().crash()

    def converge(self) -> None:
        self.register_anew()
        super().converge()


ROT_MUTANTS = {
    "made anew before its broker has registered anew": RotRules(registers_anew=False),
    "made anew under the epoch of its earlier fetches (KIP-903)": RotRules(new_epoch=False),
}
