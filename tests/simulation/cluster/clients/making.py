"""An operator who makes topics and partitions while a broker is out of service, and deletes them again.

He stops a broker in order, waits until the cluster tells that it is fenced, and makes a topic that needs every broker.
What Kafka does then is done (I90): the topic is made, the absent broker is among its replicas, behind one in service,
and partitions can be added. Among faults a time-out is no wonder, nor a refusal because no broker at all is in service;
a request is refused for its number of replicas only if fewer brokers are registered. Without faults everything is done
in time; a topic whose making was answered to nobody, because the controller was the broker that went, is there.

A broker is out for longer than some rounds take, and comes back into service a session after its start. Without faults
the operator spares the last one in service: his topic is made beside those that he took out before.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from penstock import AsyncAdmin
from penstock.client.admin.admin_types import TopicDescription
from penstock.errors import InvalidReplicationFactorError, PenstockError, TopicExistsError, UnknownTopicOrPartitionError
from tests.simulation.cluster.plan import Task

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

OUT_SECONDS_MIN, OUT_SECONDS_MAX = 2.0, 5.0
LOOKS, LOOK_SECONDS = 20, 0.1
LIMIT_MS = 10_000
"""An act takes no longer where nothing is wrong but that broker."""
FACTOR_MAX = 3
NOBODY = "needs a broker in service to lead"
"""The refusal while every broker is fenced: a fault, or its mending, can have fenced the others, too."""


class Making:
    """One such operator."""

    def __init__(self, clients: Clients, draw: random.Random) -> None:
        self._clients, self._draw = clients, draw
        self._made = 0
        self._brokers = clients.plan.brokers
        self._forgets = any(operator.task is Task.FORGET for operator in clients.plan.operators)
        """Another operator has brokers forgotten, which are not registered then."""
        self._is_alone = not clients.plan.faults and not self._forgets
        """Nothing else takes a broker out of service."""

    async def make(self, admin: AsyncAdmin) -> None:
        """One round: a broker goes, a topic comes, and is deleted. `admin` may have less time than this takes."""
        broker_id, seconds = self._draw.choice(self._brokers), self._draw.uniform(OUT_SECONDS_MIN, OUT_SECONDS_MAX)
        is_spared = self._is_alone and self._clients.site.is_last(broker_id)
        if is_spared:
            self._clients.calls["last brokers spared"] += 1
        else:
            self._clients.site.take_out(broker_id, seconds)
        is_out = not is_spared and await self._is_out(admin, broker_id)
        name = f"made-{self._made}"
        self._made += 1
        async with self._clients.admin(LIMIT_MS) as patient:
            try:
                await self._made_and_grown(patient, name, broker_id if is_out else None)
                self._clients.calls["made with a broker out" if is_out else "made"] += 1
            except InvalidReplicationFactorError as error:
                if not self._forgets and (self._is_alone or NOBODY not in str(error)):
                    self._wrong(
                        f"{name} needs {self._factor} of {len(self._brokers)} brokers, and was refused: {error}"
                    )
                raise
            except PenstockError as error:
                if self._is_alone:
                    self._wrong(f"{name} was not made: {type(error).__name__}: {error}")
                raise
            finally:
                await self._deleted(patient, name)

    @property
    def _factor(self) -> int:
        return min(FACTOR_MAX, len(self._brokers))

    async def _is_out(self, admin: AsyncAdmin, broker_id: int) -> bool:
        """True if the broker was fenced before it was time to go on."""
        for _ in range(LOOKS):
            if await self._is_fenced(admin, broker_id):
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False

    async def _is_fenced(self, admin: AsyncAdmin, broker_id: int) -> bool:
        brokers = (await admin.describe_cluster()).brokers
        return any(broker.node_id == broker_id and broker.fenced for broker in brokers)

    async def _made_and_grown(self, admin: AsyncAdmin, name: str, out: int | None) -> None:
        try:
            made = await admin.create_topic(name, 2, self._factor)
        except TopicExistsError:  # by an attempt whose answer was lost
            made = await admin.describe_topic(name)
        await self._judge(admin, made, 0, out)
        await self._judge(admin, await admin.create_partitions(name, 3), 2, out)

    async def _judge(self, admin: AsyncAdmin, topic: TopicDescription, first: int, out: int | None) -> None:
        """`out`: a broker that was fenced. If it is so still, it was when the partitions were placed."""
        if out is None or not self._is_alone or not await self._is_fenced(admin, out):
            return
        for partition in topic.partitions[first:]:
            if partition.replicas[0] == out:
                self._wrong(f"{topic.name}-{partition.partition}: absent broker {out} is the preferred leader")

    async def _deleted(self, admin: AsyncAdmin, name: str) -> None:
        """It goes, however long that takes: no act of this round comes after it."""
        while not self._clients.is_over:
            try:
                await admin.delete_topic(name)
            except UnknownTopicOrPartitionError:
                return
            except PenstockError:
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return

    def _wrong(self, what: str) -> None:
        self._clients.ledger.report("refused", f"I90: {what}")
