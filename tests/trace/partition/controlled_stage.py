"""The stage with a controller that decides: who leads, and which replicas are in the ISR and in the ELR (KIP-966).

`min.insync.replicas` is 2 of three. The script says whose session ends, who comes back, and which follower the leader
wants in the ISR. Not here: the quorum; what the controller decides is committed at once.
"""

from __future__ import annotations

from dataclasses import replace

from metadata.registrations import PartitionRegistration
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.partitions import PARTITION, TOPIC_ID
from tests.trace.partition.stage import DIRECTORY, Stage
from tests.unit.metadata.harness import Cluster

BROKERS, MIN_ISR = 3, 2
TOPIC = "t"


class ControlledStage(Stage):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(BROKERS, MIN_ISR)
        self._cluster = Cluster(BROKERS)
        self._cluster.create(TOPIC, 1, BROKERS, {"min.insync.replicas": str(MIN_ISR)})
        self._shown_epoch = -1
        self._hear()

    @property
    def replicas(self) -> tuple[int, ...]:
        """The replicas of the partition; the first one leads at first."""
        return self._registration().replicas

    def copy(self, broker_id: int) -> None:
        """The follower fetches what it lacks, flushes it, and acknowledges it."""
        self.fetch(broker_id)
        self.flush(broker_id)
        self.fetch(broker_id)

    def end_session(self, broker_id: int) -> None:
        """The controller has not heard of the broker for too long."""
        self.say(f"the session of broker {broker_id} ends")
        self._cluster.let_die(*(each for each, broker in self.brokers.items() if not broker.is_up))
        self._hear()

    def come_back(self, broker_id: int) -> None:
        """With what is on its disk; its process registers, and is in service."""
        self.start(broker_id)
        self._cluster.come_back(broker_id)
        self._cluster.heartbeat(broker_id)
        self._hear()

    def come_back_without_disk(self, broker_id: int) -> None:
        """The disk is lost; the broker has an empty one, and names no replica."""
        self.say(f"the disk of broker {broker_id} is lost")
        disk = self.brokers[broker_id].disk = LosingFileSystem()
        Log.create(disk, DIRECTORY, PARTITION, LogConfig(), LogOptions(THREADS, TOPIC_ID)).close()
        self.start(broker_id)
        self._cluster.come_back(broker_id, replicas=())
        self._cluster.heartbeat(broker_id)
        self._hear()

    def join(self, broker_id: int) -> None:
        """The leader proposes the ISR with this follower."""
        isr = tuple(sorted({*self.isr, broker_id}))
        self.note(self.leader_id, f"proposes ISR {list(isr)}")
        self._cluster.alter(self.leader_id, self._cluster.proposal(TOPIC, isr))
        self._hear()

    def _registration(self) -> PartitionRegistration:
        return replace(self._cluster.partition(TOPIC), topic_id=TOPIC_ID)

    def _hear(self) -> None:
        """Tells the controller's decision to every broker that is up."""
        known = self._registration()
        if known.partition_epoch == self._shown_epoch:
            return
        self._shown_epoch = known.partition_epoch
        self.leader_id, self.leader_epoch, self.isr = known.leader_id, known.leader_epoch, known.isr
        leader = f"leader {known.leader_id}" if known.has_leader else "no leader"
        self.lines.append(
            f"  controller  {leader}, leader epoch {known.leader_epoch}, ISR {list(known.isr)}, ELR {list(known.elr)}"
        )
        for broker_id, broker in self.brokers.items():
            if broker.is_up:
                self._tell(broker_id)
