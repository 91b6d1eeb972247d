"""One group of a simulated cluster that reads, processes and writes in transactions: its members, and its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from penstock import AsyncProducer, TopicPartition
from tests.simulation.cluster.plan import ProcessingPlan
from tests.simulation.cluster.processing.member import MemberProcess
from tests.simulation.cluster.processing.oracle import ProcessingOracle

if TYPE_CHECKING:
    from tests.simulation.cluster.workload import Clients


class Processing:
    """See the module."""

    def __init__(self, clients: Clients, plan: ProcessingPlan) -> None:
        self.clients, self.plan = clients, plan
        scheduler, transactions = clients.network.scheduler, clients.transactions.oracle
        self.oracle = ProcessingOracle(plan.name, lambda: scheduler.now_s, transactions, clients.ledger.report)
        self._members = [ProcessingMember(self, number) for number in range(plan.members)]

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [member.work() for member in self._members]

    @property
    def is_done(self) -> bool:
        """Everything that was written is processed."""
        ends = self._ends()
        return ends is not None and all(self.oracle.reached(tp) >= end for tp, end in ends.items())

    def _ends(self) -> dict[TopicPartition, int] | None:
        ends = self.clients.ends
        return None if ends is None else {tp: end for tp, end in ends.items() if tp.topic in self.plan.topics}

    def judge(self) -> None:
        """After everything was read whole."""
        self.oracle.judge(self.clients.transactions.oracle.stable, self._ends() or {})

    def __repr__(self) -> str:
        return f"Processing({self.plan.name})"


class ProcessingMember:
    """One transactional id, and the processes that have it."""

    def __init__(self, group: Processing, number: int) -> None:
        self.group, self.clients = group, group.clients
        self.name = f"{group.plan.name}-{number}"
        self.draw = random.Random(self.clients.network.scheduler.draw.getrandbits(64))
        self.ended: list[AsyncProducer] = []
        """They are kept: who is forgotten is closed in order, and these have died."""

    async def work(self) -> None:
        """Until the group has processed everything, and every process has ended."""
        beside: list[asyncio.Task[None]] = []
        while not self.group.is_done:
            process = MemberProcess(self)
            beside.append(asyncio.ensure_future(process.run()))
            await process.has_left.wait()
            if not (self.clients.is_mended or process.is_left_alone):
                await asyncio.sleep(self.draw.uniform(0.1, 2.0))
        await asyncio.gather(*beside)

    def __repr__(self) -> str:
        return f"ProcessingMember({self.name})"
