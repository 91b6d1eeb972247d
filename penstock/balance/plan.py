"""A plan: which partitions get other replicas, which then get their preferred leader, what it costs and what it brings.

Reassignments that copy data come first: those that only change the order of the replicas cost nothing, and a plan that
is stopped half-way is better stopped before them. Not here: how a plan is made (planner.py), and how it is performed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.balance.cluster import BalancedBroker, BalancedPartition, ClusterState
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The replicas of a partition, before and after, in order of preference."""

    topic: str
    index: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None = None  # of one replica; None: not known
    topic_id: str = ""  # a topic that is created again has another

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that copy the partition; () where only the order changes."""
        return tuple(replica for replica in self.after if replica not in self.before)


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """A partition whose first replica becomes its leader."""

    topic: str
    index: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The load of one broker."""

    broker_id: int
    rack: str
    takes: bool  # in service, neither drained nor cordoned: counted in the spreads
    replicas: int
    leaders: int
    size_bytes: int  # of the partitions whose size is known


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps, and the load of each broker, by id, before and after."""

    reassignments: tuple[Reassignment, ...]
    elections: tuple[PreferredElection, ...]
    before: tuple[BrokerLoad, ...]
    after: tuple[BrokerLoad, ...]
    fewer_racks: tuple[str, ...] = ()  # partitions that are in fewer racks than before, because a drain leaves no other

    @property
    def is_empty(self) -> bool:
        return not self.reassignments and not self.elections

    @property
    def moves(self) -> tuple[Reassignment, ...]:
        """The reassignments that copy data."""
        return tuple(each for each in self.reassignments if each.added)

    @property
    def replicas_moved(self) -> int:
        return sum(len(each.added) for each in self.reassignments)

    @property
    def bytes_to_copy(self) -> int | None:
        """The bytes that the plan copies; None if the size of a partition that is copied is not known."""
        sizes = [(each.size_bytes, len(each.added)) for each in self.moves]
        known = [size * copies for size, copies in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


def spread(loads: Iterable[BrokerLoad], what: Callable[[BrokerLoad], int]) -> int:
    """The largest minus the smallest number of the brokers that take replicas; 0 without such brokers."""
    numbers = [what(load) for load in loads if load.takes]
    return max(numbers) - min(numbers) if numbers else 0


def loads_of(state: ClusterState) -> tuple[BrokerLoad, ...]:
    """The load of each registered broker, by id."""
    replicas, leaders, sizes = ({broker.broker_id: 0 for broker in state.brokers} for _ in range(3))
    for partition in state.partitions:
        for replica in partition.replicas:
            if replica in replicas:
                replicas[replica] += 1
                sizes[replica] += partition.size_bytes or 0
        if partition.leader_id in leaders:
            leaders[partition.leader_id] += 1

    def load(broker: BalancedBroker) -> BrokerLoad:
        id_, takes = broker.broker_id, broker.takes_replicas
        return BrokerLoad(id_, broker.rack, takes, replicas[id_], leaders[id_], sizes[id_])

    return tuple(load(broker) for broker in sorted(state.brokers, key=lambda broker: broker.broker_id))


def after_plan(state: ClusterState, plan: Plan) -> ClusterState:
    """The cluster once everything in the plan has been done."""
    replicas = {(each.topic, each.index): each.after for each in plan.reassignments}
    leaders = {(each.topic, each.index): each.leader_id for each in plan.elections}

    def changed(partition: BalancedPartition) -> BalancedPartition:
        key = (partition.topic, partition.index)
        if key not in replicas and key not in leaders:
            return partition
        after = replicas.get(key, partition.replicas)
        return replace(partition, replicas=after, leader_id=leaders.get(key, partition.leader_id))

    return ClusterState(state.brokers, tuple(map(changed, state.partitions)))
