"""Finds the offsets that nobody needs: expired ones, and those of topics that were deleted. Writes their tombstones.

A pass goes over all groups in portions, each a turn of its own, so that a shard with a million offsets goes on
answering meanwhile. Passes for expiry come every offsets.retention.check.interval.ms. A pass for topics comes after
they changed, and after loading: the image of the metadata that made this broker the leader is at least as new as any
by which an earlier leader took a commit, so a topic that is not in it was deleted.

An offset is as old as coordinators have watched it (coordination/watched_time.py), whatever the calendar says. A group
that has no members when its last offset is gone is deleted in the pass for expiry. Where an offset waits for
its transaction, nothing expires, and its group is kept; the deletion of its topic ends its waiting, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.coordination.timers import Timers
from broker.coordination.turn import TopicFacts, Turn
from broker.coordination.watched_time import WatchedTime
from broker.groups.group_config import GroupConfig
from broker.groups.offsets.offset_groups import OffsetExpiry, OffsetGroups
from broker.groups.offsets.offsets_state import GroupOffsetsState
from broker.groups.offsets.topic_offsets import StoredOffset
from broker.groups.records.offset_records import OffsetCommitKey
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_TIMESTAMP, TopicPartition

_EXPIRY: Final = ("offsets", "expiry")
_PORTION: Final = ("offsets", "portion")
_PORTION_COST_MAX: Final = 20_000
"""About ten milliseconds."""
_GROUP_COST: Final = 2
_TOMBSTONE_COST: Final = 10


@dataclass(slots=True)
class _Pass:
    """`places` are the topics of each group, and then None for the group's end."""

    places: Iterator[tuple[str, str | None]]
    expires: bool


class OffsetSweep:
    """Finds the offsets that nobody needs. One pass is made at a time; passes asked for meanwhile become one pass after
    it."""

    def __init__(
        self,
        config: GroupConfig,
        state: GroupOffsetsState,
        groups: OffsetGroups,
        timers: Timers[Turn],
        watched: WatchedTime,
    ) -> None:
        self._config = config
        self._state = state
        self._groups = groups
        self._timers, self._watched = timers, watched
        self._pass: _Pass | None = None
        self._changed: set[str] = set()
        """Topics that the next pass looks at."""
        self._is_expiry_due = False
        self._empty_since_ms: dict[str, int] = {}
        """Groups that were found empty and have no record of since when. Soft: a new leader begins to count anew."""
        self.removed = 0
        """Offsets that it has removed, since the shard was loaded."""

    def loaded(self, turn: Turn) -> None:
        """Begin to look: the state is that of the whole log."""
        self._changed |= {topic for group_id in self._state.group_ids() for topic in self._state.names_of(group_id)}
        self._begin(turn)
        self._set_expiry(turn)

    def image_changed(self, turn: Turn, names: Iterable[str]) -> None:
        """Topics of these names were made, changed or deleted."""
        self._changed.update(names)
        self._begin(turn)

    def _expire(self, turn: Turn) -> None:
        self._is_expiry_due = True
        self._begin(turn)
        self._set_expiry(turn)

    def _set_expiry(self, turn: Turn) -> None:
        self._timers.set(_EXPIRY, turn.now_ms + self._config.offsets_retention_check_interval_ms, self._expire)

    def _begin(self, turn: Turn) -> None:
        """Begins a pass, if one is due and no pass is under way."""
        if self._pass is None and (self._is_expiry_due or self._changed):
            self._pass = self._new_pass()
            self._timers.set(_PORTION, turn.now_ms + 1, self._go_on)

    def _new_pass(self) -> _Pass:
        """A pass for expiry looks at all topics, so also at those that changed."""
        expires, names = self._is_expiry_due, frozenset(self._changed)
        self._is_expiry_due, self._changed = False, set()
        group_ids = dict.fromkeys(self._state.group_ids())
        if expires:
            group_ids.update(dict.fromkeys(self._groups.group_ids()))
            self._empty_since_ms = {one: since for one, since in self._empty_since_ms.items() if one in group_ids}
        return _Pass(self._places(list(group_ids), None if expires else names), expires)

    def _places(self, group_ids: list[str], names: frozenset[str] | None) -> Iterator[tuple[str, str | None]]:
        for group_id in group_ids:
            topics = self._state.names_of(group_id)
            for topic in list(topics) if names is None else [name for name in topics if name in names]:
                yield group_id, topic
            yield group_id, None

    def _go_on(self, turn: Turn) -> None:
        """Does one portion of the pass."""
        self._watched.look(turn.now_ms, turn.wall_ms)
        cost = 0
        while self._pass is not None and cost < _PORTION_COST_MAX:
            place = next(self._pass.places, None)
            if place is None:
                self._pass = None
                self._begin(turn)
                return
            group_id, topic = place
            if topic is not None:
                cost += self._visit(turn, group_id, topic, self._pass.expires)
                continue
            cost += _GROUP_COST
            if self._pass.expires:
                self._end_group(turn, group_id)
        self._timers.set(_PORTION, turn.now_ms + 1, self._go_on)

    def _visit(self, turn: Turn, group_id: str, topic: str, expires: bool) -> int:
        """Tombstones of the offsets in one topic of one group; what it cost."""
        facts = turn.topics.by_name(topic)
        cost = self._visit_pending(turn, group_id, topic, facts) if group_id in self._state.pending else 0
        offsets = self._state.topics_of(group_id).get(topic)
        if offsets is None:
            return cost + 1
        expiry = self._expiry_of(turn, group_id, topic) if expires else None
        if expiry is None and facts is not None and not offsets.has_other_id(facts.topic_id):
            return cost + 1
        cost += len(offsets)
        for partition, committed in offsets.items():
            if self._state.pending.has(group_id, TopicPartition(topic, partition)):
                continue
            is_gone = _is_of_another(committed.topic_id, facts)
            if is_gone or (expiry is not None and self._is_expired(committed, expiry)):
                self._remove(turn, group_id, topic, partition)
                cost += _TOMBSTONE_COST
        return cost

    def _visit_pending(self, turn: Turn, group_id: str, topic: str, facts: TopicFacts | None) -> int:
        """The places where an offset waits: nothing expires there, but that of a deleted topic need not wait."""
        state, cost = self._state, 0
        for place in [one for one in state.pending.places_of(group_id) if one.topic == topic]:
            committed = state.get(group_id, *place)
            ids = [one.topic_id for one in state.pending.values_at(group_id, place)]
            ids += [committed.topic_id] if committed is not None else []
            cost += 1
            if facts is None or (ids and all(_is_of_another(one, facts) for one in ids)):
                self._remove(turn, group_id, *place)
                cost += _TOMBSTONE_COST
        return cost

    def _remove(self, turn: Turn, group_id: str, topic: str, partition: int) -> None:
        turn.write(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
        self.removed += 1

    def _end_group(self, turn: Turn, group_id: str) -> None:
        """Ends the visit of a group, after its topics."""
        knows = self._groups.knows(group_id)
        if knows and group_id not in self._state:
            self._groups.delete_if_empty(turn, group_id)
            knows = self._groups.knows(group_id)
        expiry = self._groups.offset_expiry(group_id) if knows else None
        if expiry is None or not expiry.is_empty:
            self._empty_since_ms.pop(group_id, None)

    def _expiry_of(self, turn: Turn, group_id: str, topic: str) -> OffsetExpiry | None:
        if not self._groups.knows(group_id):
            return OffsetExpiry()
        if self._groups.is_subscribed(group_id, topic):
            return None
        expiry = self._groups.offset_expiry(group_id)
        if expiry is not None and expiry.is_empty and expiry.empty_since_ms is None:
            return expiry._replace(empty_since_ms=self._empty_since_ms.setdefault(group_id, turn.wall_ms))
        return expiry

    def _is_expired(self, committed: StoredOffset, expiry: OffsetExpiry) -> bool:
        """Goes by the time that coordinators have watched: a calendar that jumps, or is wrong, makes nothing old."""
        age_ms = self._watched.age_ms(committed.commit_ms)
        if committed.expire_ms != NO_TIMESTAMP:
            return age_ms >= committed.expire_ms - committed.commit_ms
        if expiry.empty_since_ms is not None:
            age_ms = min(age_ms, self._watched.age_ms(expiry.empty_since_ms))
        return age_ms >= self._config.offsets_retention_ms

    def __repr__(self) -> str:
        return f"OffsetSweep({'at work' if self._pass else 'idle'}, {len(self._changed)} topics wait)"


def _is_of_another(topic_id: str, facts: TopicFacts | None) -> bool:
    """True if no topic has the name now, or the topic that has it is not that of the offset."""
    return facts is None or topic_id not in ("", facts.topic_id)
