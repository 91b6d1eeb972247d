"""The reasons why a member has nothing to read. Pure; runs on the loop."""

from __future__ import annotations

from penstock.client.cluster.waiting import Waiting, error_text
from penstock.client.consumer.groups.membership import Membership
from penstock.client.consumer.groups.membership_state import MembershipState


def member_waits(member: Membership) -> tuple[Waiting, ...]:
    """One reason, or none: a member that has partitions waits for their brokers (consumer/stalled.py)."""
    if member.state is MembershipState.ABSENT or member.reconciliation.owned:
        return ()
    if member.last_error is not None:
        why = f"the coordinator; the last answer: {error_text(member.last_error)}"
    elif member.state is MembershipState.STABLE:
        why = "a partition; it has more members than partitions, or its topics do not exist yet"
    elif member.state is MembershipState.RECONCILING:
        why = "the names and committed offsets of its partitions, or for the next poll"
    else:
        why = f"its place; it {member.state.value}"
    return (Waiting((), f"this member of group {member.identity.group_id!r} waits for {why}"),)
