"""An operator who cordons brokers and log dirs, takes that back, and makes topics meanwhile, which he deletes again.

Where the replicas go is judged by I97. At the end nothing is cordoned: what others make must be there soon. A broker
that was forgotten has no cordon any more.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from penstock import AsyncAdmin
from penstock.errors import BrokerIdNotRegisteredError, PenstockError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients

KEY = "cordoned.log.dirs"
FACTOR_MAX = 3
RETRY_SECONDS = 0.3


class Cordoning:
    """One such operator."""

    def __init__(self, clients: Clients, draw: random.Random) -> None:
        self._clients, self._draw = clients, draw
        self._made = 0
        self._cordoned: dict[int, None] = {}
        """The brokers that may be cordoned by him."""

    async def cordon(self, admin: AsyncAdmin) -> None:
        """One round: a cordon comes or goes, a topic is made, and goes."""
        broker_id = self._draw.choice(self._clients.plan.brokers)
        value = self._draw.choice(("*", "*", "*", *self._paths(broker_id), None, None))
        self._cordoned[broker_id] = None
        await admin.alter_broker_config(broker_id, {KEY: value})
        self._clients.calls["cordons changed"] += 1
        name = f"cordoned-{self._made}"
        self._made += 1
        factor = self._draw.randint(1, min(FACTOR_MAX, len(self._clients.plan.brokers)))
        try:
            await admin.create_topic(name, 2, factor)
            self._clients.calls["made beside cordons"] += 1
            await admin.create_partitions(name, 3)
        finally:
            await self._deleted(admin, name)

    def _paths(self, broker_id: int) -> tuple[str, ...]:
        """A log dir of the broker, and all of them."""
        dirs = [f"/machine/node-{broker_id}/data-{at}" for at in range(self._clients.plan.nodes[broker_id].log_dirs)]
        return dirs[0], ",".join(dirs)

    async def uncordon(self, admin: AsyncAdmin) -> None:
        """However long that takes."""
        while self._cordoned:
            broker_id = next(iter(self._cordoned))
            try:
                await admin.alter_broker_config(broker_id, {KEY: None})
            except BrokerIdNotRegisteredError:
                pass
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            del self._cordoned[broker_id]

    async def _deleted(self, admin: AsyncAdmin, name: str) -> None:
        while not self._clients.is_over:
            try:
                await admin.delete_topic(name)
            except UnknownTopicOrPartitionError:
                return
            except PenstockError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
