"""The balanced assignment of members that subscribe to different topics.

Members keep what they have. What is free goes to the subscriber that has the least; then partitions move from a member
to a subscriber that has at least two fewer, until none can. Each move lowers the sum of the squares of the counts, so
there are finitely many. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from broker.groups.consumer.assignors.problem import SubscribedMember, Topics, in_fixed_order
from broker.groups.consumer.member import Assignment

Has = dict[int, list[int]]
"""The partitions of one topic, by the place of the member that has some of them."""


def general(candidates: Sequence[SubscribedMember], topics: Topics) -> dict[str, Assignment]:
    members = in_fixed_order(candidates)
    subscribers: dict[str, list[int]] = {}
    for index, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(index)
    # Topics with few subscribers first: the members of the others can make up for them.
    order = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    counts = [0] * len(members)
    has: dict[str, Has] = {topic_id: {} for topic_id in order}
    free = {topic_id: bytearray(b"\1") * topics[topic_id].partitions for topic_id in order}
    for index, member in enumerate(members):
        counts[index] = _keep(index, member, has, free)
    for topic_id in order:
        left = [partition for partition, flag in enumerate(free[topic_id]) if flag]
        if left:
            _give(left, has[topic_id], subscribers[topic_id], members, counts, topics[topic_id].racks)
    moved = True
    while moved:
        moved, lowest = False, min(counts, default=0)
        for topic_id in order:
            moved = _level(has[topic_id], subscribers[topic_id], counts, lowest) or moved
    found: dict[str, dict[str, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, owners in has.items():
        for index, partitions in owners.items():
            if partitions:
                found[members[index].member_id][topic_id] = frozenset(partitions)
    return dict(found)


def _keep(index: int, member: SubscribedMember, has: dict[str, Has], free: dict[str, bytearray]) -> int:
    """Leave the member what it has of topics that it subscribes to, but for what one before it has; how much that
    is."""
    count = 0
    for topic_id, partitions in member.target.items():
        if topic_id not in member.topic_ids:
            continue
        flags = free[topic_id]
        kept = [partition for partition in sorted(partitions) if partition < len(flags) and flags[partition]]
        for partition in kept:
            flags[partition] = 0
        if kept:
            has[topic_id][index] = kept
            count += len(kept)
    return count


def _give(
    left: list[int],
    has: Has,
    subscribers: list[int],
    members: list[SubscribedMember],
    counts: list[int],
    racks: Sequence[frozenset[str]],
) -> None:
    """Gives each partition to the subscriber with the fewest, one after the other. That subscriber gets a partition
    with a replica in its rack, if one is left."""
    heap = [(counts[index], index) for index in subscribers]
    heapify(heap)
    near: dict[str, list[int]] = {}
    for partition in reversed(left):
        for rack in racks[partition] if partition < len(racks) else ():
            near.setdefault(rack, []).append(partition)
    rest, in_order = set(left), iter(left)
    while rest:
        count, index = heap[0]
        local = near.get(members[index].rack_id or "", [])
        while local and local[-1] not in rest:
            local.pop()
        partition = local.pop() if local else next(one for one in in_order if one in rest)
        rest.remove(partition)
        has.setdefault(index, []).append(partition)
        counts[index] = count + 1
        heapreplace(heap, (count + 1, index))


def _level(has: Has, subscribers: list[int], counts: list[int], lowest: int) -> bool:
    """Move partitions of one topic from its fullest owners to its emptiest subscribers; True if one moved. No member
    has fewer than `lowest`."""
    moved = False
    while True:
        fullest = max((index for index, partitions in has.items() if partitions), key=counts.__getitem__, default=None)
        if fullest is None or counts[fullest] - lowest < 2:
            return moved
        emptiest = min(subscribers, key=counts.__getitem__)
        if counts[fullest] - counts[emptiest] < 2:
            return moved
        has.setdefault(emptiest, []).append(has[fullest].pop())
        counts[fullest] -= 1
        counts[emptiest] += 1
        moved = True
