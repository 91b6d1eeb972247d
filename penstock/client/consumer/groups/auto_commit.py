"""Decides when a consumer commits by itself: at a poll, `auto_commit_interval_ms` after the last time (Kafka's rule).

A poll says that the user has done with what earlier polls gave; between polls nothing is committed, or records that
nobody has processed would count as done. Partitions are also committed before they are given up, and at a close. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.client.consumer.fetching.partition_state import PartitionState
from penstock.client.consumer.groups.commits import ToCommit
from penstock.types import TopicPartition


class AutoCommit:
    """Used by the thread that polls; `on_committed` by the loop."""

    def __init__(self, enabled: bool, interval_ms: int, now_ms: int) -> None:
        self.enabled = enabled
        self._interval_ms = interval_ms
        self._next_ms = now_ms + interval_ms
        self._committed: dict[TopicPartition, ToCommit] = {}

    def is_due(self, now_ms: int) -> bool:
        """True once each interval."""
        if not self.enabled or now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._interval_ms
        return True

    def changed(self, states: Iterable[PartitionState], *, is_last_done: bool = True) -> dict[TopicPartition, ToCommit]:
        """The positions that are not committed yet."""
        found = user_positions(states, is_last_done=is_last_done)
        return {tp: position for tp, position in found.items() if self._committed.get(tp) != position}

    def on_committed(self, offsets: Mapping[TopicPartition, ToCommit]) -> None:
        """The coordinator's newest offsets are these."""
        self._committed |= offsets

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets the commits of partitions that this consumer has no longer."""
        for tp in partitions:
            self._committed.pop(tp, None)


def user_positions(states: Iterable[PartitionState], *, is_last_done: bool = True) -> dict[TopicPartition, ToCommit]:
    """The user's positions, or those before the last poll if its records may not be done. Partitions whose positions
    are not known yet are left out."""
    found = {}
    for state in states:
        place = state.place if is_last_done else state.place_before
        if place is not None:
            found[state.topic_partition] = ToCommit(place.offset, place.leader_epoch, topic_id=place.topic_id)
    return found
