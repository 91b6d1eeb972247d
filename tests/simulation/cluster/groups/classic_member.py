"""A member by the classic protocol, as Kafka's clients speak it: eager or cooperative, static or not.

The leader of a generation deals the partitions out: evenly, and in a cooperative group so that each member keeps what
it can. There a partition that is to go from one member to another goes to nobody first: its owner gives it up, and
joins again. An eager member gives up everything before it joins.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.kafka.schemas.groups.classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_consumer_protocol,
)
from tests.simulation.cluster.groups.member import (
    OUT,
    REBALANCE_MS,
    REBALANCES,
    SESSION_MS,
    Member,
    Out,
)
from tests.simulation.cluster.groups.oracle import Spot
from tests.simulation.cluster.kafka.connection import Broken

MEMBER_ID_REQUIRED = 79
EAGER, COOPERATIVE = "range", "cooperative-sticky"
TopicPart = tuple[str, int]


class ClassicMember(Member):
    """See the module."""

    may_come = frozenset({MEMBER_ID_REQUIRED})
    is_checked = False

    def begin(self) -> None:
        self.member_id, self.epoch, self._must_join = "", -1, True

    _must_join = True

    @property
    def _is_eager(self) -> bool:
        return self.group.plan.strategy == EAGER

    def change_topics(self) -> None:
        """All of a group's classic members read all of its topics."""

    async def beat(self) -> None:
        if self._must_join:
            await self._join()
            return
        sent_s = self.now_s
        question = HeartbeatRequest(
            group_id=self.group.plan.name,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        code = (await self.ask(question, self.draw.choice((3, 4)))).error_code
        if code == REBALANCES:
            self._must_join = True
        elif code in OUT:
            raise Out
        elif code:
            raise Broken(f"error code {code}")
        else:
            self.group.oracle.was_heard(self.life, sent_s)
            self._must_join = self._has_grown()

    def _has_grown(self) -> bool:
        """The leader has seen more partitions than it has dealt out."""
        return self._dealt is not None and self._dealt != self._there()

    _dealt: list[TopicPart] | None = None

    def _there(self) -> list[TopicPart]:
        return [(topic, tp.partition) for topic in self.group.plan.topics for tp in self.clients.partitions(topic)]

    # -- a generation --------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        if self._is_eager:
            await self._give_up(self.owned)
        answer = await self._asked_to_join()
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        is_leader = answer.leader == answer.member_id and not answer.skip_assignment
        dealt = self._deal(answer) if is_leader else []
        question = SyncGroupRequest(
            group_id=self.group.plan.name,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=answer.protocol_name,
            assignments=dealt,
        )
        synced = await self.ask(question, self.draw.choice((3, 4, 5)))
        if synced.error_code == REBALANCES:
            return
        if synced.error_code in OUT:
            raise Out
        if synced.error_code:
            raise Broken(f"error code {synced.error_code}")
        await self._assigned(decode_assignment(synced.assignment))

    async def _asked_to_join(self) -> JoinGroupResponse:
        version = self.draw.choice((5, 6, 7, 9))
        owned = [
            ConsumerProtocolTopicPartitions(topic=topic, partitions=parts)
            for topic, parts in self._by_name(self.owned).items()
        ]
        metadata = ConsumerProtocolSubscription(
            topics=list(self.group.plan.topics), owned_partitions=owned, generation_id=self.epoch
        )
        question = JoinGroupRequest(
            group_id=self.group.plan.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=self.group.plan.strategy, metadata=encode_consumer_protocol(metadata, 2))
            ],
        )
        answer: JoinGroupResponse = await self.ask(question, version)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = question.member_id = answer.member_id
            answer = await self.ask(question, version)
        if answer.error_code in (*OUT, MEMBER_ID_REQUIRED):
            raise Out
        if answer.error_code:
            raise Broken(f"error code {answer.error_code}")
        return answer

    def _deal(self, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The shares differ by one at most; who has something keeps it if it can."""
        there = self._dealt = self._there()
        claims = {each.member_id: self._claimed(bytes(each.metadata)) for each in answer.members}
        members, most = sorted(claims), -(-len(there) // len(claims))
        rich = len(there) % len(claims) or len(claims)
        shares: dict[str, list[TopicPart]] = {member: [] for member in members}
        owner = {part: member for member in members for part in sorted(claims[member])}
        free = []
        for part in there:
            share = shares[owner[part]] if part in owner else []
            full = sum(len(each) >= most for each in shares.values())
            if part in owner and (len(share) < most - 1 or (len(share) < most and full < rich)):
                share.append(part)
            else:
                free.append(part)
        for part in free:
            shares[min(members, key=lambda member: len(shares[member]))].append(part)
        if not self._is_eager:
            shares = {m: [part for part in share if owner.get(part, m) == m] for m, share in shares.items()}
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=self._encoded(share))
            for member, share in shares.items()
        ]

    @staticmethod
    def _claimed(metadata: bytes) -> set[TopicPart]:
        owned = decode_subscription(metadata).owned_partitions
        return {(each.topic, partition) for each in owned for partition in each.partitions}

    @staticmethod
    def _encoded(share: Iterable[TopicPart]) -> bytes:
        by_name: dict[str, list[int]] = {}
        for topic, partition in share:
            by_name.setdefault(topic, []).append(partition)
        parts = [ConsumerProtocolTopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_name.items()]
        return encode_consumer_protocol(ConsumerProtocolAssignment(assigned_partitions=parts), 2)

    def _by_name(self, spots: Iterable[Spot]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for spot in sorted(spots):
            found.setdefault(self.names[spot.topic_id], []).append(spot.partition)
        return found

    # -- what it owns --------------------------------------------------------------------------------------------------

    async def _assigned(self, assignment: ConsumerProtocolAssignment) -> None:
        ids = self.clients.topic_ids  # its topics are never made anew
        self.names |= {ids[topic]: topic for topic in self.group.plan.topics}
        target = {Spot(ids[each.topic], p) for each in assignment.assigned_partitions for p in each.partitions}
        old, new = set(self.owned) - target, target - set(self.owned)
        await self._give_up(old)
        self._must_join = True  # if the coordinator does not say where to begin
        found = await self.take(new) if new else {}
        self.owned |= found
        self.group.oracle.holds(self.life, self.epoch, self.owned)
        self._must_join = bool(old) or len(found) < len(new)

    async def _give_up(self, spots: Iterable[Spot]) -> None:
        gone = set(spots)
        await self.commit_last(gone)
        self.forget(gone)
        if gone:
            self.group.oracle.holds(self.life, self.epoch, self.owned)

    async def leave(self) -> None:
        """A static member goes without a word: its session may end, or it comes back before."""
        if not self.member_id or self.instance is not None:
            return
        self.owned = {}
        self.group.oracle.holds(self.life, self.epoch, ())
        question = LeaveGroupRequest(group_id=self.group.plan.name, members=[MemberIdentity(member_id=self.member_id)])
        await self.ask(question, self.draw.choice((3, 4, 5)))
