"""A consumer of the classic protocol at a shard of groups: cooperative or eager, as clients are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.errors import ApiError, MemberIdRequiredError
from penstock.messages.groups.classic_protocol import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from penstock.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_consumer_protocol,
)
from tests.support.consumer_groups import REBALANCE_MS, ConsumerShard

SESSION_MS = 45_000
Named = frozenset[tuple[str, int]]
NONE: Named = frozenset()


class ClassicConsumer:
    """`owned` is what it reads, by the names of topics."""

    def __init__(
        self,
        shard: ConsumerShard,
        *names: str,
        eager: bool = False,
        group_id: str = "g",
        instance_id: str | None = None,
        slow: bool = False,
    ) -> None:
        self.shard = shard
        self.group_id = group_id
        self.names = names
        self.eager = eager
        self.slow = slow
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: Named = NONE
        self.joins: int | None = None
        """The join that waits for its answer."""
        self.syncs: int | None = None
        self.lost: Named = NONE
        """It is to give these up, and still reads them."""
        self.saw: dict[str, int] | None = None
        """The topics that it assigned, as a leader."""
        self.next: Callable[[], None] | None = None

    # -- requests ------------------------------------------------------------------------------------------------------

    def metadata(self) -> bytes:
        subscription = ConsumerProtocolSubscription(
            topics=list(self.names), owned_partitions=rows(self.owned), generation_id=self.generation
        )
        return encode_consumer_protocol(subscription)

    def join_request(self, **other: Any) -> JoinGroupRequest:
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": (JoinGroupProtocol("range", self.metadata()),),
            "group_instance_id": self.instance_id,
        }
        return JoinGroupRequest(**{**fields, **other})

    def step(self) -> None:
        """Go on as far as the coordinator lets it: join, sync, or a heartbeat."""
        if self.next is not None:
            go_on, self.next = self.next, None
            go_on()
        elif self.joins is not None:
            self._take_join(self.joins)
        elif self.syncs is not None:
            self._take_sync(self.syncs)
        elif self.generation < 0:
            self.join()
        else:
            self.heartbeat()

    def _then(self, go_on: Callable[[], None]) -> None:
        """At once, or, of a slow client, with its next step."""
        if self.slow:
            self.next = go_on
        else:
            go_on()

    def join(self) -> None:
        self.owned = NONE if self.eager else self.owned - self.lost
        self.lost = NONE
        self.joins = self.shard.ask(self.join_request())
        self._take_join(self.joins)

    def _take_join(self, ticket: int) -> None:
        if ticket not in self.shard.answers:
            return
        self.joins = None
        answer: JoinGroupResponse | ApiError = self.shard.answers.pop(ticket)
        if isinstance(answer, ApiError):
            self.refused(answer)
            return
        self.member_id = answer.member_id
        if answer.error is not None:
            assert isinstance(answer.error, MemberIdRequiredError)
            self.join()
            return
        self.generation = answer.generation_id
        self.saw = None
        assignments: tuple[MemberAssignment, ...] = ()
        if answer.leader == self.member_id:
            assignments = self._assign(answer)
        self._then(lambda: self._sync(answer, assignments))

    def _sync(self, answer: JoinGroupResponse, assignments: tuple[MemberAssignment, ...]) -> None:
        self.syncs = self.shard.ask(
            SyncGroupRequest(
                self.group_id,
                self.generation,
                self.member_id,
                self.instance_id,
                answer.protocol_type,
                answer.protocol_name,
                assignments,
            )
        )
        self._take_sync(self.syncs)

    def _assign(self, answer: JoinGroupResponse) -> tuple[MemberAssignment, ...]:
        """As a leader: everything that another one still owns waits for the next round (KIP-429)."""
        self.saw = self._counts()
        wants: dict[str, list[str]] = {}
        owners: dict[tuple[str, int], str] = {}
        for member in answer.members:
            subscription = decode_subscription(member.metadata)
            for name in subscription.topics:
                wants.setdefault(name, []).append(member.member_id)
            for row in subscription.owned_partitions:
                owners.update(dict.fromkeys(((row.topic, partition) for partition in row.partitions), member.member_id))
        found: dict[str, set[tuple[str, int]]] = {member.member_id: set() for member in answer.members}
        for name, readers in wants.items():
            topic = self.shard.topics.by_name(name)
            for partition in range(0 if topic is None else topic.partitions):
                reader = readers[partition % len(readers)]
                if owners.get((name, partition), reader) == reader:
                    found[reader].add((name, partition))
        return tuple(
            MemberAssignment(
                member_id, encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=rows(partitions)))
            )
            for member_id, partitions in found.items()
        )

    def _take_sync(self, ticket: int) -> None:
        if ticket not in self.shard.answers:
            return
        self.syncs = None
        answer: SyncGroupResponse | ApiError = self.shard.answers.pop(ticket)
        if isinstance(answer, ApiError):
            self.refused(answer)
            return
        assigned = frozenset(
            (row.topic, partition)
            for row in decode_assignment(answer.assignment).assigned_partitions
            for partition in row.partitions
        )
        self.lost = self.owned - assigned
        self.owned |= assigned
        if self.eager:
            assert not self.lost
        elif self.lost:
            self._then(self.join)  # it has given up, and says so (KIP-429)

    def _counts(self) -> dict[str, int]:
        return {name: topic.partitions for name, topic in self.shard.topics.facts.items()}

    def heartbeat(self) -> None:
        if self.saw is not None and self.saw != self._counts():
            self._then(self.join)  # a leader sees to it that what topics become is assigned
            return
        ticket = self.shard.ask(HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id))
        answer = self.shard.answers.pop(ticket)
        if isinstance(answer, ApiError):
            self.refused(answer)

    def refused(self, error: ApiError) -> None:
        if error.kafka_name in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
            self.owned = self.lost = NONE
            self.generation = -1
            if error.kafka_name == "UNKNOWN_MEMBER_ID":
                self.member_id = ""
            return
        assert error.kafka_name == "REBALANCE_IN_PROGRESS", error
        self._then(self.join)

    def leave(self) -> None:
        self.shard.send(LeaveGroupRequest(self.group_id, (LeavingMember(self.member_id, self.instance_id),)))
        self.member_id, self.generation, self.owned = "", -1, NONE


def rows(partitions: Iterable[tuple[str, int]]) -> list[ConsumerProtocolTopicPartitions]:
    found: dict[str, list[int]] = {}
    for name, partition in sorted(partitions):
        found.setdefault(name, []).append(partition)
    return [ConsumerProtocolTopicPartitions(topic=name, partitions=numbers) for name, numbers in found.items()]
