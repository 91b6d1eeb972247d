"""An application of atomic batches as a streaming sink has it: a driver with a checkpoint, one process after the other.

The driver plans a version, has its tasks write it, commits it with one attempt of each task, and notes in the
checkpoint that it is done. A driver that begins goes on with the version that is not noted, which may be committed
already, and makes the same rows of it. Some drivers die at any point of that; some are taken for dead, stand still, and
go on beside the one that has replaced them. Not here: drivers and tasks (driver.py), what may be true (oracle.py).
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.cluster.plan import SinkPlan
from tests.simulation.cluster.sink.driver import Driver
from tests.simulation.cluster.sink.oracle import Row, SinkOracle

if TYPE_CHECKING:
    from penstock import AsyncAtomicBatches
    from tests.simulation.cluster.workload import Clients


class SinkApplication:
    """See the module. `noted` is what survives in the checkpoint: the first version that is not known to be done."""

    def __init__(self, clients: Clients, plan: SinkPlan) -> None:
        self.clients, self.plan = clients, plan
        scheduler, transactions = clients.network.scheduler, clients.transactions.oracle
        self.oracle = SinkOracle(plan.name, lambda: scheduler.now_s, transactions, clients.ledger.report)
        self.draw = random.Random(scheduler.draw.getrandbits(64))
        self.noted = 0
        self.ended: list[AsyncAtomicBatches] = []
        """They are kept: who is forgotten is closed in order, and these have died."""

    def rows(self, version: int, task: int) -> int:
        """How many rows this part of the version has, each time."""
        return random.Random(f"{self.plan.name} {version} {task}").randint(0, self.plan.records)

    async def work(self) -> None:
        """Until it is over, and the last version is committed."""
        beside: list[asyncio.Task[None]] = []
        while True:
            driver = Driver(self)
            beside.append(asyncio.ensure_future(driver.run()))
            await driver.has_left.wait()
            if driver.is_done:
                break
            await asyncio.sleep(0.0 if driver.is_left_alone else self.draw.uniform(0.1, 2.0))
        await asyncio.gather(*beside)

    def judge(self) -> None:
        """After everything was read whole."""
        tasks = range(self.plan.tasks)
        wanted = [
            Row(version, task, number)
            for version in range(self.noted)
            for task in tasks
            for number in range(self.rows(version, task))
        ]
        self.clients.calls["sink versions committed"] += self.noted
        self.oracle.judge(self.clients.transactions.oracle.stable, wanted)

    def __repr__(self) -> str:
        return f"SinkApplication({self.plan.name}, {self.noted} versions)"
