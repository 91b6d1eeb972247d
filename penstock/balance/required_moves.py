"""The moves that are made whatever they do to the numbers: off brokers that are drained, and into more racks.

Each goes to the broker with the fewest replicas that may take it; of those, to the one with the fewest of the topic.
"""

from __future__ import annotations

from collections import Counter

from penstock.balance.cluster import DrainImpossibleError
from penstock.balance.layout import ReplicaLayout


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
