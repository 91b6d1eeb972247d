"""Decides when a connection's next request may be read: when there is room for it.

Kafka's protocol tells the size of a request before its bytes: it is counted as its bytes come, and is read no further
while there is no room. gRPC hands over a whole message, and its size is not known before. So a stream is expected to
send as much as last time, and room for that is held while the request is read; where that is little, nothing is held,
and the stream waits for its own party's share alone. A stream that stays silent for `HELD_MS` gives the room back.
Requests are counted from here until a handler is done with their bytes, large ones until they are answered
(request_channel.py). Each party has a share (memory_budget.py).

Answers count, too, until they have left: while the unread answers of its party fill its share, a connection is not
read, none that was read is decoded or worked on (answer_turns.py), and an answer that is due is not built. So however
many wait, the party is above its share by one answer. Those to fetches are counted before they are built, by their
session. Requests whose answers are small are read and answered nevertheless (small_answers.py), unless others of the
same connection are ready and not read. Those count as their bytes (connection_loop.py).

Before a log-in a connection has a budget apart (`before_log_in`): what strangers send takes no room of a user's. A
log-in is a small request that is here whole. It waits for no share, so a stranger whose frames never end keeps nobody
behind its address from a log-in.

Small requests have a budget of their own (one eighth), in which nothing is held before they arrive, so large ones
cannot keep them waiting. A request that is here whole waits for nobody else, where its party has little: it takes
memory already. A message that gRPC has still to hand over is not counted here: its library collects it before we see
any of it (connections/under_way.py).
"""

from __future__ import annotations

import asyncio
from functools import partial

from broker.network.answer_turns import AnswerTurns
from broker.network.memory_budget import Account, Lease, MemoryBudget, MemoryStatistics
from broker.network.request_channel import SMALL_BYTES
from penstock.errors import ResourceExhaustedError

SMALL_SHARE = 8
STREAM_SHARE = 8
HELD_MS = 1_000
ANSWER_COPIES = 2
"""An answer takes its bytes twice: those that it was built of, and those that wait for the socket."""
BEFORE_LOG_IN_BYTES = 32 * 1024 * 1024
"""All requests of connections that have still to log in: one eighth of it small ones, and they may send no others at
Kafka's listeners. A log-in has some hundred bytes."""
LOG_IN_BYTES = 4 * 1024
"""The most bytes of a request before a log-in that waits for no share if it is here whole: its bytes are in memory
already, and it is soon answered, because few log-ins of an address are under way (authentication/attempts.py)."""


class RequestMemory:
    """The budget of a node's requests (`queued.max.request.bytes`)."""

    def __init__(self, bytes_max: int, answers: MemoryBudget | None = None, shareless_max: int = 0) -> None:
        """`answers`: the budget of large answers to these requests, as much as that of the requests by default. A
        request of at most `shareless_max` bytes that is here whole waits for no share of its party."""
        self.shareless_max = shareless_max
        self.answers = MemoryBudget(bytes_max, STREAM_SHARE) if answers is None else answers
        self.turns = AnswerTurns(self.answers)
        """The turns in which requests are worked on."""
        self.small = MemoryBudget(bytes_max // SMALL_SHARE, STREAM_SHARE)
        self.large = MemoryBudget(bytes_max - bytes_max // SMALL_SHARE, STREAM_SHARE)

    @classmethod
    def before_log_in(cls) -> RequestMemory:
        """The memory of all connections that have still to log in."""
        return cls(BEFORE_LOG_IN_BYTES, shareless_max=LOG_IN_BYTES)

    def open(self, party: str) -> RequestIntake:
        """The intake of a new stream of a party."""
        return RequestIntake(self, party)

    def admit(self, party: str, size: int, *, waits: bool = False) -> Lease:
        """Count a call. It has arrived whole and cannot wait to be counted: a large one is refused if there is no room,
        and so is one that `waits` before it is decoded."""
        budget = self.small if size <= SMALL_BYTES else self.large
        account = budget.open(party)
        try:
            if (waits or size > SMALL_BYTES) and not account.has_room(size):
                raise ResourceExhaustedError(
                    f"no memory for a request of {size} bytes: this node has too many in flight, or {party} has;"
                    " send it again, or send less at once"
                )
            return account.take(size)
        finally:
            account.close()

    def may_answer(self, party: str) -> bool:
        """False while the unread answers of a party leave no room for one more."""
        account = self.answers.open(party)
        try:
            return account.has_room(0)
        finally:
            account.close()

    async def wait_for_answers(self, party: str) -> None:
        """Returns when the unread answers of a party leave room for one more."""
        account = self.answers.open(party)
        try:
            while not account.has_room(0):  # AGAIN, because all that wait are told at once
                (await acquired(account, 0)).release()
        finally:
            account.close()

    def answer(self, party: str, size: int) -> Lease:
        """Counts the answer of a call, which was built, until the lease is released."""
        account = self.answers.open(party)
        try:
            return account.take(ANSWER_COPIES * size)
        finally:
            account.close()

    def statistics(self) -> MemoryStatistics:
        small, large = self.small.statistics(), self.large.statistics()
        return MemoryStatistics(
            small.used_bytes + large.used_bytes,
            small.bytes_max + large.bytes_max,
            small.waiting + large.waiting,
            small.pauses + large.pauses,
        )

    def __repr__(self) -> str:
        return f"RequestMemory(small {self.small!r}, large {self.large!r})"


class RequestIntake:
    """One connection's requests, on their way in: `wait_turn`, read, `arrived` where the size of a request is not known
    before it is read; `leased`, read, where it is."""

    def __init__(self, memory: RequestMemory, party: str) -> None:
        self._left: list[Account] = []
        """Accounts from before a log-in: a read that waits for room goes on by them."""
        self._open(memory, party)
        self._expected = 0
        self._all_read = asyncio.Event()
        self._all_read.set()
        self._held: Lease | None = None
        self._timer: asyncio.TimerHandle | None = None

    def move(self, memory: RequestMemory, party: str) -> None:
        """The connection has logged in: requests that begin from now on are that party's, in that memory."""
        if self._of == (memory, party):
            return
        self._left += self._accounts()
        self._open(memory, party)

    def _open(self, memory: RequestMemory, party: str) -> None:
        self._of = memory, party
        self._small, self._large = memory.small.open(party), memory.large.open(party)
        self._answers, self._unread = memory.answers.open(party), memory.answers.open(party)

    def _accounts(self) -> list[Account]:
        return [self._small, self._large, self._answers, self._unread]

    async def wait_turn(self) -> None:
        """Returns when the next request may be read."""
        if self.unread:
            await self._until_answers_have_room(has_small_answer=True)
        is_small = self._expected <= SMALL_BYTES
        if is_small and self._small.has_room(0):
            return
        lease = await (acquired(self._small, 0) if is_small else acquired(self._large, self._expected))
        if not is_small:
            self._held = lease
            self._timer = asyncio.get_running_loop().call_later(HELD_MS / 1000, lease.release)

    @property
    def may_read(self) -> bool:
        """False while its party has too many answers unread for a request to be read whose answer may be large."""
        return self._answers.has_room(0)

    async def leased(self, size: int, come: int | None = None, *, has_small_answer: bool = False) -> Lease:
        """A lease of the next request, of `size` bytes; `come` of them, or all, are counted and may be read now."""
        if (self.unread or not has_small_answer) and not self.may_read:
            await self._until_answers_have_room(has_small_answer=has_small_answer)
        if come == size <= SMALL_BYTES and (lease := self._taken_at_once(size)) is not None:
            return lease
        return await acquired(self._small if size <= SMALL_BYTES else self._large, size, come)

    async def _until_answers_have_room(self, *, has_small_answer: bool) -> None:
        """A request with a small answer waits, too, if there are others of its connection that are not read."""
        while not self.may_read and (self.unread or not has_small_answer):
            account = self._answers
            room = asyncio.ensure_future(acquired(account, 0))
            read = asyncio.ensure_future(self._all_read.wait())
            try:
                await asyncio.wait((room, read) if has_small_answer else (room,), return_when=asyncio.FIRST_COMPLETED)
            finally:
                room.cancel()
                read.cancel()
                account.withdraw()

    @property
    def unread(self) -> bool:
        """True while answers of the connection are ready behind one that is not read."""
        return not self._all_read.is_set()

    @unread.setter
    def unread(self, is_unread: bool) -> None:
        if is_unread:
            self._all_read.clear()
        else:
            self._all_read.set()

    def held(self, size: int) -> Lease:
        """Counts the bytes of an answer that waits behind another one, until the lease is released."""
        return self._unread.take(size)

    def _taken_at_once(self, size: int) -> Lease | None:
        memory = self._of[0]
        if size <= memory.shareless_max and size <= memory.small.free:
            return self._small.take(size)
        return self._small.take_little(size)

    @property
    def may_answer(self) -> bool:
        """False while its party has too many answers unread for one more to be built; then `answerable` is waited
        for."""
        return self._unread.has_room(0)

    async def answerable(self) -> None:
        await acquired(self._unread, 0)

    def answered(self, size: int) -> Lease | None:
        """Counts an answer that was built, if it is a large one, until the lease is released."""
        return None if size <= SMALL_BYTES else self._unread.take(ANSWER_COPIES * size)

    def arrived(self, size: int) -> Lease:
        """A request was read: its bytes count until the lease is released."""
        self._expected = size
        lease = (self._small if size <= SMALL_BYTES else self._large).take(size)
        self._give_back()  # AFTER its bytes are counted, or another stream would be granted the room that they take
        return lease

    def _give_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None:
            self._held.release()
            self._held = None

    def input_ended(self) -> None:
        """Nothing more is read; answers are still to be written."""
        self._give_back()

    def close(self) -> None:
        """The stream is gone; requests of it that are still queued count until they are handled."""
        self._give_back()
        for account in (*self._accounts(), *self._left):
            account.close()


async def acquired(account: Account, size: int, come: int | None = None) -> Lease:
    """A lease of `size` bytes, when its turn has come; see `Account.acquire`."""
    turn: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
    lease = account.acquire(size, partial(_grant, turn), come)
    if lease is not None:
        return lease
    try:
        return await turn
    except asyncio.CancelledError:
        if turn.done() and not turn.cancelled():
            turn.result().release()
        raise


def _grant(turn: asyncio.Future[Lease], lease: Lease) -> None:
    """The stream may have been cancelled, and not have run since."""
    if turn.cancelled():
        lease.release()
    else:
        turn.set_result(lease)
