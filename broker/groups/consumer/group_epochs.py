"""The epochs of a group: a new one when members, subscriptions or topics change, and a target for it.

Topics are looked at when a member's heartbeat comes, and only if news of them came since the last look: an idle group
costs nothing, and a deleted topic does not wake ten thousand groups at once.

A target that is much work to compute is not computed with each of 300 joins, but so seldom that it takes a fifth of the
event loop's time at most; until then members get what the last one gives them. Patterns are matched with every name
after a load, and when rights have changed: likewise a part at a time, for a group may have thousands of patterns.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from broker.coordination.held_memory import ShardMemory
from broker.coordination.regex import matching
from broker.coordination.timers import Timers
from broker.coordination.turn import Turn
from broker.groups.consumer import changes, targets
from broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from broker.groups.consumer.growth import regex_bytes, targets_growth
from broker.groups.consumer.record_room import names_fit, targets_fit
from broker.groups.consumer.subscribed_topics import SubscribedTopics
from broker.groups.consumer.visible_topics import Subscribers
from broker.groups.group_config import GroupConfig
from broker.groups.kind import GroupsOfKind

_log = logging.getLogger(__name__)
NO_VERSION: Final = 0
"""Kafka keeps the version of the metadata that a pattern was resolved against; here, the changed names are kept."""

SMALL_WORK: Final = 5_000
"""Partitions and subscriptions whose target is computed at once: some milliseconds."""
WORK_PER_MS: Final = 100
"""The partitions and subscriptions that a group's targets take in a millisecond on the whole. While one is computed
they take five times as many."""
MATCHES_MAX: Final = 50_000
"""The names with which a shard's patterns are matched at once, and with as many more as one pattern needs: 50 to 200
ms. It is what a pattern costs beside so many topics."""
MATCHES_PER_MS: Final = 50
"""The same on the whole: a twentieth of the event loop's time, or a fifth with the worst of patterns."""
MEMORY_RETRY_MS: Final = 30_000
"""The pause between two tries to assign for which there is no memory."""
_NO_MEMORY: Final = (
    "its principal's share of group.coordinator.memory.max.bytes is used up: its assignment stays; delete groups that"
    " are used no more, or raise the limit"
)


class GroupEpochs:
    def __init__(
        self,
        config: GroupConfig,
        groups: GroupsOfKind[ConsumerGroup],
        views: SubscribedTopics,
        timers: Timers[Turn],
        memory: ShardMemory,
    ) -> None:
        self._config = config
        self._groups = groups
        self._views = views
        self._timers, self._memory = timers, memory
        self._matches_left, self._matches_at_ms = MATCHES_MAX, 0
        """The names with which patterns may be matched, and the time of turns at which there were so many."""

    def refresh(self, turn: Turn, group: ConsumerGroup, changed: bool) -> None:
        """Begin a new epoch if the members `changed`, or if the topics that they read did; assign what is not assigned
        yet."""
        if changed or group.is_stale:
            changed = self._resolve_again(turn, group) or changed
            found = self._views.hash_of(group, turn.topics)
            if changed or found != group.metadata_hash:
                changes.write_epoch(turn, group.group_id, group.epoch + 1, found)
            group.stale = False
            group.changed = set()
        if group.epoch > group.assignment_epoch and group.epoch != group.epoch_without_target:
            self._assign_soon(turn, group)

    def bump(self, turn: Turn, group: ConsumerGroup) -> None:
        """Begin a new epoch: a member is gone. The next heartbeat of another one assigns."""
        for regex in [regex for regex in group.regexes if regex not in group.patterns]:
            self._drop_regex(turn, group, regex)
        changes.write_epoch(turn, group.group_id, group.epoch + 1, self._views.hash_of(group, turn.topics))

    def write_regex(self, turn: Turn, group: ConsumerGroup, regex: str, topics: frozenset[str]) -> None:
        changes.write_regex(turn, group.group_id, regex, ResolvedRegex(topics, NO_VERSION, turn.wall_ms))

    def _resolve_again(self, turn: Turn, group: ConsumerGroup) -> bool:
        """Look at names that came or went; drop patterns that nobody has any more. True if one means other topics."""
        for regex in [regex for regex in group.regexes if regex not in group.patterns]:
            self._drop_regex(turn, group, regex)
        subscribers, different = group.visible_topics.subscribers(group.members), False
        if group.changed is None or len(group.changed) * len(group.regexes) > MATCHES_MAX:
            group.unresolved |= dict.fromkeys(group.regexes)
        elif group.changed:
            there = [name for name in group.changed if turn.topics.by_name(name) is not None]
            for regex, resolved in list(group.regexes.items()):
                if regex not in group.unresolved:
                    by = subscribers.get(regex)
                    came = group.visible_topics.seen(regex, by, resolved.topics, matching(regex, there))
                    topics = (resolved.topics - group.changed) | came
                    different = self._stands_for(turn, group, regex, topics) or different
        return self._resolve_rest(turn, group, subscribers) or different

    def _resolve_rest(self, turn: Turn, group: ConsumerGroup, subscribers: Mapping[str, Subscribers]) -> bool:
        """Matches patterns with every name, as many as there is time for now; the others later."""
        if not group.unresolved:
            return False
        names, different = turn.topics.names(), False
        passed_ms, self._matches_at_ms = turn.now_ms - self._matches_at_ms, turn.now_ms
        self._matches_left = min(MATCHES_MAX, self._matches_left + passed_ms * MATCHES_PER_MS)
        while group.unresolved and self._matches_left > 0:
            regex = next(iter(group.unresolved))
            del group.unresolved[regex]
            if (resolved := group.regexes.get(regex)) is not None:
                self._matches_left -= len(names)
                found = matching(regex, names)
                topics = group.visible_topics.seen(regex, subscribers.get(regex), resolved.topics, found)
                different = self._stands_for(turn, group, regex, topics) or different
        name, group_id = ("consumer patterns", group.group_id), group.group_id
        if group.unresolved and self._timers.due_ms(name) is None:
            due_ms = turn.now_ms + 1 - self._matches_left // MATCHES_PER_MS
            self._timers.set(name, due_ms, lambda later: self._resolve_more(later, group_id))
        return different

    def _resolve_more(self, turn: Turn, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None and group.members:
            group.stale = True
            self.refresh(turn, group, False)

    def _stands_for(self, turn: Turn, group: ConsumerGroup, regex: str, topics: frozenset[str]) -> bool:
        """True if the pattern means these topics from now on, and meant others before."""
        before = group.regexes[regex].topics
        if topics == before:
            return False
        if not names_fit(self._config, group.group_id, regex, topics):
            _log.warning("group %s: a pattern stands for more topics than a record holds: not read", group.group_id)
        elif not self._memory.has_room_in(group.group_id, regex_bytes(topics) - regex_bytes(before)):
            _log.warning("group %s: a pattern stands for more topics, and %s", group.group_id, _NO_MEMORY)
        else:
            self.write_regex(turn, group, regex, topics)
            return True
        return False

    def _drop_regex(self, turn: Turn, group: ConsumerGroup, regex: str) -> None:
        changes.drop_regex(turn, group.group_id, regex)
        group.visible_topics.forget(regex)

    def _assign_soon(self, turn: Turn, group: ConsumerGroup) -> None:
        """Computes the target now if the last one, for the work that it took, is long enough ago; otherwise when it
        is."""
        due_ms = group.assigned_at_ms + group.assignment_work // WORK_PER_MS
        if turn.now_ms < group.no_memory_until_ms:
            due_ms = group.no_memory_until_ms
        elif group.assignment_work <= SMALL_WORK or turn.now_ms >= due_ms or not group.assignment_epoch:
            self._assign(turn, group)
            return
        name, group_id = ("consumer assignment", group.group_id), group.group_id
        if self._timers.due_ms(name) is None:
            self._timers.set(name, due_ms, lambda later: self._due(later, group_id))

    def _due(self, turn: Turn, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None and group.members:
            self.refresh(turn, group, False)

    def _assign(self, turn: Turn, group: ConsumerGroup) -> None:
        assignor = targets.assignor_of(group, self._config.group_consumer_assignors)
        found, group.assignment_work = targets.new_targets(group, turn.topics, assignor)
        group.assigned_at_ms = turn.now_ms
        if targets_fit(self._config, group.group_id, found):
            if self._memory.has_room_in(group.group_id, targets_growth(group, found)):
                group.no_memory_until_ms = 0
                changes.write_targets(turn, group, found, group.epoch)
                return
            if not group.no_memory_until_ms:
                _log.warning("group %s: its topics have more partitions, and %s", group.group_id, _NO_MEMORY)
            group.no_memory_until_ms = turn.now_ms + MEMORY_RETRY_MS
            self._assign_soon(turn, group)
        else:
            group.epoch_without_target = group.epoch
            _log.error(
                "group %s: a member's partitions fit into no record: its assignment stays; add members, or raise"
                " max.message.bytes of __consumer_offsets",
                group.group_id,
            )
