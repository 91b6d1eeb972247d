"""One member of a consumer group: what it said of itself, and which partitions it owns.

    assigned   the member may read these; each with the epoch in which it was given (KIP-1251)
    revoking   the member read these and was told to stop; they are its own until it says that it stopped

A member is never changed, only replaced. Pure. Not here: its target, which is the group's (group.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import IntEnum
from typing import Any, Final

from broker.groups.group_config import GroupConfig
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.consumer_protocol import JOINS, ConsumerGroupHeartbeatRequest, TopicIdPartitions

Assignment = Mapping[str, frozenset[int]]
"""Partitions by the id of their topic. No topic has an empty set, so equal assignments are equal mappings."""
Owned = Mapping[str, Mapping[int, int]]
"""The group's epoch in which the member got a partition, by topic id and partition. No topic is empty."""
NOTHING: Final[Assignment] = {}
NOTHING_OWNED: Final[Mapping[Any, Any]] = {}
UNKNOWN_EPOCH: Final = 0
"""The epoch of a partition whose record was written without one: a commit of any epoch is taken."""


class MemberState(IntEnum):
    """Kafka's numbers, as they stand in the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It stays in its epoch until it has given up what it is to give up."""
    UNRELEASED_PARTITIONS = 2
    """It is in the new epoch, and waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True)
class ClassicSession:
    """A member that speaks the classic protocol in this group: its session, and its protocols with their metadata."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: frozenset[str] = frozenset()
    """The topics that it subscribes to by name."""
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicSession | None = None
    epoch: int = JOINS
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    def said(self, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str) -> Member:
        """The member as its heartbeat describes it; what the heartbeat leaves out is as before."""
        names, regex, assignor = request.subscribed_topic_names, request.subscribed_topic_regex, request.server_assignor
        return replace(
            self,
            instance_id=request.instance_id or self.instance_id,
            rack_id=request.rack_id or self.rack_id,
            client_id=client_id,
            client_host=client_host,
            names=self.names if names is None else frozenset(names),
            regex=self.regex if regex is None else regex or None,
            rebalance_timeout_ms=(
                self.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
            ),
            server_assignor=self.server_assignor if assignor is None else assignor or None,
            classic=None,
        )

    def in_epoch(
        self, epoch: int, heard: int, state: MemberState, assigned: Owned, revoking: Owned = NOTHING_OWNED
    ) -> Member:
        """The member with these partitions. The epoch that was `heard` of it stays good until it tells the new one,
        however many answers are lost."""
        previous = self.previous_epoch if epoch == self.epoch else heard
        return replace(self, epoch=epoch, previous_epoch=previous, state=state, assigned=assigned, revoking=revoking)

    def epoch_of(self, topic_id: str, partition: int) -> int | None:
        """The epoch in which it got the partition that it still owns; None for one that it does not."""
        for owned in (self.assigned, self.revoking):
            epochs = owned.get(topic_id)
            if epochs is not None and partition in epochs:
                return epochs[partition]
        return None


def assignment_of(partitions: tuple[TopicIdPartitions, ...]) -> dict[str, frozenset[int]]:
    """Partitions of a request; a topic that comes twice has all of its partitions."""
    found: dict[str, frozenset[int]] = {}
    for topic in partitions:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def as_message(partitions: Owned | Assignment) -> tuple[TopicIdPartitions, ...]:
    """Partitions as answers and requests have them, in order."""
    return tuple(TopicIdPartitions(topic_id, tuple(sorted(partitions[topic_id]))) for topic_id in sorted(partitions))


def owns_any(owned: Assignment, partitions: Owned) -> bool:
    """True if one of `partitions` is among `owned`."""
    return any(not owned.get(topic_id, frozenset()).isdisjoint(epochs) for topic_id, epochs in partitions.items())


def is_within(owned: Assignment, *wholes: Owned) -> bool:
    """True if each partition of `owned` is in one of `wholes`."""
    return all(
        any(partition in whole.get(topic_id, NOTHING_OWNED) for whole in wholes)
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def session_timeout_ms(config: GroupConfig, member: Member) -> int:
    """A classic member has named its own."""
    classic = member.classic
    return config.group_consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
