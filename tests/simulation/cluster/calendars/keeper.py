"""Keeps things that expire, in a cluster whose calendars are wrong, and tells what was forgotten early, or never.

    offsets       of groups without members, each committed once; kept for RETAINED_MS
    ids           of producers that rest between their transactions for less than EXPIRATION_MS: each goes on
    batches       of one version each, committed once: until twice EXPIRATION_MS have passed, to begin it again finds
                  it committed
    records       of a topic with a retention of an hour, in some plans with LogAppendTime: all are there at the end

The time that counts is the story's, which no calendar touches (I91). At the end, when all calendars are right and the
cluster rests, everything must go in its time. A coordinator that was deposed may answer with an older state for a
while, so what is missing must be missing for some seconds. Not here: whose calendar is wrong (drawn_calendars.py).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from penstock import TopicPartition
from penstock.errors import InvalidProducerIdMappingError, PenstockError, TransactionAbortedError
from penstock.messages.transactions.atomic_batches import BATCH_PREFIX
from tests.simulation.cluster.calendars.calendar_plan import EXPIRATION_MS, RETAINED_MS, CalendarPlan

if TYPE_CHECKING:
    from penstock import AsyncAdmin
    from tests.simulation.cluster.workload import Clients

KEPT = "kept-records"
PLACE: Final = TopicPartition(KEPT, 0)
GROUPS, IDS, BATCHES = 4, 3, 4
EARLY_SHARE: Final = 0.95
"""Nodes' clocks run a little fast, and the answer takes its time."""
STALE_S: Final = 10.0
FORGETS_S: Final = 2 * RETAINED_MS / 1000
"""Everything has gone so soon after the last of it: each lead may lose a second of what it has watched."""


class Keeper:
    """See the module."""

    def __init__(self, clients: Clients, plan: CalendarPlan) -> None:
        self.clients, self._plan = clients, plan
        scheduler = clients.network.scheduler
        self._now_s: Callable[[], float] = lambda: scheduler.now_s
        self._draw = random.Random(scheduler.draw.getrandbits(64))
        self.wrong: list[str] = []
        self._offsets_s: dict[str, float] = {}
        self._batches_s: dict[str, float] = {}
        """When they were committed first, at the earliest."""

    def works(self) -> list[Coroutine[Any, Any, None]]:
        return [self._keeps(), *(self._rests(number) for number in range(IDS))]

    async def create_topics(self, admin: AsyncAdmin) -> None:
        copies = min(3, len(self.clients.plan.brokers))
        stamped = {"message.timestamp.type": "LogAppendTime"} if self._plan.stamps else {}
        await admin.create_topic(KEPT, 1, copies, {"retention.ms": 3_600_000, "segment.ms": 1_000, **stamped})

    # -- offsets and batches -------------------------------------------------------------------------------------------

    async def _keeps(self) -> None:
        """Makes one after the other, and looks at all of them meanwhile."""
        for number in range(max(GROUPS, BATCHES)):
            await self._try(lambda number=number: self._commit_offset(f"kept-{number}", number))  # type: ignore[misc]
            await self._try(lambda number=number: self._commit_batch(f"kept-{number}"))  # type: ignore[misc]
            await self._pause(2.0)
        while not self.clients.is_over:
            await self._pause(1.0)

    async def _pause(self, seconds: float) -> None:
        until_s = self._now_s() + seconds
        while self._now_s() < until_s and not self.clients.is_over:
            await self._look()
            await asyncio.sleep(1.0)

    async def _try(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until it is done, or all is over."""
        while not self.clients.is_over:
            try:
                await work()
                return
            except PenstockError:
                await asyncio.sleep(0.5)

    async def _commit_offset(self, name: str, number: int) -> None:
        self._offsets_s.setdefault(name, self._now_s())
        async with self.clients.admin() as admin:
            for error in (await admin.alter_group_offsets(name, {PLACE: number})).values():
                if error is not None:
                    raise error

    async def _commit_batch(self, name: str) -> None:
        began_s = self._now_s()
        async with self.clients.atomic_batches(5_000) as batches:
            writer = await batches.begin(name, 1, timeout_ms=2_000)
            if writer is not None:
                async with writer:
                    await writer.send(KEPT, name.encode())
                await batches.commit(name, 1, [writer.identity], records=1)
        self._batches_s.setdefault(name, began_s)

    async def _look(self) -> None:
        for name, since_s in tuple(self._offsets_s.items()):
            if await self._is_missing(lambda name=name: self._has_offset(name), since_s, RETAINED_MS):  # type: ignore[misc]
                self.wrong.append(f"I91: the offset of group {name} is gone {self._now_s() - since_s:.1f} s after it")
                del self._offsets_s[name]
        for name, since_s in tuple(self._batches_s.items()):
            if await self._is_missing(lambda name=name: self._has_batch(name), since_s, 2 * EXPIRATION_MS):  # type: ignore[misc]
                self.wrong.append(f"I91: version 1 of {name} is gone {self._now_s() - since_s:.1f} s after its begin")
                del self._batches_s[name]

    async def _is_missing(self, has: Callable[[], Coroutine[Any, Any, bool]], since_s: float, kept_ms: int) -> bool:
        limit_s = since_s + EARLY_SHARE * kept_ms / 1000
        asked_s = self._now_s()
        while self._now_s() < limit_s:
            try:
                if await has() or self._now_s() >= limit_s:
                    return False
            except PenstockError:
                return False
            if self._now_s() - asked_s > STALE_S:
                return True
            await asyncio.sleep(1.0)
        return False

    async def _has_offset(self, name: str) -> bool:
        async with self.clients.admin() as admin:
            return PLACE in await admin.group_offsets(name)

    async def _has_batch(self, name: str) -> bool:
        """A version that is forgotten opens: then it could be committed again."""
        async with self.clients.atomic_batches(5_000) as batches:
            writer = await batches.begin(name, 1, timeout_ms=2_000)
            if writer is None:
                return True
            async with writer:
                await batches.abort(name, 1)
            return False

    # -- ids and records -----------------------------------------------------------------------------------------------

    async def _rests(self, number: int) -> None:
        """One producer after the other of this id; each rests, and goes on."""
        while not self.clients.is_over:
            try:
                async with self.clients.transactional_producer(
                    f"kept-id-{number}", transaction_timeout_ms=2_000
                ) as producer:
                    used_s = self._now_s()
                    while not self.clients.is_over:
                        begun_s = self._now_s()
                        try:
                            async with producer.transaction() as transaction:
                                await transaction.send(KEPT, b"%d" % number)
                            used_s = begun_s
                        except TransactionAbortedError as error:
                            self._aborted(number, error, self._now_s() - used_s)
                        await asyncio.sleep(self._draw.uniform(0.1, 0.6) * EXPIRATION_MS / 1000)
            except PenstockError as error:
                self._aborted(number, error, 0.0)
                await asyncio.sleep(0.5)

    def _aborted(self, number: int, error: BaseException, rested_s: float) -> None:
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, InvalidProducerIdMappingError) and rested_s < EARLY_SHARE * EXPIRATION_MS / 1000:
                self.wrong.append(f"I91: kept-id-{number} is forgotten {rested_s:.1f} s after its last use")
                return
            seen = seen.__cause__

    # -- the end -------------------------------------------------------------------------------------------------------

    async def ends(self) -> None:
        """All calendars are right, and nothing is used any more: everything goes, and what stays is whole."""
        until_s = self._now_s() + FORGETS_S
        left = ["nothing was asked"]
        while left and self._now_s() < until_s:
            await asyncio.sleep(3.0)
            try:
                left = await self._left()
            except PenstockError as error:
                left = [repr(error)]
        self.wrong += [f"I91: not forgotten in {FORGETS_S:.0f} s: {text}" for text in left]

    async def _left(self) -> list[str]:
        async with self.clients.admin() as admin:
            found = [f"group {name}" for name in self._offsets_s if await admin.group_offsets(name)]
            ids = [one.transactional_id for one in await admin.list_transactions()]
            found += [f"id {one}" for one in ids if one.startswith(("kept-id-", f"{BATCH_PREFIX}kept-"))]
            starts = await admin.list_offsets({PLACE: "earliest"})
            if self._plan.judges_records and starts[PLACE].offset:
                self.wrong.append(f"I91: the records of {KEPT} begin at {starts[PLACE].offset}")
        return found
