"""The problem that an assignor solves, and the kinds of solution. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.groups.consumer.member import Assignment
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SubscribedMember:
    """A member that wants partitions. `target` is what it is to have until now; it may name what is gone."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[str]
    """The topics that it subscribes to, of those that exist."""
    target: Assignment


@dataclass(frozen=True, slots=True)
class AssignedTopic:
    """A topic to assign. `racks` has the racks of each partition's replicas; empty where none is known."""

    topic_id: str
    partitions: int
    racks: Sequence[frozenset[str]] = ()


Topics = Mapping[str, AssignedTopic]
"""All topics that a candidate subscribes to, by their ids."""
Assignor = Callable[[Sequence[SubscribedMember], Topics], dict[str, Assignment]]
"""Gives every candidate its assignment, by its id."""


def in_fixed_order(candidates: Sequence[SubscribedMember]) -> list[SubscribedMember]:
    """Static members first, by their instance ids, which outlive a restart; then the others by their own."""
    return sorted(candidates, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
