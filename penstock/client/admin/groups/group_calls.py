"""The calls of Admin about groups, as its faces have them: each checks what the user gave, and leaves the rest to the
module of its subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.groups import committed, describing, lag, reset
from penstock.client.admin.groups.group_types import (
    GroupDescription,
    GroupListing,
    OffsetReset,
    PartitionLag,
)
from penstock.client.cluster import arguments
from penstock.client.cluster.coordinators import Coordinators
from penstock.errors import ApiError, InvalidGroupIdError
from penstock.messages.groups.listing import GroupType
from penstock.types import CommittedOffset, TopicPartition

GROUP_STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
"""The states of groups, in Kafka's words."""
GROUP_ID_LETTERS_MAX = 255


class GroupCalls:
    """The calls about groups, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core
        self._coordinators = Coordinators(core.cluster)

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """Every group, sorted by id; only those in one of these states, or of one of these types, where some are given.

        States are Stable, Empty, PreparingRebalance, CompletingRebalance, Assigning, Reconciling and Dead; types are
        classic and consumer.
        """
        wanted = arguments.checked_words("states", states, GROUP_STATES)
        kinds = arguments.checked_words("types", types, tuple(GroupType))
        return await describing.list_groups(self._core.cluster, wanted, kinds, await self._core.begin())

    async def describe_group(self, group_id: str) -> GroupDescription:
        """A group: its state, its coordinator, its members and their partitions. GroupIdNotFoundError if it does not
        exist. A group that only has committed offsets exists, and is empty."""
        group = (await self._described((checked_group(group_id),)))[group_id]
        if group.error is not None:
            raise group.error
        return group

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Several groups, each as `describe_group` gives it; one that cannot be described has an `error`."""
        return await self._described(_checked_groups(group_ids))

    async def _described(self, group_ids: Sequence[str]) -> dict[str, GroupDescription]:
        return await describing.describe_groups(self._coordinators, group_ids, await self._core.begin())

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Everything that a group has committed; nothing for a group that does not exist."""
        return await committed.offsets_of(self._coordinators, checked_group(group_id), await self._core.begin())

    async def group_lag(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        """Every partition that a group has committed, or that one of its members has: the committed offset, the end of
        the log, and the records in between. GroupIdNotFoundError if there is no such group."""
        named = (checked_group(group_id),)
        return (await lag.lags_of(self._core.cluster, self._coordinators, named, await self._core.begin()))[group_id]

    async def group_lags(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, PartitionLag]]:
        """The lag of several groups at once, each as `group_lag` gives it. A group that does not exist is an error for
        all: describe them first."""
        named = _checked_groups(group_ids)
        return await lag.lags_of(self._core.cluster, self._coordinators, named, await self._core.begin())

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> dict[TopicPartition, ApiError | None]:
        """Commits offsets for a group without members; the error of each partition, or None.

        NonEmptyGroupError names the members of one that is not empty. A group that does not exist is made.
        """
        wanted = _checked_offsets(offsets)
        checked_group(group_id)
        return await committed.commit_offsets(self._coordinators, group_id, wanted, await self._core.begin())

    async def reset_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        to: reset.ResetPlace | None = None,
        shift_by: int | None = None,
        to_time_ms: int | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, OffsetReset]:
        """Moves the committed offsets of a group without members, and tells each one before and afterwards.

        `to` is 'earliest', 'latest', an offset, or a dict with an offset for each partition; `shift_by` moves forward,
        or back where it is negative; `to_time_ms` finds the first record at or after a time. An offset that the log
        does not have becomes its nearest end. None as `partitions` are all that the group has committed. With `dry_run`
        nothing is changed. NonEmptyGroupError names the members.
        """
        target = reset.checked_target(to, shift_by, to_time_ms)
        named = None if partitions is None else arguments.checked_partitions(partitions)
        return await reset.reset_offsets(
            self._core.cluster,
            self._coordinators,
            checked_group(group_id),
            named,
            target,
            await self._core.begin(),
            dry_run=dry_run,
        )

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ApiError | None]:
        """Deletes groups without members, and their committed offsets; the error of each, or None.

        NonEmptyGroupError names the members of one that is not empty.
        """
        named = _checked_groups(group_ids)
        return await committed.delete_groups(self._coordinators, named, await self._core.begin())

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """Deletes committed offsets of a group; the error of each partition, or None.

        GroupSubscribedToTopicError for a topic that a member reads.
        """
        named = arguments.checked_partitions(partitions)
        checked_group(group_id)
        return await committed.delete_offsets(self._coordinators, group_id, named, await self._core.begin())


def checked_group(group_id: Any) -> str:
    """The id of one group; TypeError, or InvalidGroupIdError where no group can have it."""
    if not isinstance(group_id, str):
        raise TypeError(f"group_id must be a str, not {type(group_id).__name__}")
    if not 0 < len(group_id) <= GROUP_ID_LETTERS_MAX:
        why = "is empty" if not group_id else f"has {len(group_id)} characters"
        raise InvalidGroupIdError(f"the group id {why}; it has from 1 to {GROUP_ID_LETTERS_MAX} characters")
    return group_id


def _checked_groups(group_ids: Any) -> tuple[str, ...]:
    """The ids of groups, each once; not the letters of one."""
    if isinstance(group_ids, str) or not isinstance(group_ids, Iterable):
        raise TypeError(f"group_ids must be a list of group ids, like ['shop'], not {group_ids!r}")
    return tuple(dict.fromkeys(checked_group(group_id) for group_id in group_ids))


def _checked_offsets(offsets: Any) -> dict[TopicPartition, CommittedOffset]:
    wanted = {}
    for tp, one in arguments.checked_mapping("offsets", offsets, "{TopicPartition('orders', 0): 100}").items():
        committed_offset = one if isinstance(one, CommittedOffset) else CommittedOffset(one)
        arguments.checked_number("offset", committed_offset.offset, 0)
        wanted[arguments.checked_partition(tp)] = committed_offset
    return wanted
