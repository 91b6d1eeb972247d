"""The state of one consumer group: its epochs, its members, what each shall own, and who owns each partition.

Hard state is what the records say; replay.py alone changes it, by the methods here. Soft state (`stale`, `changed`)
says what the next heartbeat must look at again. Everything derived (owners, counts, instances) is kept as members
change: a heartbeat costs what its member has, and not what the group has. Pure. Not here: deciding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from broker.groups.consumer.member import NOTHING, Assignment, Member, MemberState, Owned
from broker.groups.consumer.visible_topics import VisibleTopics
from penstock.lazy_dataclass import dataclass

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern stood for; the calendar's time of it."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    assignment_timestamp_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    # Derived from the members:
    owners: dict[str, dict[int, str]] = field(default_factory=dict)
    """The member that owns a partition, by topic id and partition: it has it assigned, or has still to give it up."""
    instances: dict[str, str] = field(default_factory=dict)
    """The member of each group.instance.id."""
    names: Counter[str] = field(default_factory=Counter)
    """Members that subscribe to a topic by its name."""
    patterns: Counter[str] = field(default_factory=Counter)
    """Members that subscribe by a pattern."""
    # Soft:
    stale: bool = field(default=True, compare=False)
    """Topics may have changed since the epoch's metadata hash was taken; always so after a load."""
    changed: set[str] | None = field(default=None, compare=False)
    """Topics that came or went since the patterns were resolved; None: any may have."""
    unresolved: dict[str, None] = field(default_factory=dict, compare=False)
    """The patterns that have still to be matched with every name, in their order."""

    visible_topics: VisibleTopics = field(default_factory=VisibleTopics, compare=False)
    parties: dict[str, str] = field(default_factory=dict, compare=False)
    """The party (network/parties.py) of each member that was heard here, by the member's id."""

    assigned_at_ms: int = field(default=0, compare=False)
    """The time of turns at which its last target was computed; 0: not since it was loaded."""
    assignment_work: int = field(default=0, compare=False)
    """How much that was: partitions and subscriptions."""
    no_memory_until_ms: int = field(default=0, compare=False)
    """There was no memory for the new target; it is tried again then, in the time of turns."""
    epoch_without_target: int = field(default=-1, compare=False)
    """The epoch whose target fits into no record."""

    @property
    def state(self) -> str:
        """Kafka's word for it."""
        if not self.members:
            return EMPTY
        if self.epoch > self.assignment_epoch:
            return ASSIGNING
        settled = all(
            member.state is MemberState.STABLE and member.epoch == self.assignment_epoch
            for member in self.members.values()
        )
        return STABLE if settled else RECONCILING

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def subscribed(self) -> set[str]:
        """The names of the topics that members subscribe to, there or not."""
        found = set(self.names)
        for regex in self.patterns:
            if regex in self.regexes:
                found |= self.regexes[regex].topics
        return found

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.names or any(
            topic in self.regexes[regex].topics for regex in self.patterns if regex in self.regexes
        )

    def subscription_of(self, member: Member) -> frozenset[str]:
        """The names of the topics that the member subscribes to."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.names | resolved.topics if resolved else member.names

    @property
    def is_stale(self) -> bool:
        return self.stale or bool(self.changed)

    def resolve_again(self) -> None:
        """The next heartbeat looks at every name anew."""
        self.stale, self.changed = True, None

    # -- changes, of replay alone --------------------------------------------------------------------------------------

    def set_member(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        if before is not None:
            self._forget(before, member)
        self.members[member.member_id] = member
        if before is None or before.names is not member.names:
            self.names.update(member.names)
        if member.regex and (before is None or before.regex != member.regex):
            self.patterns[member.regex] += 1
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if before is None or before.assigned is not member.assigned or before.revoking is not member.revoking:
            for topic_id, partition in _pairs(member):
                self.owners.setdefault(topic_id, {})[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Removes the member, if the group has it."""
        member = self.members.pop(member_id, None)
        self.parties.pop(member_id, None)
        if member is not None:
            self._forget(member, None)
            if self.visible_topics.left(member):
                self.resolve_again()

    def _forget(self, before: Member, now: Member | None) -> None:
        """Take out of what is derived what stands there for `before`, where `now` is different."""
        if now is None or now.names is not before.names:
            self.names.subtract(before.names)
            for name in before.names:
                if not self.names[name]:
                    del self.names[name]
        if before.regex and (now is None or now.regex != before.regex):
            self.patterns[before.regex] -= 1
            if not self.patterns[before.regex]:
                del self.patterns[before.regex]
        instance = before.instance_id
        if (
            instance is not None
            and (now is None or now.instance_id != instance)
            and self.instances.get(instance) == before.member_id
        ):
            del self.instances[instance]
        if now is None or now.assigned is not before.assigned or now.revoking is not before.revoking:
            for topic_id, partition in _pairs(before):
                # A later record may have given the partition to another member already (a log that was compacted).
                owners = self.owners.get(topic_id)
                if owners is not None and owners.get(partition) == before.member_id:
                    del owners[partition]
                    if not owners:
                        del self.owners[topic_id]

    def __repr__(self) -> str:
        return (
            f"ConsumerGroup({self.group_id}, {self.state}, epoch={self.epoch}, assignment={self.assignment_epoch},"
            f" members={len(self.members)})"
        )


def _pairs(member: Member) -> Iterator[tuple[str, int]]:
    partitions: Owned
    for partitions in (member.assigned, member.revoking):
        for topic_id, epochs in partitions.items():
            for partition in epochs:
                yield topic_id, partition
