"""The assignor `uniform`: every member gets as many partitions as any other, and keeps what it has.

Where all members subscribe to the same topics, the counts differ by one at most, and no partition moves that could
stay. Where they do not, no partition can be moved to a member with at least two fewer (general.py). A member gets
partitions that have a replica in its rack, where that costs neither balance nor a move. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from broker.groups.consumer.assignors.general import general
from broker.groups.consumer.assignors.problem import SubscribedMember, Topics, in_fixed_order
from broker.groups.consumer.member import Assignment

Pair = tuple[str, int]


def uniform(candidates: Sequence[SubscribedMember], topics: Topics) -> dict[str, Assignment]:
    subscriptions = {one.topic_ids for one in candidates}
    if len(subscriptions) > 1:
        return general(candidates, topics)
    return _homogeneous(in_fixed_order(candidates), topics, next(iter(subscriptions), frozenset()))


def _homogeneous(members: list[SubscribedMember], topics: Topics, topic_ids: frozenset[str]) -> dict[str, Assignment]:
    free = {topic_id: bytearray(b"\1") * topics[topic_id].partitions for topic_id in sorted(topic_ids)}
    kept = [_still_there(member, free) for member in members]
    quota, extras = divmod(sum(map(len, free.values())), len(members)) if members else (0, 0)
    # The members that have the most keep one more than the others, while there is one more to have.
    for index in sorted(range(len(members)), key=lambda i: -len(kept[i])):
        limit = quota + (extras > 0)
        if len(kept[index]) >= limit:
            extras -= limit > quota
            kept[index], dropped = _halved(kept[index], limit)
            for topic_id, partition in dropped:
                free[topic_id][partition] = 1
    left = [(topic_id, partition) for topic_id, flags in free.items() for partition, flag in enumerate(flags) if flag]
    wanting = [index for index in range(len(members)) if len(kept[index]) < quota + (extras > 0)]
    racks = {members[index].rack_id for index in wanting} - {None}
    if racks and any(topics[topic_id].racks for topic_id in topic_ids):
        left = _near_first(left, members, kept, wanting, topics, quota)
    _deal(left, kept, wanting, quota, extras)
    return {member.member_id: _grouped(kept[index]) for index, member in enumerate(members)}


def _still_there(member: SubscribedMember, free: dict[str, bytearray]) -> list[Pair]:
    """The partitions of its target that there are, and that no member before it has; they are no longer free."""
    found: list[Pair] = []
    for topic_id in sorted(member.target):
        flags = free.get(topic_id)
        if flags is None:
            continue
        for partition in sorted(member.target[topic_id]):
            if partition < len(flags) and flags[partition]:
                flags[partition] = 0
                found.append((topic_id, partition))
    return found


def _halved(pairs: list[Pair], limit: int) -> tuple[list[Pair], list[Pair]]:
    """`limit` pairs to keep, and the rest to drop. They are taken evenly from all topics, so that each topic stays
    spread."""
    count = len(pairs)
    kept: list[Pair] = []
    dropped: list[Pair] = []
    for index, pair in enumerate(pairs):
        (kept if (index + 1) * limit // count > index * limit // count else dropped).append(pair)
    return kept, dropped


def _near_first(
    left: list[Pair],
    members: list[SubscribedMember],
    kept: list[list[Pair]],
    wanting: list[int],
    topics: Topics,
    quota: int,
) -> list[Pair]:
    """Give members in the rack of a replica what they may have up to the quota; the rest is returned."""
    by_rack: dict[str, deque[int]] = {}
    for index in wanting:
        rack = members[index].rack_id
        if rack and len(kept[index]) < quota:
            by_rack.setdefault(rack, deque()).append(index)
    rest: list[Pair] = []
    for topic_id, partition in left:
        racks = topics[topic_id].racks
        near = sorted(racks[partition]) if partition < len(racks) else []
        queues = [by_rack[rack] for rack in near if by_rack.get(rack)]
        if not queues:
            rest.append((topic_id, partition))
            continue
        queue = max(queues, key=len)
        index = queue.popleft()
        kept[index].append((topic_id, partition))
        if len(kept[index]) < quota:
            queue.append(index)
    return rest


def _deal(left: list[Pair], kept: list[list[Pair]], wanting: list[int], quota: int, extras: int) -> None:
    """One partition to each in turn, up to the quota; then the extras, one each to members that have none."""
    queue = deque(index for index in wanting if len(kept[index]) < quota)
    rest = iter(left)
    while queue:
        index = queue.popleft()
        kept[index].append(next(rest))
        if len(kept[index]) < quota:
            queue.append(index)
    for index, pair in zip((index for index in wanting if len(kept[index]) == quota), rest, strict=False):
        kept[index].append(pair)


def _grouped(pairs: list[Pair]) -> Assignment:
    found: dict[str, list[int]] = {}
    for topic_id, partition in pairs:
        found.setdefault(topic_id, []).append(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
