"""Decodes the messages of one API when it is their turn: by the rules that both protocols have
(network/decoding_turns.py).

A message tells nothing of its elements before it is walked over, and a walk over all of it is long work by itself. So
it waits by its first elements alone, and these are counted only if it would have to wait. Most messages are too small
to have many, or come while nobody waits: they cost two comparisons more.

Not here: the limits of a message (request_decoder.py), and the memory of one that waits (handlers.py and
network/connection_loop.py, whose leases count it).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.grpc.incoming.request_decoder import RequestDecoder
from broker.network.answer_turns import SMALL_ELEMENTS, needs_room
from broker.network.decoding_turns import LONG, DecodingTurns

COUNTED_MAX = SMALL_ELEMENTS + 1
"""The elements of a message that has FEW or more: so it asks for room whatever its API."""
FEW = 16
"""More elements of a message that waits are not counted before its turn: a walk over them takes 0.15 ms."""


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
        """True if it need not wait, whatever is in it."""
        turns, decoder = self._turns, self._decoder
        if len(raw) < decoder.walk_from_bytes:
            return self._has_small_answers or turns.has_room(self._api, party)
        return turns.is_free and turns.has_room(self._api, party, COUNTED_MAX)  # however many it has

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
        is_small = self._decoder.elements(raw, FEW) < FEW
        while True:
            await self._turns.room(self._api, party, 0 if is_small else COUNTED_MAX)
            if is_small:
                return DecodedMessage(self._decoder.decode(raw), False)
            if await self._turns.begins(self._api, party, COUNTED_MAX):
                try:
                    request, elements = self._decoder.counted(raw)
                    return DecodedMessage(request, self._turns.is_long(elements))
                finally:
                    self._turns.done(party)

    def __repr__(self) -> str:
        return f"TurnedDecoder({self._decoder!r}, {self._turns!r})"
