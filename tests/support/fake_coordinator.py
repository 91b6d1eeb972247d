"""The coordinator of a group whose members join, in a fake cluster: KIP-848's server side in its simplest form.

    cluster.coordinator = FakeCoordinator(cluster)

Partitions of the subscribed topics are dealt to the members in turn, or as `assign` says; a partition is given to its
new member only when the old one has given it up. No session ends by itself: `fence` puts a member out. `fail` queues
errors, each for one call of an API; `move` makes another node the coordinator. `heartbeats`, `commits` and `offsets`
are for tests to look at. Not here: groups as administrators see them (fake_groups.py).
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import (
    ApiError,
    FencedMemberEpochError,
    InvalidRegularExpressionError,
    NotCoordinatorError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
)
from penstock.messages.groups import group_apis
from penstock.messages.groups.consumer_protocol import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicIdPartitions,
)
from penstock.messages.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse, FoundCoordinator
from penstock.messages.groups.offsets import (
    GroupOffsets,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResult,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from penstock.types import TopicPartition
from penstock.wire.message_codec import request_codec, response_codec

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeCluster

APIS = {
    api.name: api
    for api in (
        group_apis.FIND_COORDINATOR,
        group_apis.CONSUMER_GROUP_HEARTBEAT,
        group_apis.OFFSET_COMMIT,
        group_apis.OFFSET_FETCH,
    )
}
Owned = set[tuple[str, int]]


@dataclass
class FakeMember:
    """A member as the coordinator knows it; partitions are (topic id, number)."""

    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    topics: tuple[str, ...] = ()
    pattern: str = ""
    owned: Owned = field(default_factory=set)
    given: Owned = field(default_factory=set)
    sent: Owned | None = None


class FakeCoordinator:
    """One group: the tests of a client need no more."""

    apis = APIS.keys()

    def __init__(self, cluster: FakeCluster, heartbeat_interval_ms: int = 1_000) -> None:
        """Node 1 coordinates at first."""
        self._cluster = cluster
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.node_id = cluster.node_ids[0]
        self.members: dict[str, FakeMember] = {}
        self.epoch = 0
        self.by_hand: dict[str, Owned] = {}
        self.heartbeats: list[ConsumerGroupHeartbeatRequest] = []
        self.commits: list[OffsetCommitRequest] = []
        self.offsets: dict[TopicPartition, OffsetCommitPartition] = {}
        self.slow_ms: dict[str, int] = defaultdict(int)
        self._errors: dict[str, deque[ApiError]] = defaultdict(deque)

    # -- scripts -------------------------------------------------------------------------------------------------------

    def fail(self, api: str, *errors: ApiError) -> None:
        self._errors[api].extend(errors)

    def move(self, node_id: int) -> None:
        self.node_id = node_id

    def fence(self, member_id: str) -> None:
        del self.members[member_id]
        self.epoch += 1

    def assign(self, member_id: str, *partitions: TopicPartition) -> None:
        """This is the member's target from now on."""
        self.by_hand[member_id] = {(self._cluster.topics[tp.topic], tp.partition) for tp in partitions}
        self.epoch += 1

    def owned(self, member_id: str) -> list[TopicPartition]:
        """The partitions that a member has acknowledged."""
        names = {topic_id: name for name, topic_id in self._cluster.topics.items()}
        return sorted(TopicPartition(names.get(i, i), number) for i, number in self.members[member_id].owned)

    # -- the listener --------------------------------------------------------------------------------------------------

    async def call(self, node_id: int, name: str, raw: bytes) -> bytes:
        api = APIS[name]
        request: Any = request_codec(api).decode(raw)
        if self.slow_ms[name]:
            await asyncio.sleep(self.slow_ms[name] / 1000)
        if self._errors[name]:
            raise self._errors[name].popleft()
        if api is group_apis.FIND_COORDINATOR:
            answer: Any = self._find(request)
        elif node_id != self.node_id:
            raise NotCoordinatorError(f"node {self.node_id} is")
        elif api is group_apis.CONSUMER_GROUP_HEARTBEAT:
            answer = self._heartbeat(request)
        elif api is group_apis.OFFSET_COMMIT:
            answer = self._commit(request)
        else:
            answer = self._fetch(request)
        return response_codec(api).encode(answer)  # type: ignore[no-any-return]

    def _find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(tuple(FoundCoordinator(key, self.node_id) for key in request.keys))

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self.heartbeats.append(request)
        member = self.members.get(request.member_id)
        if request.member_epoch < 0:
            if member is None:
                raise UnknownMemberIdError("no such member")
            del self.members[request.member_id]
            self.epoch += 1
            return ConsumerGroupHeartbeatResponse(request.member_id, request.member_epoch)
        try:
            re.compile(request.subscribed_topic_regex or "")
        except re.error as error:
            raise InvalidRegularExpressionError(str(error)) from None
        if request.member_epoch == 0:
            member = self._join(request)
        elif member is None:
            raise UnknownMemberIdError("no such member")
        elif request.member_epoch != member.epoch:
            raise FencedMemberEpochError(f"epoch {member.epoch}")
        if request.subscribed_topic_names is not None and request.subscribed_topic_names != member.topics:
            member.topics = request.subscribed_topic_names
            self.epoch += 1
        if request.subscribed_topic_regex is not None and request.subscribed_topic_regex != member.pattern:
            member.pattern = request.subscribed_topic_regex
            self.epoch += 1
        if request.owned_partitions is not None:
            member.owned = {(t.topic_id, number) for t in request.owned_partitions for number in t.partitions}
        return self._answer(member)

    def _join(self, request: ConsumerGroupHeartbeatRequest) -> FakeMember:
        assert request.owned_partitions == () and request.rebalance_timeout_ms > 0
        if request.instance_id is not None and any(
            m.instance_id == request.instance_id and m.member_id != request.member_id for m in self.members.values()
        ):
            raise UnreleasedInstanceIdError(f"{request.instance_id} is in use")
        self.epoch += 1
        member = self.members[request.member_id] = FakeMember(request.member_id, request.instance_id)
        return member

    def _answer(self, member: FakeMember) -> ConsumerGroupHeartbeatResponse:
        target = self._targets().get(member.member_id, set())
        must_give_up = (member.owned | member.given) - target
        if must_give_up:
            member.given -= must_give_up
            now = member.owned & target
        else:
            member.epoch = self.epoch
            others = [m for m in self.members.values() if m is not member]
            now = {p for p in target if not any(p in m.owned or p in m.given for m in others)}
        member.given = set(now)
        assignment = None if member.sent == now else _grouped(now)
        member.sent = now
        epoch = member.epoch = member.epoch or self.epoch
        return ConsumerGroupHeartbeatResponse(member.member_id, epoch, self.heartbeat_interval_ms, assignment)

    def _targets(self) -> dict[str, Owned]:
        targets: dict[str, Owned] = {member_id: set() for member_id in self.members}
        for tp in sorted(self._cluster.logs):
            readers = sorted(m.member_id for m in self.members.values() if _reads(m, tp.topic))
            if readers and tp.topic in self._cluster.topics:
                reader = readers[tp.partition % len(readers)]
                targets[reader].add((self._cluster.topics[tp.topic], tp.partition))
        return targets | {member_id: set(owned) for member_id, owned in self.by_hand.items()}

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        self.commits.append(request)
        member = self.members.get(request.member_id)
        if request.member_id or request.member_epoch >= 0 or self.members:
            if member is None:
                raise UnknownMemberIdError("no such member")
            if member.epoch != request.member_epoch:
                raise StaleMemberEpochError(f"epoch {member.epoch}")
        results = []
        for part in request.partitions:
            error = None
            topic_id = self._cluster.topics.get(part.partition.topic)
            if part.partition in self._cluster.logs and part.topic_id in ("", topic_id):
                self.offsets[part.partition] = part
            else:
                error = UnknownTopicOrPartitionError("no such topic")
            results.append(OffsetCommitResult(part.partition, error))
        return OffsetCommitResponse(tuple(results))

    def _fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        groups = []
        for group in request.groups:
            member = self.members.get(group.member_id)
            if group.member_id and member is None:
                raise UnknownMemberIdError("no such member")
            if group.member_id and member is not None and group.member_epoch != member.epoch:
                raise StaleMemberEpochError(f"epoch {member.epoch}")
            parts = []
            for tp in group.partitions:
                found = self.answer_offset(tp, require_stable=request.require_stable)
                parts.append(OffsetFetchResult(tp, found) if isinstance(found, ApiError) else found)
            groups.append(GroupOffsets(group.group_id, None, tuple(parts)))
        return OffsetFetchResponse(tuple(groups))

    def answer_offset(self, tp: TopicPartition, *, require_stable: bool) -> OffsetFetchResult | ApiError:
        """The answer about one partition; a test may put another one in its place."""
        found = self.offsets.get(tp)
        if found is None:
            return OffsetFetchResult(tp)
        return OffsetFetchResult(tp, None, found.offset, found.leader_epoch, found.metadata, 7)


def _reads(member: FakeMember, topic: str) -> bool:
    return topic in member.topics or bool(member.pattern and re.fullmatch(member.pattern, topic))


def _grouped(owned: Owned) -> tuple[TopicIdPartitions, ...]:
    by_id: dict[str, list[int]] = defaultdict(list)
    for topic_id, number in sorted(owned):
        by_id[topic_id].append(number)
    return tuple(TopicIdPartitions(topic_id, tuple(numbers)) for topic_id, numbers in by_id.items())
