"""Plans the fewest moves of replicas that make a cluster even, and empty the brokers that are drained.

The order of the steps is the order of their weight; none takes back what one before it has reached:

    drain      brokers that are drained keep nothing
    racks      a partition is in as many racks as it can be
    replicas   brokers differ by one replica at most (replica_counts.py)
    bytes      each broker's bytes are within a tolerance of the mean (byte_counts.py)
    leaders    brokers differ by one preferred leader at most (leader_counts.py)

Drain is made where a broker says so, racks and replicas are the goal "replicas", and the others are goals of their own.
A plan is decided by the state alone: equal states give equal plans, and the state after a plan gives an empty one. Not
here: the goal "dirs" (dirs/dir_planner.py), how a plan is performed (penstock/cli/moves/), and balance by schedule
(metadata/controller/balance/).
"""

from __future__ import annotations

from collections.abc import Set

from penstock.balance.byte_counts import BYTES_TOLERANCE, even_bytes
from penstock.balance.cluster import ClusterState, Goal
from penstock.balance.layout import ReplicaLayout
from penstock.balance.leader_counts import even_leaders
from penstock.balance.plan import Plan, PreferredElection, Reassignment, after_plan, loads_of
from penstock.balance.racks import rack_count
from penstock.balance.replica_counts import even_replicas
from penstock.balance.required_moves import drain, spread_racks

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
