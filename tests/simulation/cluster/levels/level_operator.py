"""An operator of releases: gives nodes the newer one, and the older one again, and raises and lowers levels meanwhile.

He does what docs/feature-levels.md says. He raises levels whenever he likes: the controller must refuse while a node is
too old, or away. He gives a node the older release only at `metadata.version` 1, once it has been in service with the
newer one behind the lowering, and was stopped in order; and not while a raise without an answer may still be carried
out. What stops then was stopped by a fault of the levels (I93).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from penstock import AsyncAdmin
from penstock.errors import InvalidUpdateVersionError, PenstockError
from tests.simulation.cluster.levels.level_history import METADATA_VERSION
from tests.simulation.cluster.levels.level_plan import LevelPlan

if TYPE_CHECKING:
    from tests.simulation.cluster.levels.level_history import LevelHistory
    from tests.simulation.cluster.levels.rolled import RolledNodes
    from tests.simulation.cluster.workload import Clients

RETRY_SECONDS: Final = 0.3
LOOK_SECONDS: Final = 0.1
STOP_SECONDS: Final = 8.0
"""He gives up on a node that does not end in this time."""
LIMIT_MS: Final = 4_000
GRACE_SECONDS: Final = 30.0
"""So long after a raise without an answer an attempt of it may be carried out."""


class LevelOperator:
    """See the module."""

    def __init__(self, clients: Clients, plan: LevelPlan, history: LevelHistory, nodes: RolledNodes) -> None:
        self._clients, self._plan, self._history, self._nodes = clients, plan, history, nodes
        self._draw = random.Random(clients.network.scheduler.draw.getrandbits(64))
        self._doubtful_until_ms = 0

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [self._work()]

    async def _work(self) -> None:
        async with await self._opened() as admin:
            while True:
                await asyncio.sleep(self._plan.pause_s * (0.5 + self._draw.random()))
                if self._clients.is_mended:
                    return
                if self._draw.random() < self._plan.rolls_share:
                    await self._roll(self._draw.randrange(len(self._clients.plan.nodes)))
                elif self._draw.random() < 0.6:
                    await self._raise(admin)
                else:
                    await self._lower(admin)

    async def _opened(self) -> AsyncAdmin:
        while True:
            admin = self._clients.admin()
            try:
                await admin.start()
                return admin
            except PenstockError:
                await admin.close()
                await asyncio.sleep(RETRY_SECONDS)

    # -- levels --------------------------------------------------------------------------------------------------------

    async def _raise(self, admin: AsyncAdmin) -> None:
        levels = {METADATA_VERSION: 2}
        if self._history.version == 2:
            levels = {"transaction.version": 2}
        try:
            await admin.upgrade_features(levels)
            self._count("raised")
        except InvalidUpdateVersionError:
            self._count("not raised")
        except PenstockError as error:
            self._clients.refused[type(error).__name__] += 1
            self._doubtful_until_ms = self._clients.time.now_ms() + int(GRACE_SECONDS * 1000)

    async def _lower(self, admin: AsyncAdmin) -> None:
        is_other, unsafe = self._draw.random() < 0.3, self._draw.random() < 0.5
        levels = {"transaction.version": 1} if is_other else {METADATA_VERSION: 1}
        try:
            await admin.downgrade_features(levels, unsafe=unsafe)
            self._count("lowered")
        except PenstockError as error:
            self._clients.refused[type(error).__name__] += 1

    # -- releases ------------------------------------------------------------------------------------------------------

    async def _roll(self, index: int) -> None:
        """Gives the node the other release, if the levels let it have that."""
        nodes = self._nodes
        goes_back = not nodes.is_old(index)
        if goes_back and not self._may_go_back(index):
            return
        if not await self._stopped(index):
            return
        if goes_back and not (nodes.ended_in_order(index) and self._is_at_1()):
            self._count("not rolled")
            nodes.start_with(index, old=False)
            return
        nodes.start_with(index, old=goes_back)
        self._count("rolled back" if goes_back else "rolled on")
        await self._in_service(index)

    def _is_at_1(self) -> bool:
        return self._history.version == 1 and self._clients.time.now_ms() >= self._doubtful_until_ms

    def _may_go_back(self, index: int) -> bool:
        has_applied = self._nodes.applied_offset(index) >= self._history.lowered_at
        return self._plan.rolls_back and self._is_at_1() and has_applied

    async def _stopped(self, index: int) -> bool:
        """Stops it in order; False if it was down, or does not end."""
        nodes = self._nodes
        if not nodes.stop_in_order(index):
            return False
        for _ in range(int(STOP_SECONDS / LOOK_SECONDS)):
            await asyncio.sleep(LOOK_SECONDS)
            if nodes.is_down(index):
                return True
        return False

    async def _in_service(self, index: int) -> None:
        for _ in range(int(STOP_SECONDS / LOOK_SECONDS)):
            if self._clients.is_mended or not self._nodes.is_down(index):
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _count(self, what: str) -> None:
        self._clients.calls[f"levels {what}"] += 1
