"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group.

The group assigns for them, too: no classic member leads. A join is the heartbeat of the other protocol: it says what
the member reads and still holds, and takes it one step towards its target; its generation is its epoch. A sync hands
out what it may read. A heartbeat says when it is to join again:

    the group has another epoch; the member is to give partitions up; others have given up what it waits for

Not here: the protocol's own groups (classic/), and moving a group from one to the other (protocol_moves.py).
"""

from __future__ import annotations

from dataclasses import replace

from broker.coordination.held_memory import ShardMemory
from broker.coordination.turn import Client, Handlers, Ticket, Turn
from broker.groups.consumer import changes, record_forms
from broker.groups.consumer.classic_members.embedded import (
    SaidSubscription,
    read_subscription,
    seen_by,
    written_assignment,
)
from broker.groups.consumer.classic_members.protocol_moves import ClassicPort
from broker.groups.consumer.departures import Departures
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import GroupEpochs
from broker.groups.consumer.growth import growth
from broker.groups.consumer.member import Assignment, ClassicSession, Member, MemberState
from broker.groups.consumer.membership import Found, check_places, known_member
from broker.groups.consumer.reconciliation import Heard, is_waiting, reconciled
from broker.groups.consumer.record_room import check_records_fit
from broker.groups.group_config import GroupConfig
from broker.groups.kind import GroupsOfKind
from penstock.errors import (
    ApiError,
    FencedInstanceIdError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.messages.groups.consumer_protocol import JOINS
from penstock.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, MalformedConsumerProtocolError


class ClassicMembers:
    """`classic` takes the joins to groups that have no members."""

    def __init__(
        self,
        config: GroupConfig,
        groups: GroupsOfKind[ConsumerGroup],
        epochs: GroupEpochs,
        departures: Departures,
        classic: ClassicPort,
        memory: ShardMemory,
    ) -> None:
        self._config = config
        self._groups = groups
        self._epochs = epochs
        self._departures = departures
        self._deadlines = departures.deadlines
        self._classic, self._memory = classic, memory
        self.handlers: Handlers = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
        }

    # -- join ----------------------------------------------------------------------------------------------------------

    def _join(self, turn: Turn, ticket: Ticket, request: JoinGroupRequest, client: Client) -> None:
        group = self._groups[request.group_id]
        if not group.members:
            self._classic.handlers[JoinGroupRequest](turn, ticket, request, client)
            changes.drop_group(turn, group)
            return
        subscription = seen_by(client.visibility, self._checked(turn, group, request), turn.topics)
        if not request.member_id and request.group_instance_id is None and request.requires_known_member_id:
            error = MemberIdRequiredError("join again with the member id of this answer")
            turn.answer(ticket, JoinGroupResponse(turn.new_id(), error=error))
            return
        found = self._found(turn, group, request, subscription.held)
        said = _said(found.member, request, subscription, client)
        check_records_fit(self._config, group, said, (), turn.topics)
        self._memory.must_have_room(growth(group, found, said, frozenset(), turn.topics))
        # Nothing below raises.
        if found.replaces is not None:
            self._deadlines.forget(group.group_id, found.replaces.member_id)
            changes.replace_member(turn, group, found.replaces, said)
        elif found.is_new or record_forms.metadata_fields(said) != record_forms.metadata_fields(found.member):
            changes.write_metadata(turn, group.group_id, said)
        self._epochs.refresh(turn, group, _changes_group(found, said))
        before = group.members[said.member_id]
        group.parties[said.member_id] = client.party
        member = reconciled(
            before,
            group.target_of(before.member_id),
            group.assignment_epoch,
            Heard(before.epoch, subscription.held),
            group.owners,
        )
        if member != before:
            changes.write_current(turn, group.group_id, member)
        self._deadlines.heard(turn.now_ms, group.group_id, member.member_id, request.session_timeout_ms)
        self._deadlines.follow(turn.now_ms, group.group_id, found.member, member)
        self._deadlines.expect_step(turn.now_ms, group.group_id, member, anew=True)
        turn.answer(
            ticket,
            JoinGroupResponse(
                member.member_id,
                generation_id=member.epoch,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=request.protocols[0].name,
            ),
        )
        self._departures.downgrade_if_due(turn, group)  # it may have replaced the last one of the other protocol

    def _checked(self, turn: Turn, group: ConsumerGroup, request: JoinGroupRequest) -> SaidSubscription:
        low, high = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeoutError(
                f"session.timeout.ms is {request.session_timeout_ms}: this cluster takes {low} to {high}"
                " (group.min.session.timeout.ms, group.max.session.timeout.ms)"
            )
        is_known = request.member_id in group.members or request.group_instance_id in group.instances
        if not is_known:
            check_places(group, self._config)
        names = {one.name for one in request.protocols}
        for member in group.members.values():
            if member.classic is not None and member.member_id != request.member_id:
                names &= {name for name, _ in member.classic.protocols}
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            raise InconsistentGroupProtocolError(
                f"group {group.group_id} takes members of the protocol type consumer that have an assignor in common"
            )
        try:
            return read_subscription(bytes(request.protocols[0].metadata), turn.topics)
        except MalformedConsumerProtocolError as error:
            raise InconsistentGroupProtocolError(f"the member's subscription cannot be read: {error}") from None

    def _found(self, turn: Turn, group: ConsumerGroup, request: JoinGroupRequest, held: Assignment) -> Found:
        """A static member that comes without an id takes the place of the one before it at once, as in the classic
        protocol. A member that is not known may come with an id that it was given, but holds nothing yet: if it does,
        it was removed, and others may have what it holds."""
        instance_id = request.group_instance_id
        holder_id = None if instance_id is None else group.instances.get(instance_id)
        if holder_id is None or holder_id == request.member_id:
            known = group.members.get(request.member_id)
            if known is not None:
                return Found(known)
            if request.member_id and held:
                raise UnknownMemberIdError(
                    f"group {group.group_id} has no member {request.member_id} (any more): join again without an id"
                )
            return Found(Member(request.member_id or turn.new_id()), is_new=True)
        if request.member_id:
            raise FencedInstanceIdError(
                f"another member has taken over {instance_id} of group {group.group_id}:"
                " two consumers may not have the same group.instance.id"
            )
        holder = group.members[holder_id]
        member = replace(holder, member_id=turn.new_id(), epoch=JOINS, previous_epoch=-1)
        return Found(member, is_new=True, replaces=holder)

    # -- sync and heartbeat --------------------------------------------------------------------------------------------

    def _sync(self, turn: Turn, ticket: Ticket, request: SyncGroupRequest, client: Client) -> None:
        group = self._groups[request.group_id]
        member, session = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        protocol, metadata = session.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
            raise InconsistentGroupProtocolError(f"member {member.member_id} joined with the assignor {protocol}")
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.expect_step(turn.now_ms, group.group_id, member)
            raise _rebalances(group)
        self._deadlines.took_step(group.group_id, member.member_id)
        self._deadlines.heard(turn.now_ms, group.group_id, member.member_id, session.session_timeout_ms)
        assignment = written_assignment(member.assigned, turn.topics, metadata, client.visibility)
        turn.answer(ticket, SyncGroupResponse(assignment, CONSUMER_PROTOCOL_TYPE, protocol))

    def _heartbeat(self, turn: Turn, ticket: Ticket, request: HeartbeatRequest, client: Client) -> None:
        group = self._groups[request.group_id]
        member, session = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._deadlines.heard(turn.now_ms, group.group_id, member.member_id, session.session_timeout_ms)
        self._epochs.refresh(turn, group, False)
        if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            is_to_join = True
        else:
            is_to_join = member.state is MemberState.UNRELEASED_PARTITIONS and not is_waiting(
                member, group.target_of(member.member_id), group.owners
            )
        if is_to_join:
            self._deadlines.expect_step(turn.now_ms, group.group_id, member)
        turn.answer(ticket, _rebalances(group) if is_to_join else HeartbeatResponse())

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[Member, ClassicSession]:
        member = known_member(group, member_id, instance_id)
        if member.classic is None:
            raise UnknownMemberIdError(f"member {member_id} speaks the consumer protocol, and not the classic one")
        if generation != member.epoch:
            raise IllegalGenerationError(
                f"member {member_id} is in generation {member.epoch}, and not in {generation}: join again"
            )
        return member, member.classic

    # -- leave ---------------------------------------------------------------------------------------------------------

    def _leave(self, turn: Turn, ticket: Ticket, request: LeaveGroupRequest, client: Client) -> None:
        """Members of both protocols may be named: an administrator removes them so."""
        group = self._groups[request.group_id]
        going: dict[str, Member] = {}
        left: list[LeftMember] = []
        for one in request.members:
            error: ApiError | None = None
            try:
                if one.group_instance_id is not None and not one.member_id:
                    member_id = group.instances.get(one.group_instance_id, "")
                    member = known_member(group, member_id, one.group_instance_id)
                else:
                    member = known_member(group, one.member_id, one.group_instance_id)
                going[member.member_id] = member
            except ApiError as found:
                error = found
            left.append(LeftMember(one.member_id, one.group_instance_id, error))
        if going:
            self._departures.remove(turn, group, list(going.values()))
        turn.answer(ticket, LeaveGroupResponse(tuple(left)))


def _said(member: Member, request: JoinGroupRequest, subscription: SaidSubscription, client: Client) -> Member:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        names=subscription.names,
        regex=None,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        server_assignor=None,
        classic=ClassicSession(
            request.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in request.protocols)
        ),
    )


def _changes_group(found: Found, said: Member) -> bool:
    was = found.member
    is_more = found.is_new and found.replaces is None
    return is_more or said.names != was.names or said.regex != was.regex or said.rack_id != was.rack_id


def _rebalances(group: ConsumerGroup) -> RebalanceInProgressError:
    return RebalanceInProgressError(f"group {group.group_id} rebalances: join again")
