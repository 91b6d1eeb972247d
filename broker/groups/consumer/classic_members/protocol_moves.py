"""Groups that move between the protocols while their members go on (KIP-848, `group.consumer.migration.policy`).

    upgrade      a member of the consumer protocol joins a classic group of consumers: every classic member goes on with
                 its assignment, in the epoch that is the group's generation, and learns by its next heartbeat that it
                 is to join again
    downgrade    the last member of the consumer protocol is gone: the classic members keep the epoch as their
                 generation, and join again

A group without members changes its protocol with the first member of the other one, whatever the policy is. What is
looked at here raises before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from broker.coordination.turn import Client, Handlers, KnownTopics, Turn
from broker.groups.classic.group import ClassicGroup, chosen_protocol
from broker.groups.classic.member import ClassicMember
from broker.groups.consumer import changes
from broker.groups.consumer.classic_members.embedded import read_assignment, read_subscription, written_assignment
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.member import Assignment, ClassicSession, Member, MemberState, Owned
from broker.groups.group_config import GroupConfig
from broker.groups.records.classic_records import GroupMetadataKey, GroupMetadataValue
from broker.groups.records.record_codec import encoded_size
from penstock.errors import GroupIdNotFoundError
from penstock.lazy_dataclass import dataclass
from penstock.messages.groups.classic_protocol import JoinGroupProtocol
from penstock.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, MalformedConsumerProtocolError

UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})


class ClassicPort(Protocol):
    """The classic groups of the same shard."""

    @property
    def handlers(self) -> Handlers: ...

    def find(self, group_id: str) -> ClassicGroup | None: ...

    def released(self, turn: Turn, group: Any) -> None:
        """The group becomes one of the other protocol."""
        ...

    def adopted(self, turn: Turn, group: Any, protocols: Mapping[str, tuple[JoinGroupProtocol, ...]]) -> None:
        """The group was one of the other protocol; its record was just written. `protocols` are those of its members,
        of which the record has one each."""
        ...


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A classic group, and the consumer group that it is to become."""

    before: ClassicGroup
    after: ConsumerGroup

    def write(self, turn: Turn, classic: ClassicPort) -> None:
        classic.released(turn, self.before)
        group_id = self.before.group_id
        turn.write(GroupMetadataKey(group=group_id), None)
        if not self.after.members:
            return
        for member in self.after.members.values():
            changes.write_metadata(turn, group_id, member)
        changes.write_epoch(turn, group_id, self.after.epoch, self.after.metadata_hash)
        changes.write_targets(turn, ConsumerGroup(group_id), self.after.targets, self.after.assignment_epoch)
        for member in self.after.members.values():
            changes.write_current(turn, group_id, member)


def upgrade(config: GroupConfig, group: ClassicGroup, topics: KnownTopics) -> Upgrade:
    """GroupIdNotFoundError where the group may not, or cannot be moved."""
    after = ConsumerGroup(group.group_id)
    if not group.members:
        return Upgrade(group, after)
    if config.group_consumer_migration_policy not in UPGRADES:
        raise _not_upgraded(group, "group.consumer.migration.policy does not let it")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _not_upgraded(group, "its members are no consumers of topics")
    if len(group.members) > config.group_consumer_max_size:
        raise _not_upgraded(
            group, f"it has more than {config.group_consumer_max_size} members (group.consumer.max.size)"
        )
    after.epoch = after.assignment_epoch = group.generation
    try:
        for member in group.members.values():
            _take_over(after, member, group, topics)
        for member in group.members.values():
            _hold(after, member, group, topics)
    except MalformedConsumerProtocolError:
        raise _not_upgraded(group, "a subscription or an assignment in it cannot be read") from None
    return Upgrade(group, after)


def _take_over(after: ConsumerGroup, member: ClassicMember, group: ClassicGroup, topics: KnownTopics) -> None:
    """The member goes on with its assignment. A partition that a defect gave to two members stays with the first."""
    subscription = read_subscription(_metadata(member, group), topics)
    assigned = _free(after, read_assignment(member.assignment, topics), group.generation)
    after.set_member(
        Member(
            member.member_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client.client_id,
            client_host=member.client.client_host,
            names=subscription.names,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicSession(
                member.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in member.protocols)
            ),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=assigned,
        )
    )
    after.targets[member.member_id] = {topic_id: frozenset(epochs) for topic_id, epochs in assigned.items()}


def _hold(after: ConsumerGroup, member: ClassicMember, group: ClassicGroup, topics: KnownTopics) -> None:
    """A cooperative member may still read what it had when it joined and was not assigned again: it gives that up when
    it has synced, and says so when it joins once more (KIP-429)."""
    revoking = _free(after, read_subscription(_metadata(member, group), topics).held, group.generation)
    if revoking:
        found = after.members[member.member_id]
        after.set_member(replace(found, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking))


def _metadata(member: ClassicMember, group: ClassicGroup) -> bytes:
    return bytes(member.metadata_of(group.protocol_name) or member.protocols[0].metadata)


def _free(after: ConsumerGroup, partitions: Assignment, epoch: int) -> dict[str, dict[int, int]]:
    """The partitions that no member has yet."""
    found: dict[str, dict[int, int]] = {}
    for topic_id, numbers in partitions.items():
        free = numbers - after.owners.get(topic_id, {}).keys()
        if free:
            found[topic_id] = dict.fromkeys(sorted(free), epoch)
    return found


def downgraded(
    config: GroupConfig, group: ConsumerGroup, leaving: Collection[str], wall_ms: int, topics: KnownTopics
) -> GroupMetadataValue | None:
    """The record of the classic group that the group becomes without `leaving`; None if it stays what it is.

    It has no leader, so that a coordinator that loads it knows that its members have still to join again.
    """
    staying = [member for member in group.members.values() if member.member_id not in leaving]
    if (
        config.group_consumer_migration_policy not in DOWNGRADES
        or not 0 < len(staying) <= config.group_max_size
        or any(member.classic is None for member in staying)
    ):
        return None
    members = [_classic_member(member, topics) for member in staying]
    protocol = chosen_protocol(members)
    if protocol is None:
        return None
    value = GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        leader=None,
        current_state_timestamp=wall_ms,
        members=[member.record(protocol, member.assignment) for member in members],
    )
    fits = encoded_size(GroupMetadataKey(group=group.group_id), value) <= config.record_bytes_max
    return value if fits else None


def protocols_of(group: ConsumerGroup) -> dict[str, tuple[JoinGroupProtocol, ...]]:
    """The protocols of its classic members."""
    return {
        member.member_id: tuple(JoinGroupProtocol(name, data) for name, data in member.classic.protocols)
        for member in group.members.values()
        if member.classic is not None
    }


def write_downgrade(turn: Turn, group: ConsumerGroup, value: GroupMetadataValue) -> None:
    changes.drop_group(turn, group)
    turn.write(GroupMetadataKey(group=group.group_id), value)


def _classic_member(member: Member, topics: KnownTopics) -> ClassicMember:
    """The classic member, with everything assigned that it may still read: a later upgrade gives none of that away."""
    classic = member.classic
    if classic is None:
        raise ValueError(f"member {member.member_id} speaks the consumer protocol")
    return ClassicMember(
        member.member_id,
        member.instance_id,
        Client(member.client_id, member.client_host),
        member.rebalance_timeout_ms,
        classic.session_timeout_ms,
        tuple(JoinGroupProtocol(name, data) for name, data in classic.protocols),
        assignment=written_assignment(_held(member), topics, classic.protocols[0][1]),
    )


def _held(member: Member) -> Owned:
    held = {topic_id: dict(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.revoking.items():
        held.setdefault(topic_id, {}).update(epochs)
    return held


def _not_upgraded(group: ClassicGroup, why: str) -> GroupIdNotFoundError:
    return GroupIdNotFoundError(f"classic group {group.group_id} does not become a consumer group: {why}")
