"""A program that keeps its offsets in a group without members, and deletes some, by Kafka's protocol (I62).

It is the only one who writes there, one request after the other, so what it may be told of a partition is known: the
outcome of the last request that was acknowledged, or of one after it without an answer. Numbers are its own, and grow.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.kafka.schemas.groups.classic import DeleteGroupsRequest
from broker.kafka.schemas.groups.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.cluster.groups.coordinator_client import CoordinatorClient
from tests.simulation.cluster.kafka.connection import Broken
from tests.simulation.cluster.plan import MemberPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.groups.group import Group

NOTHING = -1
GROUP_ID_NOT_FOUND = 69
DELETE_SHARE, DELETE_ALL_SHARE, LOOK_SHARE = 0.2, 0.1, 0.3


class Bookkeeper:
    """See the module. Works on the partitions of the group's first topic."""

    def __init__(self, group: Group, number: int, plan: MemberPlan) -> None:
        self.group, self.plan, self.clients = group, plan, group.clients
        self.coordinator = CoordinatorClient(self.clients, f"{group.plan.name}-{number}", group.plan.name)
        self._client, self._draw = self.coordinator.client, self.coordinator.client.draw
        self._topic, self._next = group.plan.topics[0], 0
        self._may_be = {tp.partition: {NOTHING} for tp in self.clients.partitions(self._topic)}
        self._may_expire = self.clients.may_forget_offsets

    async def work(self) -> None:
        """Until the cluster is whole; then once more."""
        is_last, is_done = False, False
        while not (is_last and is_done):
            is_last = self.clients.is_mended
            is_done = await self._maybe_step()
            await asyncio.sleep(self.plan.pause_s)
        self._client.drop()

    async def _maybe_step(self) -> bool:
        """True if it has done something, and was told what there is."""
        number, partition = self._draw.random(), self._draw.choice(list(self._may_be))
        try:
            if number < DELETE_ALL_SHARE:
                await self._delete_group()
            elif number < DELETE_ALL_SHARE + DELETE_SHARE:
                await self._delete(partition)
            elif number < 1 - LOOK_SHARE or self.clients.is_mended:
                await self._commit(partition)
            await self._look()
        except Broken:
            self.coordinator.forget()
            await self._client.pause()
            return False
        return True

    async def _commit(self, partition: int) -> None:
        self._next += 1
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self._next, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(name=self._topic, partitions=[part])
        self._may_be[partition].add(self._next)
        answer = await self.coordinator.ask(OffsetCommitRequest(group_id=self.group.plan.name, topics=[topic]), 8)
        self._done(answer.topics[0].partitions[0].error_code, [partition], self._next)

    async def _delete(self, partition: int) -> None:
        part = OffsetDeleteRequestPartition(partition_index=partition)
        topic = OffsetDeleteRequestTopic(name=self._topic, partitions=[part])
        self._may_be[partition].add(NOTHING)
        answer = await self.coordinator.ask(OffsetDeleteRequest(group_id=self.group.plan.name, topics=[topic]), 0)
        code = answer.error_code or answer.topics[0].partitions[0].error_code
        self._done(code, [partition], NOTHING)

    async def _delete_group(self) -> None:
        for may_be in self._may_be.values():
            may_be.add(NOTHING)
        answer = await self.coordinator.ask(DeleteGroupsRequest(groups_names=[self.group.plan.name]), 2)
        self._done(answer.results[0].error_code, list(self._may_be), NOTHING)

    def _done(self, code: int, partitions: list[int], outcome: int) -> None:
        if code == GROUP_ID_NOT_FOUND:
            code, partitions, outcome = 0, list(self._may_be), NOTHING
        if code:
            self.clients.refused[f"kafka bookkeeper {code}"] += 1
            raise Broken(f"error code {code}")
        for partition in partitions:
            self._may_be[partition] = {outcome} | ({NOTHING} if self._may_expire else set())
        self.clients.calls["group offsets booked"] += 1

    async def _look(self) -> None:
        topics = [OffsetFetchRequestTopics(name=self._topic, partition_indexes=list(self._may_be))]
        of_group = OffsetFetchRequestGroup(group_id=self.group.plan.name, topics=topics)
        answer = (await self.coordinator.ask(OffsetFetchRequest(groups=[of_group]), 8)).groups[0]
        for part in answer.topics[0].partitions if not answer.error_code else ():
            committed, may_be = part.committed_offset, self._may_be[part.partition_index]
            if not part.error_code and committed not in may_be:
                place = f"{self.group.plan.name}, partition {part.partition_index}"
                text = f"I62: {place}: {committed} is told, and only {sorted(may_be)} can be"
                self.clients.ledger.report("group-committed", text)
        if answer.error_code:
            self.clients.refused[f"kafka bookkeeper {answer.error_code}"] += 1
            raise Broken(f"error code {answer.error_code}")

    def __repr__(self) -> str:
        return f"Bookkeeper({self.group.plan.name})"
