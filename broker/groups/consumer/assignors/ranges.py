"""The assignor `range`: of each topic, every subscriber gets partitions that follow one another.

Topics with as many partitions and the same subscribers are cut in the same places, so that a member has the same
partitions of each: joins of co-partitioned topics work. Static members come first, in the order of their instance ids,
and so keep their partitions over restarts. Of a topic with fewer partitions than subscribers the last ones get none.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.groups.consumer.assignors.problem import SubscribedMember, Topics, in_fixed_order
from broker.groups.consumer.member import Assignment


def ranges(members: Sequence[SubscribedMember], topics: Topics) -> dict[str, Assignment]:
    found: dict[str, dict[str, frozenset[int]]] = {member.member_id: {} for member in members}
    subscribers: dict[str, list[str]] = {}
    for member in in_fixed_order(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    for topic_id, member_ids in subscribers.items():
        size, larger = divmod(topics[topic_id].partitions, len(member_ids))
        first = 0
        for index, member_id in enumerate(member_ids):
            end = first + size + (index < larger)
            if end == first:
                break
            found[member_id][topic_id] = frozenset(range(first, end))
            first = end
    return dict(found)
