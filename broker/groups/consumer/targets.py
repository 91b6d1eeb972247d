"""The target of a consumer group: who shall own what in its epoch; and the hash that tells when topics changed.

Pure. Not here: the assignors (assignors/), and writing the target (changes.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from broker.coordination.turn import KnownTopics, TopicFacts
from broker.groups.consumer.assignors.problem import AssignedTopic, Assignor, SubscribedMember
from broker.groups.consumer.assignors.ranges import ranges
from broker.groups.consumer.assignors.uniform import uniform
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import NOTHING, Assignment

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform, "range": ranges}


def assignor_of(group: ConsumerGroup, allowed: tuple[str, ...]) -> str:
    """The assignor that most of the members ask for; the first allowed one if none asks."""
    asked = Counter(member.server_assignor for member in group.members.values() if member.server_assignor in allowed)
    return min(asked, key=lambda name: (-asked[name], allowed.index(name))) if asked else allowed[0]


def new_targets(group: ConsumerGroup, topics: KnownTopics, assignor: str) -> tuple[dict[str, Assignment], int]:
    """A target for each member, and how much work that was: the number of partitions, and of subscriptions where they
    differ."""
    known: dict[str, AssignedTopic] = {}
    ids: dict[str, str] = {}
    for name in group.subscribed():
        topic = topics.by_name(name)
        if topic is not None:
            known[topic.topic_id] = AssignedTopic(topic.topic_id, topic.partitions, topic.racks)
            ids[name] = topic.topic_id
    of_names: dict[frozenset[str], frozenset[str]] = {}
    subscribers: list[SubscribedMember] = []
    for member in group.members.values():
        names = group.subscription_of(member)
        topic_ids = of_names.get(names)
        if topic_ids is None:
            topic_ids = of_names[names] = frozenset(ids[name] for name in names if name in ids)
        target = group.target_of(member.member_id)
        subscribers.append(SubscribedMember(member.member_id, member.instance_id, member.rack_id, topic_ids, target))
    found = ASSIGNORS[assignor](subscribers, known)
    work = sum(topic.partitions for topic in known.values()) + len(subscribers)
    if len(of_names) > 1:
        work += sum(len(one.topic_ids) for one in subscribers)
    return {member_id: found.get(member_id, NOTHING) for member_id in group.members}, work


def topic_hash(topic: TopicFacts) -> bytes:
    """Changes with everything of the topic that an assignment depends on."""
    hashed = blake2b(f"{topic.topic_id} {topic.name} {topic.partitions}".encode(), digest_size=8)
    for partition, racks in enumerate(topic.racks):
        if racks:
            hashed.update(f" {partition}:{','.join(sorted(racks))}".encode())
    return hashed.digest()


def metadata_hash(hashes: Iterable[bytes]) -> int:
    """One hash of all topics that there are; 0 without one. The order does not matter."""
    found = sorted(hashes)
    if not found:
        return 0
    return int.from_bytes(blake2b(b"".join(found), digest_size=8).digest(), "big", signed=True)
