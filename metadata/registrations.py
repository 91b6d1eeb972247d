"""The values for one broker and for one partition. They are immutable: a record makes the next value from this one.

The image on every node and the state of the active controller hold these same values, so the epoch rules below exist
once. Not here: where the values are kept (image.py, controller/state.py) and which changes are made (controller/).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from metadata.listeners import parse_listener
from metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from penstock.errors import InvariantViolation
from penstock.lazy_dataclass import dataclass
from penstock.types import CLIENT_LISTENER, NO_LEADER, Endpoint, ListenerEndpoint


class PartitionKey(NamedTuple):
    """One partition of one topic, by the topic's id: a topic that is deleted and made again is another topic."""

    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One registered broker. `broker_epoch` names this registration; an answer under another epoch is stale."""

    broker_id: int
    incarnation_id: str
    broker_epoch: int
    host: str
    port: int
    rack: str
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[str, ...]
    inter_broker_host: str = ""
    inter_broker_port: int = 0
    offline_log_dirs: tuple[str, ...] = ()  # of `log_dirs`; only the next registration brings one of them back
    flush_policy: str = ""  # what its topics have that name none; "": not known
    listeners: tuple[ListenerEndpoint, ...] = ()  # for clients, besides BROKER, which is at host and port
    features: str = ""  # the levels that it supports, as it says them; "" at metadata.version 1

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        return cls(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            broker_epoch=record.broker_epoch,
            host=record.host,
            port=record.port,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            inter_broker_host=record.inter_broker_host,
            inter_broker_port=record.inter_broker_port,
            offline_log_dirs=record.offline_log_dirs,
            flush_policy=record.flush_policy,
            listeners=tuple(map(parse_listener, record.listeners)),
            features=record.features,
        )

    def to_record(self) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.broker_epoch,
            host=self.host,
            port=self.port,
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.log_dirs,
            inter_broker_host=self.inter_broker_host,
            inter_broker_port=self.inter_broker_port,
            offline_log_dirs=self.offline_log_dirs,
            flush_policy=self.flush_policy,
            listeners=tuple(map(str, self.listeners)),
            features=self.features,
        )

    def merge(self, change: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """The registration after the change, which must be about this very registration."""
        if change.broker_epoch != self.broker_epoch:
            raise InvariantViolation(f"{change} is about another registration than {self}")
        return replace(
            self,
            fenced=self.fenced if change.fenced is None else change.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown
            if change.in_controlled_shutdown is None
            else change.in_controlled_shutdown,
            offline_log_dirs=self.offline_log_dirs if change.offline_log_dirs is None else change.offline_log_dirs,
        )

    @property
    def endpoint(self) -> Endpoint:
        """The address at which clients find it: of its listener BROKER."""
        return Endpoint(self.host, self.port)

    def endpoint_at(self, listener: str) -> Endpoint | None:
        """The address at which the clients of that listener find it; None if it has no listener of that name for
        clients."""
        if listener == CLIENT_LISTENER:
            return self.endpoint
        return next((found.endpoint for found in self.listeners if found.name == listener), None)

    @property
    def inter_broker_endpoint(self) -> Endpoint:
        """The address at which the other brokers find it."""
        return Endpoint(self.inter_broker_host, self.inter_broker_port) if self.inter_broker_host else self.endpoint

    @property
    def is_active(self) -> bool:
        """True if partitions may be placed here and replicas here may join an ISR or be elected."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def only_log_dir(self) -> str:
        """The id of its one log dir that is online, where each new replica goes; "" if there are several, or none."""
        online = [log_dir for log_dir in self.log_dirs if log_dir not in self.offline_log_dirs]
        return online[0] if len(online) == 1 else ""

    def is_online(self, directory: str) -> bool:
        """True if a replica in this log dir can be served; one without an assigned dir may be in any of them."""
        if not directory:
            return not self.offline_log_dirs
        return directory in self.log_dirs and directory not in self.offline_log_dirs


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """One partition as the quorum has committed it."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]  # in order of preference: the first is the preferred leader
    isr: tuple[int, ...]  # Invariant: not empty, a subset of replicas
    leader_id: int  # Invariant: in the ISR, or -1
    leader_epoch: int  # Invariant: never falls; one leader per epoch
    partition_epoch: int  # Invariant: rises with every change, but that of directories
    log_lost: bool = False  # Invariant: only of a single ISR member without a leader; its log went with a log dir
    directories: tuple[str, ...] = ()  # ids, in the order of `replicas`; "": not assigned yet. Invariant: all, or ()
    elr: tuple[int, ...] = ()  # Invariant: of the replicas, not of the ISR; each has every committed record (ADR 0017)
    adding_replicas: tuple[int, ...] = ()  # Invariant: of the replicas, and not all of them
    removing_replicas: tuple[int, ...] = ()  # Invariant: of the replicas, not being added, and not all of the others
    replicas_before: tuple[int, ...] = ()  # Invariant: (), or the replicas but those that are added, in another order

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        made = cls(
            topic_id=record.topic_id,
            partition=record.partition,
            replicas=record.replicas,
            isr=record.isr,
            leader_id=record.leader_id,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            log_lost=record.log_lost,
            directories=record.directories,
            elr=record.elr,
            adding_replicas=record.adding_replicas,
            removing_replicas=record.removing_replicas,
            replicas_before=record.replicas_before,
        )
        return made._checked()

    def to_record(self) -> PartitionRecord:
        return PartitionRecord(
            topic_id=self.topic_id,
            partition=self.partition,
            replicas=self.replicas,
            isr=self.isr,
            leader_id=self.leader_id,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            log_lost=self.log_lost,
            directories=self.directories,
            elr=self.elr,
            adding_replicas=self.adding_replicas,
            removing_replicas=self.removing_replicas,
            replicas_before=self.replicas_before,
        )

    def is_moving_to(self, broker_id: int) -> bool:
        """True if a reassignment adds the replica of this broker, and it is not in sync yet."""
        return broker_id in self.adding_replicas and broker_id not in self.isr

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """The partition after the change; naming a leader raises the leader epoch, any change but that of
        directories the partition epoch."""
        is_of_directories = change.directories is not None and change == PartitionChangeRecord(
            change.topic_id, change.partition, directories=change.directories
        )
        changed = PartitionRegistration(
            topic_id=self.topic_id,
            partition=self.partition,
            replicas=self.replicas if change.replicas is None else change.replicas,
            isr=self.isr if change.isr is None else change.isr,
            leader_id=self.leader_id if change.leader_id is None else change.leader_id,
            leader_epoch=self.leader_epoch if change.leader_id is None else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + (0 if is_of_directories else 1),
            log_lost=self._log_lost_after(change),
            directories=self._directories_after(change),
            elr=self.elr if change.elr is None else change.elr,
            adding_replicas=self.adding_replicas if change.adding_replicas is None else change.adding_replicas,
            removing_replicas=self.removing_replicas if change.removing_replicas is None else change.removing_replicas,
            replicas_before=self.replicas_before if change.replicas is None else change.replicas_before or (),
        )
        return changed._checked()

    def _directories_after(self, change: PartitionChangeRecord) -> tuple[str, ...]:
        if change.directories is not None:
            return change.directories
        if change.replicas is None or not self.directories:
            return self.directories
        after = tuple(map(self.directory_of, change.replicas))
        return after if any(after) else ()

    def _log_lost_after(self, change: PartitionChangeRecord) -> bool:
        if change.log_lost is not None:
            return change.log_lost
        return self.log_lost and change.isr in (None, self.isr)

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.topic_id, self.partition)

    def directory_of(self, broker_id: int) -> str:
        """The id of the log dir that holds the broker's replica; "" where it is not assigned, or has no replica."""
        if not self.directories or broker_id not in self.replicas:
            return ""
        return self.directories[self.replicas.index(broker_id)]

    def directories_with(self, broker_id: int, directory: str) -> tuple[str, ...]:
        """`directories`, with this one for the broker's replica."""
        now = self.directories or ("",) * len(self.replicas)
        after = tuple(directory if r == broker_id else d for r, d in zip(self.replicas, now, strict=True))
        return after if any(after) else ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas of the partition once the reassignment is complete (KIP-455)."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas of the partition if the reassignment is cancelled, in their order before it."""
        return self.replicas_before or self.staying_replicas

    @property
    def staying_replicas(self) -> tuple[int, ...]:
        """The replicas but those that are added, in the order of the target."""
        return tuple(replica for replica in self.replicas if replica not in self.adding_replicas)

    @property
    def replication_factor(self) -> int:
        """How many replicas it has before a reassignment or after it, whichever is less."""
        return len(self.replicas) - max(len(self.adding_replicas), len(self.removing_replicas))

    @property
    def has_leader(self) -> bool:
        return self.leader_id != NO_LEADER

    def _checked(self) -> PartitionRegistration:
        """I11, and of I32 what a partition shows, are checked here: no record, whatever wrote it, may break them."""
        if not self.isr or not set(self.isr) <= set(self.replicas):
            raise InvariantViolation(f"ISR is empty or not a subset of the replicas: {self}")
        if self.has_leader and self.leader_id not in self.isr:
            raise InvariantViolation(f"leader is not in the ISR: {self}")
        if len(set(self.elr)) < len(self.elr) or not set(self.elr) <= set(self.replicas).difference(self.isr):
            raise InvariantViolation(f"ELR names a replica twice, an ISR member or no replica: {self}")
        if self.log_lost and (self.has_leader or len(self.isr) > 1):
            raise InvariantViolation(f"a partition whose log is lost has a leader or a second ISR member: {self}")
        if len(set(self.replicas)) < len(self.replicas):
            raise InvariantViolation(f"a broker is named twice among the replicas: {self}")
        adding, removing = set(self.adding_replicas), set(self.removing_replicas)
        if (
            not adding.isdisjoint(removing)
            or not adding | removing <= set(self.replicas)
            or self.replication_factor < 1
        ):
            raise InvariantViolation(f"the reassignment does not fit the replicas: {self}")
        if self.replicas_before and sorted(self.replicas_before) != sorted(self.staying_replicas):
            raise InvariantViolation(f"the replicas of before are others than those that were not added: {self}")
        if len(self.directories) not in (0, len(self.replicas)):
            raise InvariantViolation(f"the directories are not one for each replica: {self}")
        return self
