"""Lets a request be worked on only while the answers of its party have room.

An answer costs most before it has bytes: as objects, and with the body that asked for it. So none is built that would
wait for room. The dispatcher asks here at a request's turn. By then all answers that were built before are counted, but
for those of the dispatcher's own turn (TURN_MS). A request whose party has no room is put aside. The requests of a
party go on in their order, one in each turn of the loop, as long as there is room. Until the last of them has, no
further request of the party is decoded (`wait`), so what is put aside is as much as came at once. A request that needs
no room is put aside only behind one that it must not overtake (`Request.behind`): clients pipeline batches, and commits
of offsets.

Not here: how much a party's answers may take (request_memory.py), the APIs whose answers wait for nothing
(small_answers.py), and answers to fetches, which are counted before they are built, by their session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.network.memory_budget import Account, Lease, MemoryBudget
from broker.network.parties import party_of
from broker.network.request_channel import SMALL_BYTES, Request
from broker.network.small_answers import SMALL_ANSWERS

COUNTED_BEFORE: Final = frozenset({"Fetch"})
"""The APIs whose answers are counted before they are built."""
SMALL_ELEMENTS: Final = SMALL_BYTES // 256
"""An answer that has more elements, each with the longest name of a topic, is not small, whatever its API."""
SWEPT_MIN: Final = 64
"""The requests put aside at which abandoned ones are first looked for. They are looked for again whenever there are
twice as many."""

Begin = Callable[[Request], None]


def needs_room(api: str, elements: int = 0) -> bool:
    """True of a request that is worked on only while there is room for an answer; `elements` are those of its
    arrays."""
    return api not in COUNTED_BEFORE and (api not in SMALL_ANSWERS or elements > SMALL_ELEMENTS)


class _Aside:
    """The requests of one party that are put aside."""

    __slots__ = ("account", "is_over", "requests", "swept_at")

    def __init__(self, account: Account) -> None:
        self.account, self.swept_at = account, SWEPT_MIN
        self.requests: deque[tuple[Request, Begin]] = deque()
        self.is_over = asyncio.Event()

    def put(self, request: Request, begin: Begin) -> None:
        self.requests.append((request, begin))
        if len(self.requests) > self.swept_at:
            self.requests = deque(one for one in self.requests if not _is_dropped(one[0]))
            self.swept_at = max(SWEPT_MIN, 2 * len(self.requests))

    def first(self) -> tuple[Request, Begin] | None:
        """The first that somebody still waits for."""
        while self.requests and _is_dropped(self.requests[0][0]):
            self.requests.popleft()
        return self.requests[0] if self.requests else None


class _Line:
    """The messages of one party that wait. The first one alone looks for room: if all were told at once, as many would
    be decoded for the room of one."""

    __slots__ = ("first", "waiting")

    def __init__(self) -> None:
        self.first, self.waiting = asyncio.Lock(), 0


def _is_dropped(request: Request) -> bool:
    """True if nobody waits for it; then its bytes count no more."""
    if request.is_abandoned and request.body_lease is not None:
        request.body_lease.release()
    return request.is_abandoned


class AnswerTurns:
    """The turns of all parties in one budget of answers."""

    def __init__(self, answers: MemoryBudget) -> None:
        self._answers, self._empty = answers, answers.free
        self._aside: dict[str, _Aside] = {}
        self._lines: dict[str, _Line] = {}
        """The parties that have messages which wait to be decoded."""

    def is_open(self, party: str) -> bool:
        """True if a request of the party may be worked on."""
        if self._answers.free >= self._empty and not self._aside:  # as it mostly is
            return True
        return party not in self._aside and self._has_room(party)

    def _has_room(self, party: str) -> bool:
        account = self._answers.open(party)
        try:
            return account.has_room(0)
        finally:
            account.close()

    async def wait(self, party: str) -> None:
        """Returns once a request of the party may be worked on. Waiting requests go on one in each turn of the loop, as
        long as there is room."""
        line = self._lines.get(party)
        if line is None:
            line = self._lines[party] = _Line()
        line.waiting += 1
        try:
            async with line.first:
                while not self.is_open(party):
                    aside = self._aside.get(party)
                    if aside is not None:
                        await aside.is_over.wait()
                    else:
                        await self._room(party)
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[party]

    async def _room(self, party: str) -> None:
        account, has_room = self._answers.open(party), asyncio.Event()

        def granted(lease: Lease) -> None:
            lease.release()
            has_room.set()

        try:
            lease = account.acquire(0, granted)
            if lease is not None:
                granted(lease)
            await has_room.wait()
        finally:
            account.close()

    def puts_aside(self, request: Request, begin: Begin) -> bool:
        """True if the request must wait; `begin` is called with it when its turn has come, unless it is abandoned."""
        behind, request.behind = request.behind, None
        if behind is not None and behind.handled_ns:
            return False
        party = party_of(request.caller)
        if self.is_open(party):
            return False
        aside = self._aside.get(party)
        if aside is not None:
            aside.put(request, begin)
            return True
        aside = self._aside[party] = _Aside(self._answers.open(party))
        aside.put(request, begin)
        self._wait_for_first(party, aside)
        return True

    def _wait_for_first(self, party: str, aside: _Aside) -> None:
        lease = aside.account.acquire(0, partial(self._granted, party, aside))
        if lease is not None:
            self._granted(party, aside, lease)

    def _granted(self, party: str, aside: _Aside, lease: Lease) -> None:
        lease.release()
        asyncio.get_running_loop().call_soon(self._begin_first, party, aside)

    def _begin_first(self, party: str, aside: _Aside) -> None:
        first = aside.first()
        if first is None:
            del self._aside[party]
            aside.account.close()
            aside.is_over.set()
        elif not aside.account.has_room(0):
            self._wait_for_first(party, aside)
        else:
            aside.requests.popleft()
            # the next one AFTER this one's answer is counted, which its writer does in between
            request, begin = first
            begin(request)
            asyncio.get_running_loop().call_soon(self._begin_first, party, aside)

    def __repr__(self) -> str:
        return f"AnswerTurns({sum(len(aside.requests) for aside in self._aside.values())} aside)"
