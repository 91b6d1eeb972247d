"""ConsumerGroupHeartbeat of members that join and stay. One heartbeat may change, in this order:

    looked at            nothing is written; every error of the request comes from here
    said                 the member's metadata, and what its pattern stands for
    epoch                a new one if members, subscriptions or topics changed
    target               computed for the new epoch
    reconciled           the member goes one step towards its target (reconciliation.py)

Not here: leaving (departures.py), classic members.
"""

from __future__ import annotations

from broker.coordination.held_memory import ShardMemory
from broker.coordination.regex import matching
from broker.coordination.turn import Client, Turn
from broker.groups.consumer import changes, record_forms
from broker.groups.consumer.classic_members.protocol_moves import ClassicPort, Upgrade, upgrade
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.group import ConsumerGroup
from broker.groups.consumer.group_epochs import GroupEpochs
from broker.groups.consumer.growth import growth
from broker.groups.consumer.member import Member, as_message, assignment_of, session_timeout_ms
from broker.groups.consumer.membership import Found, joining, staying
from broker.groups.consumer.reconciliation import Heard, reconciled
from broker.groups.consumer.record_room import check_records_fit
from broker.groups.group_config import GroupConfig
from broker.groups.kind import GroupsOfKind
from broker.network.request_ports import Visibility
from penstock.errors import GroupIdNotFoundError, TopicAuthorizationFailedError, UnsupportedVersionError
from penstock.messages.groups.consumer_protocol import (
    JOINS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class Heartbeats:
    """Decides ConsumerGroupHeartbeat (KIP-848): who the member is, what it said, and its next assignment."""

    def __init__(
        self,
        config: GroupConfig,
        groups: GroupsOfKind[ConsumerGroup],
        epochs: GroupEpochs,
        deadlines: Deadlines,
        classic: ClassicPort,
        memory: ShardMemory,
    ) -> None:
        self._config = config
        self._groups = groups
        self._epochs = epochs
        self._deadlines = deadlines
        self._classic, self._memory = classic, memory

    def beat(
        self, turn: Turn, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        held = None if request.owned_partitions is None else assignment_of(request.owned_partitions)
        group, moved = self._group(turn, request)
        if request.member_epoch == JOINS:
            found = joining(group, request.member_id or turn.new_id(), request, self._config)
        else:
            found = staying(group, request, held)
        said = found.member.said(request, client.client_id, client.client_host)
        if request.subscribed_topic_names is None:  # others were judged with the request
            hidden = group.visible_topics.hidden_name(said, client.visibility)
            if hidden is not None:
                raise TopicAuthorizationFailedError(f"the member may not Describe {hidden!r}, to which it subscribes")
        resolved = self._resolved(turn, group, said, client.visibility)
        subscribes_anew = found.is_new or said.names != found.member.names or said.regex != found.member.regex
        if subscribes_anew or said != found.member:
            check_records_fit(self._config, group, said, resolved if subscribes_anew else (), turn.topics)
            self._memory.must_have_room(growth(group, found, said, resolved, turn.topics))
        # Nothing below raises.
        if moved is not None:
            self._write_upgrade(turn, moved)
        group = self._write_said(turn, group, found, said, resolved, client.visibility)
        self._epochs.refresh(turn, group, _changes_group(found, said))
        member = self._step(turn, group, said.member_id, Heard(request.member_epoch, held))
        group.parties[member.member_id] = client.party
        self._deadlines.heard(
            turn.now_ms, group.group_id, member.member_id, self._config.group_consumer_session_timeout_ms
        )
        self._deadlines.follow(turn.now_ms, group.group_id, found.member, member)
        shows = _says_everything(request) or member.assigned != found.member.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._config.group_consumer_heartbeat_interval_ms,
            assignment=as_message(member.assigned) if shows else None,
        )

    def _group(self, turn: Turn, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup, Upgrade | None]:
        """A new one for a member that joins; it is the shard's with its first record."""
        group = self._groups.get(request.group_id)
        begins = request.member_epoch == JOINS and (group is None or not group.members)
        if begins and not turn.topics.may_begin_consumer_groups():
            raise UnsupportedVersionError(
                f"group.version is 0 in this cluster: group {request.group_id} cannot begin with the consumer protocol."
                " Use the classic one (group.protocol=classic of Kafka's clients), or raise the level (`penstock"
                " features upgrade --feature group.version=1`)"
            )
        if group is not None:
            return group, None
        classic = self._classic.find(request.group_id)
        if request.member_epoch != JOINS:
            raise GroupIdNotFoundError(
                f"there is no consumer group {request.group_id}: join it with epoch 0"
                if classic is None
                else f"group {request.group_id} speaks the classic protocol"
            )
        if classic is None:
            return ConsumerGroup(request.group_id), None
        upgraded = upgrade(self._config, classic, turn.topics)
        return upgraded.after, upgraded

    def _write_upgrade(self, turn: Turn, upgraded: Upgrade) -> None:
        upgraded.write(turn, self._classic)
        for member in upgraded.after.members.values():
            session_ms = session_timeout_ms(self._config, member)
            self._deadlines.heard(turn.now_ms, upgraded.after.group_id, member.member_id, session_ms)
            self._deadlines.follow(turn.now_ms, upgraded.after.group_id, None, member)

    def _resolved(
        self, turn: Turn, group: ConsumerGroup, said: Member, visibility: Visibility | None
    ) -> frozenset[str]:
        """The topics that the member's pattern stands for. Raises if the pattern is not valid."""
        if said.regex is None:
            return frozenset()
        known = group.regexes.get(said.regex)
        if known is not None:
            return known.topics
        found = matching(said.regex, turn.topics.names())
        return found if visibility is None else frozenset(filter(visibility.sees, found))

    def _write_said(
        self,
        turn: Turn,
        group: ConsumerGroup,
        found: Found,
        said: Member,
        resolved: frozenset[str],
        visibility: Visibility | None,
    ) -> ConsumerGroup:
        """The member, as it says that it is, in its group."""
        if found.replaces is not None:
            self._deadlines.forget(group.group_id, found.replaces.member_id)
            changes.replace_member(turn, group, found.replaces, said)
        elif found.is_new or record_forms.metadata_fields(said) != record_forms.metadata_fields(found.member):
            changes.write_metadata(turn, group.group_id, said)
        group = self._groups[group.group_id]
        if said.regex is not None and said.regex not in group.regexes:
            self._epochs.write_regex(turn, group, said.regex, resolved)
            group.visible_topics.resolved_for(said.regex, visibility)
        if group.visible_topics.heard(group.members, found.member, said, visibility, group.unresolved):
            group.resolve_again()
        return group

    def _step(self, turn: Turn, group: ConsumerGroup, member_id: str, heard: Heard) -> Member:
        before = group.members[member_id]
        member = reconciled(before, group.target_of(member_id), group.assignment_epoch, heard, group.owners)
        if member != before:
            changes.write_current(turn, group.group_id, member)
        return group.members[member_id]


def _changes_group(found: Found, said: Member) -> bool:
    """True if the group must assign anew for what the member says."""
    was = found.member
    return (
        (found.is_new and found.replaces is None)
        or said.names != was.names
        or said.regex != was.regex
        or said.rack_id != was.rack_id
        or said.server_assignor != was.server_assignor
    )


def _says_everything(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that joins, or that may have missed an answer, says everything and is told everything."""
    return request.member_epoch == JOINS or (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.owned_partitions is not None
    )
