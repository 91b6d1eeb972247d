"""Decodes the messages of one API when it is their turn: by the rules that both protocols have
(network/decoding_turns.py).

A message tells nothing of its elements before it is walked over, and a walk over all of it is long work by itself. So
it is large by its first elements alone, and these are counted only if it would have to wait. Most messages are too
small to have many, or come while nobody waits: they cost two comparisons more.

Not here: the limits of a message (request_decoder.py), and the memory of one that waits (handlers.py and
network/connection_loop.py, whose leases count it).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.grpc.incoming.request_decoder import RequestDecoder
from broker.network.answer_turns import SMALL_ELEMENTS, needs_room
from broker.network.decoding_turns import LONG, DecodingTurns

COUNTED_MAX = SMALL_ELEMENTS + 1
"""More elements of a message are not counted: they make no difference."""


class DecodedMessage(NamedTuple):
    """A request, and whether its work is long work (load/long_work.py)."""

    request: Any
    is_large: bool


class TurnedDecoder:
    """The decoder of one API at one listener."""

    def __init__(self, decoder: RequestDecoder, turns: DecodingTurns) -> None:
        self._decoder, self._turns, self._api = decoder, turns, decoder.api
        self._has_small_answers = not needs_room(decoder.api)

    def has_room(self, party: str) -> bool:
        """False while a message of the party would wait, however few elements it has."""
        return self._turns.has_room(self._api, party)

    async def room(self, party: str) -> None:
        """Returns once a message of the party may be read."""
        await self._turns.room(self._api, party)

    def may_decode(self, raw: bytes, party: str) -> bool:
        """True if it need not wait."""
        turns, decoder = self._turns, self._decoder
        if len(raw) < decoder.walk_from_bytes:
            return self._has_small_answers or turns.has_room(self._api, party)
        if turns.is_free and turns.has_room(self._api, party, COUNTED_MAX):  # however many it has
            return True
        elements = decoder.elements(raw, COUNTED_MAX)
        return turns.has_room(self._api, party, elements) and (elements < LONG or turns.is_free)

    def decode(self, raw: bytes, party: str) -> DecodedMessage:
        """The request now; InvalidRequestError as from its decoder. The time of a large one is charged."""
        decoder = self._decoder
        if len(raw) < decoder.walk_from_bytes:
            return DecodedMessage(decoder.decode(raw), False)
        began_ns, elements = self._turns.now_ns(), LONG  # a walk that ends in a refusal may have been as long
        try:
            request, elements = decoder.counted(raw)
        finally:
            if elements >= LONG:
                self._turns.charge(party, began_ns)
        return DecodedMessage(request, self._turns.is_long(elements))

    async def decode_in_turn(self, raw: bytes, party: str) -> DecodedMessage:
        """The request, when its answer has room and its turn has come."""
        elements = self._decoder.elements(raw, COUNTED_MAX)
        while True:
            await self._turns.room(self._api, party, elements)
            if elements < LONG:
                return DecodedMessage(self._decoder.decode(raw), False)
            if await self._turns.begins(self._api, party, elements):
                try:
                    return DecodedMessage(self._decoder.decode(raw), self._turns.is_long(elements))
                finally:
                    self._turns.done(party)

    def __repr__(self) -> str:
        return f"TurnedDecoder({self._decoder!r}, {self._turns!r})"
