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


def general(candidates: Sequence[SubscribedMember], topics: Topics) -> dict[str, Assignment]:
    members = in_fixed_order(candidates)
    subscribers: dict[str, list[int]] = {}
    for index, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(index)
    # Topics with few subscribers first: the members of the others can make up for them.
    order = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    counts = [0] * len(members)
    has: dict[str, dict[int, list[int]]] = {}
    free: dict[str, list[int]] = {}
    for topic_id in order:
        has[topic_id], free[topic_id] = _kept(members, subscribers[topic_id], topic_id, topics[topic_id].partitions)
        for index, partitions in has[topic_id].items():
            counts[index] += len(partitions)
    for topic_id in order:
        _give(free[topic_id], has[topic_id], subscribers[topic_id], members, counts, topics[topic_id].racks)
    moved = True
    while moved:
        moved = False
        for topic_id in order:
            moved = _level(has[topic_id], subscribers[topic_id], counts) or moved
    found: dict[str, dict[str, frozenset[int]]] = {member.member_id: {} for member in members}
    for topic_id, owners in has.items():
        for index, partitions in owners.items():
            if partitions:
                found[members[index].member_id][topic_id] = frozenset(partitions)
    return dict(found)


def _kept(
    members: list[SubscribedMember], subscribers: list[int], topic_id: str, count: int
) -> tuple[dict[int, list[int]], list[int]]:
    """The partitions of the topic that subscribers have, and those that none has."""
    flags = bytearray(b"\1") * count
    has: dict[int, list[int]] = {index: [] for index in subscribers}
    for index in subscribers:
        for partition in sorted(members[index].target.get(topic_id, ())):
            if partition < count and flags[partition]:
                flags[partition] = 0
                has[index].append(partition)
    return has, [partition for partition, flag in enumerate(flags) if flag]


def _give(
    free: list[int],
    has: dict[int, list[int]],
    subscribers: list[int],
    members: list[SubscribedMember],
    counts: list[int],
    racks: Sequence[frozenset[str]],
) -> None:
    """Each to the subscriber with the fewest; of these to one in a replica's rack, if there is one."""
    if not free:
        return
    heap = [(counts[index], index) for index in subscribers]
    heapify(heap)
    for partition in free:
        near = racks[partition] if partition < len(racks) else frozenset()
        count, index = heap[0]
        if near and members[index].rack_id not in near:
            found = next((i for c, i in heap if c == count and members[i].rack_id in near), None)
            if found is not None:
                has[found].append(partition)
                counts[found] += 1
                heap[heap.index((count, found))] = (count + 1, found)
                heapify(heap)
                continue
        has[index].append(partition)
        counts[index] += 1
        heapreplace(heap, (counts[index], index))


def _level(has: dict[int, list[int]], subscribers: list[int], counts: list[int]) -> bool:
    """Move partitions of one topic from its fullest owners to its emptiest subscribers; True if one moved."""
    moved = False
    while True:
        fullest = max((index for index in subscribers if has[index]), key=lambda i: (counts[i], i), default=None)
        emptiest = min(subscribers, key=lambda i: (counts[i], i))
        if fullest is None or counts[fullest] - counts[emptiest] < 2:
            return moved
        has[emptiest].append(has[fullest].pop())
        counts[fullest] -= 1
        counts[emptiest] += 1
        moved = True
