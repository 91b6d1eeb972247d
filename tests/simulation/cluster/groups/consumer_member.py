"""A member by the consumer protocol (KIP-848), as Kafka's clients speak it.

A heartbeat says everything when the member joins or its last one had no answer, else only what is new. What is to be
given up is committed first, then given up, then the next heartbeat says so; what is new is owned when it is known where
to begin to read it.
"""

from __future__ import annotations

from broker.kafka.schemas.groups.consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tests.simulation.cluster.groups.member import (
    OUT,
    REBALANCE_MS,
    UNRELEASED_INSTANCE,
    Member,
    Out,
)
from tests.simulation.cluster.groups.oracle import Spot
from tests.simulation.cluster.kafka.connection import Broken

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
VERSION = 1


class ConsumerMember(Member):
    """See the module."""

    versions = (9, 10)

    def begin(self) -> None:
        self.member_id = (
            f"{self.draw.getrandbits(64):016x}" if self.instance is None or not self.member_id else self.member_id
        )
        self.epoch, self._says_all, self._reported = JOINS, True, None
        self._target: set[Spot] = set()
        self.topics = self._drawn_topics()
        self._has_new_topics = False

    _says_all = True
    _reported: list[Spot] | None = None
    """The partitions that the coordinator was told of last."""

    def _drawn_topics(self) -> list[str]:
        topics = self.group.plan.topics
        if self.clients.is_mended or len(topics) == 1:
            return list(topics)
        return self.draw.sample(topics, self.draw.randint(1, len(topics)))

    def change_topics(self) -> None:
        self.topics, self._has_new_topics = self._drawn_topics(), True

    async def beat(self) -> None:
        if self.clients.is_mended and len(self.topics) < len(self.group.plan.topics):
            self.topics, self._has_new_topics = list(self.group.plan.topics), True
        answer, sent_s = await self._heartbeat()
        code = answer.error_code
        if code in OUT:
            raise Out
        if code == UNRELEASED_INSTANCE:  # the one before is not known to be dead yet
            raise Broken("its instance is not released")
        if code:
            raise Broken(f"error code {code}")
        self.group.oracle.was_heard(self.life, sent_s)
        is_new = answer.member_epoch != self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            before = self._target
            self._target = {Spot(t.topic_id, p) for t in answer.assignment.topic_partitions for p in t.partitions}
            if not before <= self._target:
                self._reported = None  # what it never took is given up by this word
        await self._reconcile(sent_s, is_new=is_new)

    async def _heartbeat(self) -> tuple[ConsumerGroupHeartbeatResponse, float]:
        says_all, owned = self._says_all, sorted(self.owned)
        self._says_all = True  # until it is answered
        tells_topics = says_all or self._has_new_topics
        question = ConsumerGroupHeartbeatRequest(
            group_id=self.group.plan.name,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance if says_all else None,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=self.topics if tells_topics else None,
            server_assignor=self.plan.assignor if says_all else None,
            topic_partitions=self._parts(owned) if says_all or owned != self._reported else None,
        )
        sent_s = self.now_s
        answer = await self.ask(question, VERSION)
        if not answer.error_code:
            self._says_all, self._reported = False, owned
            self._has_new_topics = False if tells_topics else self._has_new_topics
        return answer, sent_s

    @staticmethod
    def _parts(owned: list[Spot]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for spot in owned:
            by_topic.setdefault(spot.topic_id, []).append(spot.partition)
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=parts)
            for topic_id, parts in by_topic.items()
        ]

    async def _reconcile(self, sent_s: float, *, is_new: bool) -> None:
        """Gives up what is not in the target any more; takes the rest when that is done."""
        old = set(self.owned) - self._target
        if old:
            await self.commit_last(old)
            self.forget(old)
        elif new := self._target - set(self.owned):
            self.owned |= await self.take(new)
        if is_new or set(self.owned) != self.life.held:
            self.group.oracle.holds(self.life, self.epoch, self.owned, sent_s)

    async def leave(self) -> None:
        if self.epoch <= JOINS:
            return
        epoch = LEAVES if self.instance is None else LEAVES_FOR_A_WHILE
        self.owned = {}
        self.group.oracle.holds(self.life, self.epoch, ())
        question = ConsumerGroupHeartbeatRequest(
            group_id=self.group.plan.name, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance
        )
        await self.ask(question, VERSION)
