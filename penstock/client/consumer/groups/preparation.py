"""Looks up what a member needs before it can take partitions: the names of their topics, and the committed offsets.

The coordinator names topics by id. Names of subscribed topics are asked for by name; for a pattern, the metadata of all
topics is read when an unknown id comes. What fails is asked again after a back-off, as long as it is wanted. Works on
one event loop. Not here: what is wanted (owned_and_wanted.py).

`MissingTopics` says of each subscribed topic that does not exist that it is waited for: a slip in a name would be
silence else. It does so once a topic, as long as the consumer lives, and not before a topic that was just created had
time to be known everywhere. A topic that comes later is read then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from penstock.client.cluster.cluster import UNKNOWN_TOPIC_GRACE_MS, ClusterClient
from penstock.client.consumer.groups.group_service import GroupService
from penstock.client.consumer.groups.heartbeat_sender import GroupTaskOwner
from penstock.client.consumer.groups.membership import Membership
from penstock.client.consumer.groups.membership_state import FENCED_BY, MEMBERS
from penstock.client.consumer.groups.steps import CommittedPlace
from penstock.errors import (
    ApiError,
    PenstockError,
    StaleMemberEpochError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from penstock.messages.groups.offsets import OffsetFetchGroup, OffsetFetchResult
from penstock.tasks import watch
from penstock.types import NO_EPOCH, CommittedOffset, TopicPartition

_log = logging.getLogger(__name__)

PARTITIONS_PER_CALL_MAX = 1_000
"""Limit for one question; more are asked for one after the other."""

NOBODY: Final = ("", NO_EPOCH)
"""The member id and epoch of one who is no member."""


class Preparation:
    """One look-up at a time; tells its owner what was learnt."""

    def __init__(
        self,
        cluster: ClusterClient,
        service: GroupService,
        member: Membership,
        owner: GroupTaskOwner,
        timeout_ms: int,
    ) -> None:
        self._cluster = cluster
        self._service = service
        self._member = member
        self._owner = owner
        self._timeout_ms = timeout_ms
        self.missing_topics = MissingTopics(cluster, member.identity.group_id)
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self) -> None:
        """Starts looking up, if something is wanted and nothing is under way."""
        if not self._closed and self._is_wanted() and (self._running is None or self._running.done()):
            self._running = asyncio.ensure_future(self._run())
            watch(self._running, self._owner.on_death)

    def _is_wanted(self) -> bool:
        wanted = self._member.reconciliation
        return self._member.state in MEMBERS and bool(wanted.unknown_ids or wanted.unplaced)

    async def _run(self) -> None:
        attempt = 0
        while self._is_wanted() and not self._closed:
            attempt += 1
            before = self._left()
            try:
                await self._learn_names()
                await self._learn_places()
            except PenstockError as error:
                self._on_error(error)
            if self._left() < before:
                attempt = 0
            if not self._is_wanted():
                break
            await asyncio.sleep(max(self._cluster.backoff.wait_ms(max(attempt, 1)), 1) / 1000)
        asyncio.get_running_loop().call_soon(self._owner.on_changed)  # AFTER this task's end: it may begin anew

    def _left(self) -> tuple[int, int]:
        wanted = self._member.reconciliation
        return len(wanted.unknown_ids), len(wanted.unplaced)

    def _on_error(self, error: PenstockError) -> None:
        _log.debug("group %s: preparing its partitions: %s", self._member.identity.group_id, error)
        if isinstance(error, (StaleMemberEpochError, *FENCED_BY)):
            self._member.hasten(self._cluster.clock.now_ms())
            self._owner.on_changed()
        elif isinstance(error, ApiError) and not error.retriable:
            self._member.refuse(error)

    async def _learn_names(self) -> None:
        wanted = self._member.reconciliation
        cache, subscribed = self._cluster.cache, self._member.subscription.topics
        wanted.learn_names({cache.topic_id(name): name for name in subscribed if cache.topic(name)})
        if not wanted.unknown_ids:
            return
        await self._cluster.refresh(subscribed)
        wanted.learn_names({cache.topic_id(name): name for name in subscribed if cache.topic(name)})
        unknown = wanted.unknown_ids
        if unknown:  # of a pattern
            topics = await self._cluster.list_topics(self._deadline_ms())
            found = {topic.topic_id: topic.name for topic in topics if topic.topic_id in unknown}
            self._cluster.track(found.values())
            await self._cluster.refresh(found.values())
            wanted.learn_names(found)

    async def _learn_places(self) -> None:
        partitions = list(self._member.reconciliation.unplaced)
        epoch = self._member.epoch
        results = await self._ask(partitions, self._member.identity.member_id, epoch)
        self._member.reconciliation.learn_places({r.partition: _place(r) for r in results if r.error is None})
        for result in results:
            if result.error is not None and not result.error.retriable:
                raise result.error

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """The offsets that the group has committed. A transaction that is to commit one of them is waited for. A member
        gives its id and epoch: a coordinator that knows another epoch does not answer it. A consumer that is no longer
        a member asks without them, as anybody does."""
        found: dict[TopicPartition, CommittedOffset | None] = {}
        left, attempt, deadline_ms, asks = list(partitions), 0, self._deadline_ms(), self._asks()
        while left:
            attempt += 1
            wait_ms = self._cluster.backoff.wait_ms(attempt)
            try:
                results = await self._ask(left, *asks)
            except FENCED_BY:
                if asks == NOBODY:
                    raise
                asks = NOBODY
                continue
            except StaleMemberEpochError as error:
                self._on_error(error)
                if self._cluster.clock.now_ms() + wait_ms >= deadline_ms:
                    raise
                await asyncio.sleep(max(wait_ms, 1) / 1000)
                asks = self._asks()
                continue
            is_late = self._cluster.clock.now_ms() + wait_ms >= deadline_ms
            left = []
            for result in results:
                if result.error is None:
                    found[result.partition] = _committed(result)
                elif is_late or not isinstance(result.error, UnstableOffsetCommitError):
                    raise result.error
                else:
                    left.append(result.partition)
            if left:
                await asyncio.sleep(max(wait_ms, 1) / 1000)
        return found

    def _asks(self) -> tuple[str, int]:
        return (self._member.identity.member_id, self._member.epoch) if self._member.is_member else NOBODY

    async def _ask(self, partitions: list[TopicPartition], member_id: str, epoch: int) -> list[OffsetFetchResult]:
        group_id = self._member.identity.group_id
        found: list[OffsetFetchResult] = []
        for at in range(0, len(partitions), PARTITIONS_PER_CALL_MAX):
            part = tuple(partitions[at : at + PARTITIONS_PER_CALL_MAX])
            question = OffsetFetchGroup(group_id, part, member_id=member_id, member_epoch=epoch)
            found += (await self._service.committed(question, self._deadline_ms())).partitions
        return found

    def _deadline_ms(self) -> int:
        return self._cluster.clock.now_ms() + self._timeout_ms

    async def close(self) -> None:
        """Ends what is under way. Idempotent."""
        self._closed = True
        await self.missing_topics.close()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def __repr__(self) -> str:
        return f"Preparation({self._left()})"


def _committed(result: OffsetFetchResult) -> CommittedOffset | None:
    if result.offset < 0:  # nothing was committed, or Kafka's clients committed "the start" or "the end"
        return None
    return CommittedOffset(result.offset, result.leader_epoch, result.metadata, result.commit_timestamp_ms)


def _place(result: OffsetFetchResult) -> CommittedPlace | None:
    return None if result.offset < 0 else CommittedPlace(result.offset, result.leader_epoch)


class MissingTopics:
    """The missing topics of one consumer."""

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self._cluster, self._group_id = cluster, group_id
        self._logged: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    def look(self, topics: Iterable[str]) -> None:
        """Looks for these in the background; a look that is under way ends."""
        if self._looking is not None:
            self._looking.cancel()
        wanted = {topic for topic in topics if topic not in self._logged and self._cluster.cache.topic(topic) is None}
        self._looking = asyncio.ensure_future(self._look(wanted)) if wanted else None

    async def _look(self, wanted: set[str]) -> None:
        deadline_ms, attempt = self._cluster.clock.now_ms() + UNKNOWN_TOPIC_GRACE_MS, 0
        while wanted:
            attempt += 1
            try:
                answer = await self._cluster.refresh(wanted)
            except PenstockError:
                return  # whoever waits for records is told of what keeps the cluster from answering
            wanted = {t.name for t in answer.topics if isinstance(t.error, UnknownTopicOrPartitionError)} & wanted
            if self._cluster.clock.now_ms() >= deadline_ms:
                break
            await asyncio.sleep(max(self._cluster.backoff.wait_ms(attempt), 1) / 1000)
        for topic in sorted(wanted):
            self._logged.add(topic)
            _log.warning(
                "group %s: topic %s does not exist: it is read once it does (penstock topics create %s)",
                self._group_id,
                topic,
                topic,
            )

    async def close(self) -> None:
        """Ends what is under way. Idempotent."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def __repr__(self) -> str:
        return f"MissingTopics({sorted(self._logged)})"
