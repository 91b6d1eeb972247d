"""Decides which producer id a request gets, and when this broker needs another block of them (KIP-730).

No I/O: it is given `now_ms` and the controller's answers, and returns who is answered. Each id of a block is given
once, in order; what is left when the process ends is never given. A block is wanted when nine tenths of the one before
are used, so that requests seldom wait. A broker that no producer ever asked wants none. Not here: the call to the
controller (producer_id_manager.py), and which block it is (metadata/controller/producer_ids.py).
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.errors import ApiError, RequestTimedOutError, ResourceExhaustedError, UnknownServerError
from penstock.lazy_dataclass import dataclass

WAITING_MAX: Final = 1_000
"""The most requests that wait for a block; one block serves them all."""
WAIT_MS: Final = 5_000
"""How long a request waits for a block: longer than an election of a controller takes. The client then asks another
broker, or this one again."""
AHEAD_SHARE: Final = 10
"""Another block is wanted when one part in this many is left of the newest one."""
PRODUCER_IDS_END: Final = (1 << 63) - 1
"""The end of all producer ids, above every one of them: a batch has 64 bits with a sign for an id."""

W = TypeVar("W")


class WaitingForId(NamedTuple, Generic[W]):
    """A request that waits for a block, until `deadline_ms`."""

    waiter: W
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class ProducerIdStatistics:
    """A snapshot; the counters begin with the process."""

    given: int
    left: int
    waiting: int


class ProducerIdBlocks(Generic[W]):
    """The ids that this broker may give, and the requests that wait for one. The driver chooses what a waiter is."""

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()  # Invariant: no id of them was given; they rise
        self._left = 0  # ids of all blocks
        self._end = 0  # above every id of every block that came
        self._newest_size = 0
        self._waiting: deque[WaitingForId[W]] = deque()
        self._given = 0
        self._is_used = False
        self._refusal: ApiError | None = None  # why the last call to the controller brought no block

    @property
    def wants_block(self) -> bool:
        """True if the controller is to be asked for a block, if it is not being asked already."""
        return self._is_used and self._left * AHEAD_SHARE <= self._newest_size

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which the next request has waited too long; None if none waits."""
        return self._waiting[0].deadline_ms if self._waiting else None

    def request(self, waiter: W, now_ms: int) -> int | None:
        """An id; or None, and the waiter is answered later. ResourceExhaustedError if too many wait already."""
        self._is_used = True
        if self._blocks:  # then nobody waits: a block that comes serves the waiting first
            return self._take()
        if len(self._waiting) >= WAITING_MAX:
            raise ResourceExhaustedError(
                f"{WAITING_MAX} requests wait for a block of producer ids already; try again later"
            )
        self._waiting.append(WaitingForId(waiter, now_ms + WAIT_MS))
        return None

    def block_came(self, first: int, count: int) -> list[tuple[W, int]]:
        """The controller's answer: who gets which id.

        UnknownServerError if it is no block of ids, or one that this broker may have had before: a quorum that was
        made anew from an older metadata log gives blocks again.
        """
        end = first + count
        if first < 0 or count < 1 or end > PRODUCER_IDS_END:
            raise UnknownServerError(f"the controller answered with {count} producer ids from {first} on")
        if first < self._end:
            raise UnknownServerError(
                f"the controller gave producer ids {first} to {end - 1}, and those below {self._end} before: was the"
                " quorum made anew from an older metadata log? They are left out, or two producers would have one id"
            )
        self._blocks.append(range(first, end))
        self._left += count
        self._end, self._newest_size, self._refusal = end, count, None
        answered: list[tuple[W, int]] = []
        while self._waiting and self._blocks:
            answered.append((self._waiting.popleft().waiter, self._take()))
        return answered

    def block_refused(self, error: ApiError) -> None:
        """The call to the controller failed; those who wait go on waiting."""
        self._refusal = error

    def expired(self, now_ms: int) -> list[tuple[W, ApiError]]:
        """The waiters whose time is over, each with its error."""
        expired: list[tuple[W, ApiError]] = []
        why = self._refusal or "the controller has not answered"
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            error = RequestTimedOutError(f"this broker got no block of producer ids within {WAIT_MS} ms: {why}")
            expired.append((self._waiting.popleft().waiter, error))
        return expired

    def statistics(self) -> ProducerIdStatistics:
        """May be called in any thread."""
        return ProducerIdStatistics(self._given, self._left, len(self._waiting))

    def _take(self) -> int:
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        self._left -= 1
        self._given += 1
        return block[0]

    def __repr__(self) -> str:
        return f"ProducerIdBlocks({self._given} given, {self._left} left, {len(self._waiting)} waiting)"
