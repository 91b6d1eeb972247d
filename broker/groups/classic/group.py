"""One group of the classic protocol: its members, its generation, and the record of them.

Hard is what the last record says: a generation with its protocol, leader, members and assignments. All else is soft and
is lost with the lead, as in Kafka: members that have joined since, waiting requests, ids that were handed out.
`replay` takes a record over: in a load it makes the members, in a turn it keeps those that are known with what else
they told.

Not here: when a rebalance begins and ends (rounds.py); answers to requests (join.py, sync.py, presence.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from broker.coordination.held_memory import Grown, text_bytes, uncounted
from broker.groups.classic.member import ClassicMember, member_of_record
from broker.groups.classic.states import BEFORE, GroupState
from broker.groups.group_sizes import PROTOCOL_BYTES
from broker.groups.records.classic_records import GroupMetadataValue
from penstock.errors import FencedInstanceIdError, InvariantViolation, UnknownMemberIdError
from penstock.messages.groups.classic_protocol import JoinedMember, JoinGroupProtocol
from penstock.types import NO_TIMESTAMP

MEMBER_BYTES: Final = 1_500
"""A member with its timer, without what it told; measured with tracemalloc, and rounded up."""
PENDING_BYTES: Final = 600


class MemberBytes:
    """The memory of the members of a shard's classic groups, estimated: also of those that stand in no record yet."""

    __slots__ = ("_grown", "bytes")

    def __init__(self, grown: Grown = uncounted) -> None:
        self._grown = grown
        self.bytes = 0

    def changed(self, group_id: str, by: int) -> None:
        self.bytes += by
        self._grown(group_id, by)

    def __repr__(self) -> str:
        return f"MemberBytes({self.bytes})"


class ClassicGroup:
    """One group of the classic protocol. `state_changed_ms` is calendar time."""

    __slots__ = (
        "_tally",
        "bytes",
        "came_from_consumer_protocol",
        "generation",
        "group_id",
        "is_initial_round",
        "joining",
        "leader",
        "members",
        "new_member_added",
        "not_synced",
        "pending",
        "protocol_name",
        "protocol_type",
        "state",
        "state_changed_ms",
        "static_ids",
        "support",
        "topics",
    )

    def __init__(self, group_id: str, tally: MemberBytes | None = None) -> None:
        self.group_id = group_id
        self.bytes = 0
        """The bytes of the group in the tally."""
        self._tally = tally or MemberBytes()
        self.state = GroupState.EMPTY
        self.state_changed_ms = NO_TIMESTAMP
        self.generation = 0
        self.protocol_type = ""
        """Empty: a group that has committed offsets, and never had a member."""
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        """Member ids by group.instance.id."""
        self.support: dict[str, int] = {}
        """The number of members that support a protocol."""
        self.joining = 0
        """The number of members whose join waits."""
        self.pending: dict[str, None] = {}
        """Ids that were handed out, the oldest first, and have not joined yet (KIP-394)."""
        self.not_synced: set[str] = set()
        """Members that have not asked for this generation's assignment yet."""
        self.is_initial_round = False
        """The rebalance began when the group was empty: it waits for more members."""
        self.new_member_added = False
        """A member came since the initial round was last put off."""
        self.came_from_consumer_protocol = False
        """Its record was written when it became a classic group: its members have still to join again."""
        self.topics: frozenset[str] | None = None
        """Cache of `subscriptions.subscribed_topics` for this generation."""

    # -- state ---------------------------------------------------------------------------------------------------------

    def enter(self, state: GroupState, wall_ms: int) -> None:
        if self.state not in BEFORE[state]:
            raise InvariantViolation(f"group {self.group_id} goes from {self.state} to {state}")
        self.is_initial_round = state is GroupState.PREPARING_REBALANCE and self.state is GroupState.EMPTY
        self.new_member_added = False
        self.state, self.state_changed_ms, self.topics = state, wall_ms, None

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return self.joining == len(self.members) and not self.pending

    def begin_generation(self, wall_ms: int) -> None:
        """The next generation, with the members that there are."""
        self.enter(GroupState.COMPLETING_REBALANCE, wall_ms)
        self.generation += 1
        self.protocol_name = chosen_protocol(self.members.values())
        self.not_synced = set(self.members)

    # -- members -------------------------------------------------------------------------------------------------------

    def member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member that a request names; the exact error if it is not in the group, or was replaced (KIP-345)."""
        if group_instance_id is not None:
            if (current := self.static_ids.get(group_instance_id)) is None:
                raise UnknownMemberIdError(f"group {self.group_id} has no static member {group_instance_id}")
            if current != member_id:
                raise FencedInstanceIdError(
                    f"another member has taken over {group_instance_id} of group {self.group_id}:"
                    " two consumers may not have the same group.instance.id"
                )
        if (member := self.members.get(member_id)) is None:
            raise UnknownMemberIdError(f"group {self.group_id} has no member {member_id!r}: join again without an id")
        return member

    def add(self, member: ClassicMember) -> None:
        self.drop_pending(member.member_id)
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_ids[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member.protocols, 1)
        self._account(classic_member_bytes(member))

    def add_pending(self, member_id: str) -> None:
        self.pending[member_id] = None
        self._account(PENDING_BYTES + text_bytes(member_id))

    def drop_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            del self.pending[member_id]
            self._account(-PENDING_BYTES - text_bytes(member_id))

    @property
    def pending_bytes(self) -> int:
        """The memory of the ids that were handed out."""
        return sum(PENDING_BYTES + text_bytes(member_id) for member_id in self.pending)

    def remove(self, member: ClassicMember) -> None:
        """Removes a member whose tickets were answered."""
        del self.members[member.member_id]
        self.not_synced.discard(member.member_id)
        if member.group_instance_id is not None:
            del self.static_ids[member.group_instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self._count(member.protocols, -1)
        self._account(-classic_member_bytes(member))

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member's instance belongs to the new one; the tickets of the old one were answered."""
        led = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.member_id

    def elect_joined_leader(self) -> bool:
        """Replaces a leader that has not joined by the first member that has. False if no member has joined."""
        if self.leader is not None and self.members[self.leader].join_ticket is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_ticket is not None), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members with their subscriptions, as the leader's answer to JoinGroup lists them."""
        return tuple(
            JoinedMember(member.member_id, member.metadata_of(self.protocol_name), member.group_instance_id)
            for member in self.members.values()
        )

    # -- protocols -----------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Sequence[JoinGroupProtocol]) -> bool:
        """A member with these may be let in: it has a protocol that all members have."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self.support.get(one.name, 0) == len(self.members) for one in protocols
        )

    def set_protocols(self, member: ClassicMember, protocols: tuple[JoinGroupProtocol, ...]) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def _account(self, by: int) -> None:
        self.bytes += by
        self._tally.changed(self.group_id, by)

    def _count(self, protocols: Sequence[JoinGroupProtocol], by: int) -> None:
        self._account(by * bytes_of(protocols))
        for name in {one.name for one in protocols}:
            supporters = self.support.get(name, 0) + by
            if supporters:
                self.support[name] = supporters
            else:
                del self.support[name]

    # -- the record ----------------------------------------------------------------------------------------------------

    def record(self, wall_ms: int, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        """This generation with these assignments; a member without one has an empty one."""
        members = self.members.values()
        return self._record(wall_ms, self.leader, [(one, assignments.get(one.member_id, b"")) for one in members])

    def record_with(self, new: ClassicMember, old: ClassicMember, wall_ms: int) -> GroupMetadataValue:
        """This generation with a static member replaced, who keeps the assignment."""
        leader = new.member_id if self.leader == old.member_id else self.leader
        members = [(new if one is old else one, one.assignment) for one in self.members.values()]
        return self._record(wall_ms, leader, members)

    def _record(
        self, wall_ms: int, leader: str | None, members: Sequence[tuple[ClassicMember, bytes]]
    ) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=leader,
            current_state_timestamp=wall_ms,
            members=[member.record(self.protocol_name, assignment) for member, assignment in members],
        )

    def record_of_empty_generation(self, wall_ms: int) -> GroupMetadataValue:
        """The next generation, which nobody joined."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type, generation=self.generation + 1, current_state_timestamp=wall_ms
        )

    def replay(self, value: GroupMetadataValue) -> None:
        """The record becomes the group's state. The tally gets only the difference: members that stay are not counted
        again for the party that brought the record."""
        known, before, tally = self.members, self.bytes, self._tally
        self._tally = MemberBytes()
        self._account(self.pending_bytes - self.bytes)
        self.members, self.static_ids, self.support, self.joining = {}, {}, {}, 0
        self.protocol_type, self.generation = value.protocol_type, value.generation
        self.protocol_name, self.leader = value.protocol, value.leader
        self.came_from_consumer_protocol = bool(value.members) and value.leader is None
        self.topics, self.is_initial_round, self.new_member_added = None, False, False
        for stored in value.members:
            member = known.get(stored.member_id)
            if member is None or not member.says(stored, value.protocol):  # the latter only in a load
                member = member_of_record(stored, value.protocol)
            member.assignment = bytes(stored.assignment)
            self.add(member)
            self.joining += member.join_ticket is not None
        self._tally = tally
        tally.changed(self.group_id, self.bytes - before)
        self.not_synced &= self.members.keys()
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.state_changed_ms = value.current_state_timestamp

    def gone(self) -> None:
        """The group was deleted, or is one of the other protocol now."""
        self.state = GroupState.DEAD
        self._account(-self.bytes)

    def __repr__(self) -> str:
        return (
            f"ClassicGroup({self.group_id!r}, {self.state}, generation {self.generation}, {len(self.members)} members)"
        )


def bytes_of(protocols: Sequence[JoinGroupProtocol]) -> int:
    return sum(PROTOCOL_BYTES + text_bytes(one.name) + len(one.metadata) for one in protocols)


def classic_member_bytes(member: ClassicMember) -> int:
    """A member without its protocols. Its id is made of its client's, or of its instance's."""
    texts = member.member_id, member.client.client_id, member.group_instance_id or ""
    return MEMBER_BYTES + sum(map(text_bytes, texts))


def chosen_protocol(members: Collection[ClassicMember]) -> str | None:
    """The protocol with the most votes among those that all members support. Of equals the one that was voted for
    first."""
    support = Counter(name for member in members for name in {one.name for one in member.protocols})
    candidates = {name for name, supporters in support.items() if supporters == len(members)}
    votes = Counter(name for member in members if (name := member.vote(candidates)) is not None)
    return max(votes, key=votes.__getitem__, default=None)
