"""Requests that begin a transaction while the last one of their id is still being ended: they wait for its end.

    being ended ──► waits ──► the last marker is written: the end and what waits for it are one turn, and one commit
                      └─────► after WAIT_MS, or where too many wait: CONCURRENT_TRANSACTIONS, ask again

A producer begins its next transaction as soon as the last one is decided, which is before its markers are written. If
it had to ask again, it would find out late that they are. Only a request about one transaction may wait, and only if it
says so: one of a leader about many would hold up the others. A transaction whose markers cannot be written delays its
own producer alone. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.coordination.timers import Timers
from broker.coordination.turn import Ticket, Turn
from penstock.errors import ApiError, NotCoordinatorError

WAIT_MS: Final = 200
"""Longer than markers take where nothing is broken. Requests behind it in a client's connection wait as long."""
OF_ID_MAX: Final = 20
"""Requests of one id: of its producer, and of the leaders of its partitions."""
WAITING_MAX: Final = 2_000
"""Requests of one shard."""

Again = Callable[[Turn], None]
"""Decides the request, and answers it whatever comes of it. Must not raise."""


class WaitingAdds:
    """The requests of one shard that wait for the end of the last transaction of their id."""

    def __init__(self, timers: Timers[Turn]) -> None:
        self._timers = timers
        self._of_id: dict[str, list[tuple[Ticket, Again]]] = {}
        self._count = 0

    def wait(self, turn: Turn, transactional_id: str, ticket: Ticket, again: Again) -> bool:
        """Have `again` called at the end of the id's transaction, or when its time is up; False: there is no room."""
        of_id = self._of_id.get(transactional_id)
        if self._count >= WAITING_MAX or (of_id is not None and len(of_id) >= OF_ID_MAX):
            return False
        if of_id is None:
            of_id = self._of_id[transactional_id] = []
            self._timers.set(_name(transactional_id), turn.now_ms + WAIT_MS, partial(self._time_up, transactional_id))
        of_id.append((ticket, again))
        self._count += 1
        return True

    def ended(self, turn: Turn, transactional_id: str) -> None:
        """The last transaction of the id is complete, by this turn."""
        if transactional_id in self._of_id:
            self._timers.cancel(_name(transactional_id))
            self._time_up(transactional_id, turn)

    def _time_up(self, transactional_id: str, turn: Turn) -> None:
        waiting = self._of_id.pop(transactional_id)
        self._count -= len(waiting)
        for _, again in waiting:
            again(turn)

    def unloaded(self) -> list[tuple[Ticket, ApiError]]:
        """The requests that wait, with their answer: the id has another coordinator."""
        waiting, self._of_id, self._count = self._of_id, {}, 0
        error = NotCoordinatorError("the transactional id has another coordinator now")
        return [(ticket, error) for of_id in waiting.values() for ticket, _ in of_id]

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"WaitingAdds({self._count})"


def _name(transactional_id: str) -> tuple[str, str]:
    return "waiting adds", transactional_id
