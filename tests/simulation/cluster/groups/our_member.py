"""A member that is AsyncConsumer, over gRPC: the client that ships, from `subscribe` to `close`.

It polls, commits what it was given, and now and then leaves, dies without a word, or stands still. It owns what its
callbacks have told it. The heartbeats that were taken for those of a member are heard from the membership's own state.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock import AsyncConsumer, TopicPartition
from penstock.client.consumer.groups.membership import Membership
from penstock.errors import PenstockError
from tests.simulation.cluster.clients.cores import core_of
from tests.simulation.cluster.groups.member import (
    COMMIT_SHARE,
    DIE_SHARE,
    LEAVE_SHARE,
    SESSION_MS,
    STILL_SHARE,
    Over,
)
from tests.simulation.cluster.groups.oracle import Life, Spot
from tests.simulation.cluster.plan import MemberPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.groups.group import Group

RETRY_SECONDS = 0.2
POLL_MS, RECORDS_MAX = 100, 100
LIMIT_MS = 4_000


class OurMember:
    """See the module. Its topics are never made anew: their ids are those of the clients."""

    def __init__(self, group: Group, number: int, plan: MemberPlan) -> None:
        self.group, self.plan, self.clients = group, plan, group.clients
        self.name = f"{group.plan.name}-{number}"
        self.instance = f"{self.name}-static" if plan.is_static else None
        self.draw = random.Random(self.clients.network.scheduler.draw.getrandbits(64))
        self.life = Life(self.name, self.name)
        self._uncommitted: dict[TopicPartition, int] = {}
        self._lives = 0

    async def work(self) -> None:
        """Until the group has processed everything."""
        while not self.group.is_done:
            self._lives += 1
            self.life = Life(f"{self.name}.{self._lives}", self.instance or f"{self.name}.{self._lives}")
            self.group.oracle.begins(self.life)
            self._uncommitted = {}
            consumer = self.clients.consumer(
                group_id=self.group.plan.name,
                group_instance_id=self.instance,
                group_remote_assignor=self.plan.assignor,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                request_timeout_ms=LIMIT_MS,
            )
            try:
                await self._live(consumer)
            except Over as over:
                self.group.oracle.gone(self.life)
                if not self.clients.is_mended:
                    await asyncio.sleep(over.seconds)
        self.group.oracle.gone(self.life)

    async def _live(self, consumer: AsyncConsumer) -> None:
        joined = core_of(consumer).group
        assert joined is not None
        self._watch(joined.member)
        is_subscribed = False
        while not self.group.is_done:
            try:
                if not is_subscribed:
                    await consumer.subscribe(self.group.plan.topics, on_lost=self._lost)
                    is_subscribed = True
                await self._poll(consumer)
                await self._maybe_do_something(consumer)
            except PenstockError as error:
                self.clients.refused[type(error).__name__] += 1
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(self.plan.pause_s)
        await consumer.close()

    def _watch(self, member: Membership) -> None:
        """The oracle hears of what the membership says of itself, at each of its changes."""
        sent_s, heartbeat, on_answer, on_done = [0.0], member.heartbeat, member.on_answer, member.on_done
        life, oracle = self.life, self.group.oracle

        def beats(now_ms: int) -> Any:
            request = heartbeat(now_ms)
            if request is not None:
                sent_s[0] = self.clients.network.scheduler.now_s
                if request.member_epoch == 0 and not life.held:
                    oracle.joins_anew(life)
            return request

        def holds() -> None:
            owned = member.reconciliation.owned_by_id()
            spots = [Spot(topic_id, partition) for topic_id, parts in owned.items() for partition in parts]
            if not life.is_gone and (set(spots) != life.held or member.epoch != life.epoch):
                oracle.holds(life, member.epoch, spots, sent_s[0])

        def answered(answer: Any, now_ms: int) -> None:
            if not life.is_gone and answer.member_epoch > 0:
                oracle.was_heard(life, sent_s[0])
            on_answer(answer, now_ms)
            holds()

        def done(step: Any, now_ms: int) -> None:
            on_done(step, now_ms)
            holds()

        member.heartbeat, member.on_answer, member.on_done = beats, answered, done  # type: ignore[method-assign]

    def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            self._uncommitted.pop(tp, None)

    async def _poll(self, consumer: AsyncConsumer) -> None:
        spans: dict[TopicPartition, tuple[int, int]] = {}
        for record in await consumer.poll(POLL_MS, RECORDS_MAX):
            tp = TopicPartition(record.topic, record.partition)
            first, _ = spans.get(tp, (record.offset, 0))
            spans[tp] = first, record.offset + 1
        for tp, (first, end) in spans.items():
            self.group.oracle.processed(self._spot(tp), first, end)
            self._uncommitted[tp] = end
        owned = set(consumer.assignment())
        self._uncommitted = {tp: end for tp, end in self._uncommitted.items() if tp in owned}
        if self._uncommitted and self.draw.random() < COMMIT_SHARE:
            await self._commit(consumer)

    def _spot(self, tp: TopicPartition) -> Spot:
        return Spot(self.clients.topic_ids[tp.topic], tp.partition)

    async def _commit(self, consumer: AsyncConsumer) -> None:
        offsets, self._uncommitted = self._uncommitted, {}
        self.group.oracle.commits(self.life, {self._spot(tp): offset for tp, offset in offsets.items()})
        await consumer.commit(offsets)
        for tp, offset in offsets.items():
            self.group.oracle.acknowledged(self._spot(tp), offset)
            self.clients.calls["group offsets committed"] += 1
        sent_s = self.clients.network.scheduler.now_s
        for tp, found in (await consumer.committed(list(offsets))).items():
            self.group.oracle.fetched(self._spot(tp), -1 if found is None else found.offset, sent_s)

    async def _maybe_do_something(self, consumer: AsyncConsumer) -> None:
        if self.clients.is_mended:
            return
        number, draw = self.draw.random(), self.draw
        if number < LEAVE_SHARE:
            with suppress(PenstockError):
                await consumer.close()
            raise Over(draw.uniform(0.1, 3.0))
        if number < LEAVE_SHARE + DIE_SHARE:
            self.clients.calls["group members died"] += 1
            await core_of(consumer).close_forgotten()
            raise Over(draw.uniform(0.1, 2 * SESSION_MS / 1000))
        if number < LEAVE_SHARE + DIE_SHARE + STILL_SHARE:
            await asyncio.sleep(draw.uniform(0.5, 3.0) * SESSION_MS / 1000)

    def __repr__(self) -> str:
        return f"OurMember({self.name})"
