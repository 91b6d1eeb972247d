"""Lets a message of a client be decoded while the answers of its party have room, and a large one in its turn.

The rules of both protocols. A decoded request takes many times its bytes as objects, and those count nowhere. So none
is made that would only wait for room (answer_turns.py): its bytes wait, and these count. A large message takes long to
decode, so that is long work (load/long_work.py): one is decoded at a time. A message whose turn has come asks for room
AGAIN, because the answers of its party may have filled its share meanwhile; without room it gives the turn back. While
nobody has a turn, a message is decoded at once, and the time that a large one takes is charged.

Not here: how a protocol counts elements (kafka_codec/, request_decoder.py), the room for them (element_room.py),
and the room for bytes (request_memory.py).
"""

from __future__ import annotations

from typing import Final

from broker.load.long_work import LongWork
from broker.network.answer_turns import AnswerTurns, needs_room

LONG: Final = 100
"""A request with as many elements is large: to look at them takes some ms."""


class DecodingTurns:
    """The turns of one listener."""

    def __init__(self, answers: AnswerTurns, work: LongWork | None) -> None:
        """`work` is that of the whole node; None where nodes call, who wait behind no client."""
        self._answers, self._work = answers, work

    def has_room(self, api: str, party: str, elements: int = 0) -> bool:
        """False while a request of `elements` would wait for room for its answer."""
        return self._answers.is_open(party) or not needs_room(api, elements)

    async def room(self, api: str, party: str, elements: int = 0) -> None:
        """Returns once there is room."""
        if needs_room(api, elements):
            await self._answers.wait(party)

    @property
    def is_free(self) -> bool:
        """True if a large message may be decoded at once."""
        return self._work is None or self._work.is_free

    async def begins(self, api: str, party: str, elements: int = 0) -> bool:
        """True when the turn of a large message has come: then `done` must be called, without a wait in between. False
        if its answer has no room."""
        if not self.has_room(api, party, elements):
            return False
        if self._work is None:
            return True
        await self._work.turn(party)
        if self.has_room(api, party, elements):
            return True
        self._work.done(party)
        return False

    def done(self, party: str) -> None:
        """The message is decoded, or refused."""
        if self._work is not None:
            self._work.done(party)

    def is_long(self, elements: int) -> bool:
        """True if the work on a request of `elements` is long work. Work for other nodes never is."""
        return self._work is not None and elements >= LONG

    def now_ns(self) -> int:
        """The time of the work; 0 where none is counted."""
        return 0 if self._work is None else self._work.now_ns()

    def charge(self, party: str, began_ns: int) -> None:
        """Work on a large request began then, and had no turn."""
        if self._work is not None:
            self._work.charge(party, self._work.now_ns() - began_ns)

    def __repr__(self) -> str:
        return f"DecodingTurns({self._answers!r}, {self._work!r})"
