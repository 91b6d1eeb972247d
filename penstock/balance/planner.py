"""Plans the fewest moves of replicas that make a cluster even, and empty the brokers that are drained.

The order of the steps is the order of their weight; none takes back what one before it has reached:

    drain      brokers that are drained keep nothing
    racks      a partition is in as many racks as it can be
    replicas   brokers differ by one replica at most (replica_counts.py)
    bytes      each broker's bytes are within a tolerance of the mean (byte_counts.py)
    leaders    brokers differ by one preferred leader at most (leader_counts.py)

Drain is made where a broker says so, racks and replicas are the goal "replicas", and the others are goals of their own.
The moves of drain and racks are made here, whatever they do to the numbers: each goes to the broker with the fewest
replicas that may take it; of those, to the one with the fewest of the topic.

A plan is decided by the state alone: equal states give equal plans, and the state after a plan gives an empty one. Not
here: the goal "dirs" (dirs/dir_planner.py), how a plan is performed (penstock/cli/moves/), and balance by schedule
(metadata/controller/balance/).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from penstock.balance.byte_counts import BYTES_TOLERANCE, even_bytes
from penstock.balance.cluster import ClusterState, DrainImpossibleError, Goal
from penstock.balance.layout import ReplicaLayout
from penstock.balance.leader_counts import even_leaders
from penstock.balance.plan import Plan, PreferredElection, Reassignment, after_plan, loads_of
from penstock.balance.racks import rack_count
from penstock.balance.replica_counts import even_replicas

ROUNDS_MAX = 20
"""Moves for bytes may open a way for replicas that racks had closed. Each round is better than the one before."""


def make_plan(state: ClusterState, goals: Set[Goal], bytes_tolerance: float = BYTES_TOLERANCE) -> Plan:
    """DrainImpossibleError if a broker that is drained has a replica that can go nowhere."""
    layout = ReplicaLayout(state)
    drain(layout)
    if Goal.REPLICAS in goals:
        spread_racks(layout)
    for _ in range(ROUNDS_MAX):
        before = list(layout.replicas)
        if Goal.REPLICAS in goals:
            even_replicas(layout)
        if Goal.BYTES in goals:
            even_bytes(layout, bytes_tolerance, keep_counts=Goal.REPLICAS in goals)
        if before == layout.replicas or Goal.BYTES not in goals:
            break
    if Goal.LEADERS in goals:
        even_leaders(layout)
    return _plan(state, layout, elect_all=Goal.LEADERS in goals)


def _plan(state: ClusterState, layout: ReplicaLayout, elect_all: bool) -> Plan:
    changed = [
        Reassignment(
            partition.topic, partition.index, partition.replicas, after, partition.size_bytes, partition.topic_id
        )
        for partition, after in zip(layout.partitions, layout.replicas, strict=True)
        if partition.replicas != after
    ]
    moved = {(each.topic, each.index) for each in changed}
    takers = frozenset(layout.takers)
    elections = tuple(
        PreferredElection(partition.topic, partition.index, after[0])
        for partition, after in zip(layout.partitions, layout.replicas, strict=True)
        if partition.leader_id != after[0] in takers
        and not partition.moving
        and (elect_all or (partition.topic, partition.index) in moved)
    )
    fewer = tuple(
        f"{each.topic}-{each.index}"
        for each in changed
        if rack_count(each.after, layout.rack_of) < rack_count(each.before, layout.rack_of)
    )
    ordered = tuple(sorted(changed, key=lambda each: not each.added))
    done = after_plan(state, Plan(ordered, elections, (), ()))
    return Plan(ordered, elections, loads_of(state), loads_of(done), fewer)


def drain(layout: ReplicaLayout) -> None:
    """Every replica goes off the brokers that are drained, but those of partitions that are being reassigned.
    DrainImpossibleError if one can go nowhere."""
    if not layout.draining:
        return
    leads = Counter(replicas[0] for replicas in layout.replicas if replicas)
    for place in layout.movable():
        first = layout.replicas[place][0]
        for source in layout.draining:
            if source in layout.replicas[place]:
                layout.move(place, source, _least(layout, place, _checked(layout, place, source)))
        if first in layout.draining:
            able = [replica for replica in layout.replicas[place] if replica in layout.takers]
            leader = min(able, key=lambda replica: (leads[replica], replica))
            layout.lead(place, leader)
            leads[leader] += 1


def spread_racks(layout: ReplicaLayout) -> None:
    """A partition with two replicas in one rack gives one of them to a rack that has none."""
    racks = {layout.rack_of(broker_id) for broker_id in layout.takers}
    for place in layout.movable():
        while _spread_once(layout, place, racks):
            continue


def _spread_once(layout: ReplicaLayout, place: int, racks: set[str]) -> bool:
    replicas = layout.replicas[place]
    used = Counter(map(layout.rack_of, replicas))
    if len(used) == len(replicas) or racks <= used.keys():
        return False
    crowded = [r for r in replicas if used[layout.rack_of(r)] > 1 and r in layout.takers]
    if not crowded:
        return False
    source = max(crowded, key=lambda replica: (layout.counts[replica], replica))
    fresh = tuple(b for b in layout.takers if layout.rack_of(b) not in used)
    layout.move(place, source, _least(layout, place, fresh))
    return True


def _least(layout: ReplicaLayout, place: int, brokers: tuple[int, ...]) -> int:
    topic = layout.partitions[place].topic
    return min(brokers, key=lambda broker: (layout.counts[broker], layout.topic_count(broker, topic), broker))


def _checked(layout: ReplicaLayout, place: int, source: int) -> tuple[int, ...]:
    targets = layout.targets(place, source)
    if not targets:
        raise DrainImpossibleError(
            f"broker {source} cannot be drained: {layout.partitions[place].name} has the replicas"
            f" {list(layout.partitions[place].replicas)}, and none of the brokers in service, {list(layout.takers)},"
            " can take its place; start another broker first, or give the partition fewer replicas with"
            " `penstock reassignments create`"
        )
    return targets
