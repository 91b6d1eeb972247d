"""Requests by which somebody takes another one's member out of a group: administrative requests, which are audited.

    leaves      a member is named that is not the sender's own: another principal's, or that of another client or host
    takes over  a static instance of another principal's member (KIP-345)

A member's client and host stand in its record, its principal does not. After a failover it is not known until the
member speaks again; until then the client and the host alone are compared, and no take-over counts as that of another
principal's member. Restarts of one principal's static member on another host are no act. Pure: reads the state. Not
here: whether the request may do so (authorization/), and the lines (audit/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from broker.coordination.turn import Client
from broker.load.party_shares import NOBODY
from penstock.messages.groups.classic_protocol import JoinGroupRequest, LeaveGroupRequest
from penstock.messages.groups.consumer_protocol import JOINS, ConsumerGroupHeartbeatRequest

HolderOf = Callable[[str, str | None], Client | None]
"""The sender of the group's member with this id, or else of the one with this instance id (`GroupKind.holder`)."""


def removes_another(holder_of: HolderOf, request: Any, sender: Client) -> bool:
    """True if the request, should it succeed, removes a member that is not its sender's."""
    if isinstance(request, LeaveGroupRequest):
        named = [(one.member_id, one.group_instance_id) for one in request.members]
    elif isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch < JOINS:
        named = [(request.member_id, request.instance_id)]
    else:
        return _takes_over(holder_of, request, sender)
    return any(not _is_own(holder, sender) for holder in _holders(holder_of, named))


def _takes_over(holder_of: HolderOf, request: Any, sender: Client) -> bool:
    if isinstance(request, JoinGroupRequest):
        instance, joins = request.group_instance_id, not request.member_id
    elif isinstance(request, ConsumerGroupHeartbeatRequest):
        instance, joins = request.instance_id, request.member_epoch == JOINS
    else:
        return False
    if instance is None or not joins:
        return False
    parties = (holder.party for holder in _holders(holder_of, [("", instance)]))
    return any(party not in (NOBODY, sender.party) for party in parties)


def _is_own(holder: Client, sender: Client) -> bool:
    is_same_client = (holder.client_id, holder.client_host) == (sender.client_id, sender.client_host)
    return is_same_client and holder.party in (NOBODY, sender.party)


def _holders(holder_of: HolderOf, named: list[tuple[str, str | None]]) -> Iterator[Client]:
    """The senders of the members that are named, by their ids, or else by their instances."""
    for member_id, instance in named:
        holder = holder_of(member_id, instance)
        if holder is not None:
            yield holder
