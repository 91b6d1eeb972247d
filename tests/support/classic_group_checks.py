"""Truths about a classic group at every moment, for campaigns."""

from __future__ import annotations

from collections import Counter

from broker.groups.classic.group import ClassicGroup, bytes_of, classic_member_bytes
from broker.groups.classic.states import GroupState
from broker.groups.records.classic_records import GroupMetadataValue
from broker.groups.records.record_codec import decode_group_record
from tests.support.classic_group_core import ClassicGroupCore


def check_consistent(core: ClassicGroupCore, group_id: str) -> None:
    """Counts and indexes say the same as the members, and nobody is forgotten: each waits for a timer or a request."""
    group = core.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return
    members = group.members.values()
    assert group.joining == sum(member.join_ticket is not None for member in members), group
    assert group.support == Counter(name for one in members for name in {each.name for each in one.protocols}), group
    static = {one.group_instance_id: one.member_id for one in members if one.group_instance_id is not None}
    assert group.static_ids == static, group
    assert (group.leader in group.members) if members else group.leader is None, group
    assert not group.pending.keys() & group.members.keys(), group
    assert group.not_synced <= group.members.keys(), group
    total_bytes = sum(classic_member_bytes(member) + bytes_of(member.protocols) for member in members)
    assert core.core.member_bytes == group.bytes == total_bytes + group.pending_bytes, group
    _check_state(core, group)
    for member in members:
        has_timer = core.timers.due_ms(("session", group_id, member.member_id)) is not None
        assert has_timer or (member.is_waiting and not member.is_new), member
    for member_id in group.pending:
        assert core.timers.due_ms(("session", group_id, member_id)) is not None, member_id


def _check_state(core: ClassicGroupCore, group: ClassicGroup) -> None:
    joins = any(member.join_ticket is not None for member in group.members.values())
    syncs = any(member.sync_ticket is not None for member in group.members.values())
    join_timer = core.timers.due_ms(("join", group.group_id)) is not None
    sync_timer = core.timers.due_ms(("sync", group.group_id)) is not None
    match group.state:
        case GroupState.EMPTY:
            assert not group.members and not join_timer and not sync_timer, group
        case GroupState.PREPARING_REBALANCE:
            assert join_timer and not sync_timer and not syncs, group
        case GroupState.COMPLETING_REBALANCE:
            assert not join_timer and not joins and (sync_timer or not group.not_synced), group
        case GroupState.STABLE:
            assert not join_timer and not joins and not syncs, group
    assert group.state is GroupState.PREPARING_REBALANCE or not group.is_initial_round, group


def check_replays(core: ClassicGroupCore, group_id: str) -> None:
    """A group at rest is what its last record says, when that is replayed by itself."""
    group = core.groups.get(group_id)
    if not isinstance(group, ClassicGroup) or group.state not in (GroupState.STABLE, GroupState.EMPTY):
        return
    record = decode_group_record(*core.log[-1])
    assert record is not None
    value = record[1]
    assert isinstance(value, GroupMetadataValue)
    fresh = ClassicGroup(group_id)
    fresh.replay(value)
    assert hard(fresh) == hard(group), (hard(fresh), hard(group))


def hard(group: ClassicGroup) -> GroupMetadataValue:
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    return group.record(group.state_changed_ms, assignments)
