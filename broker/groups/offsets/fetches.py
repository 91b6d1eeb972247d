"""OffsetFetch: the offsets that groups have committed.

An offset that waits for its transaction is not returned. Where one waits, the committed one may change at any moment: a
client that asks for stable offsets gets UNSTABLE_OFFSET_COMMIT there, and asks again (KIP-447).

A partition of which the group has committed nothing has offset -1, and no error; so has a group that does not exist.
The offset of a topic that was deleted is not returned, nor given to a topic that was created anew under the name.
"""

from __future__ import annotations

from broker.coordination.turn import Client, Ticket, Turn
from broker.groups.offsets.known_partitions import KnownPartitions
from broker.groups.offsets.offset_groups import OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.offsets.topic_offsets import StoredOffset
from penstock.errors import ApiError, UnstableOffsetCommitError
from penstock.messages.groups.offsets import (
    GroupOffsets,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from penstock.types import TopicPartition


class OffsetFetches:
    """Answers fetches."""

    def __init__(self, state: GroupOffsetsState, groups: OffsetGroups) -> None:
        self._state = state
        self._groups = groups

    def fetch(self, turn: Turn, ticket: Ticket, request: OffsetFetchRequest, client: Client) -> None:
        known, is_stable = KnownPartitions(turn.topics), request.require_stable
        answered = (self._of_group(turn, group, known, is_stable) for group in request.groups)
        turn.answer(ticket, OffsetFetchResponse(tuple(answered)))

    def _of_group(self, turn: Turn, group: OffsetFetchGroup, known: KnownPartitions, is_stable: bool) -> GroupOffsets:
        group_id = group.group_id
        try:
            if self._groups.knows(group_id):
                self._groups.check_fetch(turn, group)
        except ApiError as error:
            return GroupOffsets(group_id, error)
        if group.all_partitions:
            everything = self._state.of_group(group_id)
            answered = [
                self._unstable(group_id, place, is_stable) or _result(place, one)
                for place, one in everything
                if _is_of_topic(place.topic, one, known)
            ]
            return GroupOffsets(group_id, partitions=tuple(answered))
        results = []
        for place in group.partitions:
            committed = self._state.get(group_id, place.topic, place.partition)
            if (unstable := self._unstable(group_id, place, is_stable)) is not None:
                results.append(unstable)
            elif committed is None or not _is_of_topic(place.topic, committed, known):
                results.append(OffsetFetchResult(place))
            else:
                results.append(_result(place, committed))
        return GroupOffsets(group_id, partitions=tuple(results))

    def _unstable(self, group_id: str, place: TopicPartition, is_stable: bool) -> OffsetFetchResult | None:
        """The refusal of an offset that may change at any moment, where a stable one is wanted."""
        if not is_stable or not self._state.pending.has(group_id, place):
            return None
        why = f"a transaction commits the offset of {place} in group {group_id}, and is not decided yet"
        return OffsetFetchResult(place, UnstableOffsetCommitError(why))

    def __repr__(self) -> str:
        return f"OffsetFetches({self._state!r})"


def _is_of_topic(name: str, committed: StoredOffset, known: KnownPartitions) -> bool:
    """True if the topic that has this name now is the one whose offset it is."""
    facts = known.topic(name)
    return facts is not None and committed.topic_id in ("", facts.topic_id)


def _result(place: TopicPartition, committed: StoredOffset) -> OffsetFetchResult:
    return OffsetFetchResult(
        place,
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp_ms=committed.commit_ms,
    )
