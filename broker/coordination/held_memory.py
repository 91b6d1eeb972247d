"""The bytes that one shard of a coordinator holds, by unit of its state and by the party that brought them.

A unit is a group, a transactional id or an application of atomic batches: what is deleted as one. Bytes that come while
a request is decided belong to the party of the request. Bytes that go are taken from the party of the request first,
then from NOBODY, then from the party that holds most of the unit. What a timer or a marker brings belongs to the party
that holds most of the unit.

Kafka's records name no principal. After a failover, and after a log was loaded again, everything belongs to NOBODY: it
counts for the whole, and for no party. The first party that uses a unit again (it joins, commits, keeps a membership or
ends a transaction) takes over what NOBODY holds of it (`claim`). Until then its share is larger by as much. Pure. Not
here: how large a share is (load/party_shares.py), and estimates, which are made where the state is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from broker.coordination.memory_shares import CoordinatorMemory
from broker.load.party_shares import NOBODY, PartyShares
from penstock.errors import ApiError

Grown = Callable[[str, int], None]
"""Takes a unit, and the bytes by which it has grown; negative if it has shrunk."""
UNIT_BYTES: Final = 190
"""The memory of a unit in these counts, about. It is part of the estimates of groups and transactional ids."""
NO_UNIT: Final = ""
"""The unit of state that belongs to no single one. It is nobody's: no group and no id has an empty name."""


def text_bytes(text: str) -> int:
    """The memory of a text's characters at most: one that is not ASCII may take four bytes for each."""
    return len(text) if text.isascii() else 4 * len(text)


def uncounted(unit: str, by: int) -> None:
    """`Grown` of state that nobody counts."""


class _Unit:
    """The bytes of one unit. Nearly all have one holder, so there is an object for the others only where they are."""

    __slots__ = ("bytes", "others", "party")

    def __init__(self, party: str) -> None:
        self.party = party
        self.bytes = 0
        self.others: dict[str, int] | None = None

    def holders(self) -> dict[str, int]:
        return {self.party: self.bytes, **(self.others or {})}

    def put(self, holders: dict[str, int]) -> None:
        """Keeps what each party holds. The party that holds most comes first; parties that hold nothing go."""
        first, *others = sorted(holders, key=lambda party: -holders[party])
        self.party, self.bytes = first, holders[first]
        self.others = {party: holders[party] for party in others if holders[party]} or None


class HeldMemory:
    """One kind of state of one shard. See the module."""

    def __init__(self, shares: PartyShares) -> None:
        self._shares = shares
        self._units: dict[str, _Unit] = {}
        self.bytes = 0

    def changed(self, unit: str, by: int, party: str) -> None:
        """The unit has grown, or shrunk, while a request of the party was decided."""
        if not by:
            return
        held = self._units.get(unit)
        if held is None:
            held = self._units[unit] = _Unit(party)
        elif party == NOBODY and by > 0:
            party = held.party
        if held.others is None and held.party == party:
            held.bytes += by
            self._shares.changed(party, by)
        elif by > 0:
            holders = held.holders()
            holders[party] = holders.get(party, 0) + by
            held.put(holders)
            self._shares.changed(party, by)
        else:
            self._shrunk(held, -by, party)
        self.bytes += by
        if not held.bytes and held.others is None:
            del self._units[unit]

    def _shrunk(self, held: _Unit, left: int, party: str) -> None:
        holders = held.holders()
        for one in sorted(holders, key=lambda one: (one != party, one != NOBODY, -holders[one])):
            taken = min(left, holders[one])
            holders[one] -= taken
            left -= taken
            self._shares.changed(one, -taken)
        held.put(holders)

    def claim(self, unit: str, party: str) -> None:
        """The party uses the unit: what belongs to nobody belongs to it."""
        held = self._units.get(unit)
        if held is None or (party in (NOBODY, held.party) and held.others is None):
            return
        if party == NOBODY or (held.party != NOBODY and NOBODY not in (held.others or ())):
            return
        holders = held.holders()
        by = holders.pop(NOBODY)
        holders[party] = holders.get(party, 0) + by
        held.put(holders)
        self._shares.changed(NOBODY, -by)
        self._shares.changed(party, by)

    def holder_of(self, unit: str) -> str:
        """The party that holds most of the unit; NOBODY if no party holds any of it."""
        held = self._units.get(unit)
        return NOBODY if held is None else held.party

    def give_up(self) -> None:
        """The state is used no more."""
        for held in self._units.values():
            for party, count in held.holders().items():
                self._shares.changed(party, -count)
        self._units = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._units)

    def __repr__(self) -> str:
        return f"HeldMemory({len(self)} units, {self.bytes} bytes)"


class ShardMemory:
    """Both kinds of state of one shard, and the party whose request is decided now."""

    def __init__(self, memory: CoordinatorMemory) -> None:
        self._memory = memory
        self.lasting, self.passing = HeldMemory(memory.lasting), HeldMemory(memory.passing)
        self.party = NOBODY

    @contextmanager
    def deciding_for(self, party: str) -> Iterator[None]:
        """State that changes in this context is the party's."""
        before, self.party = self.party, party
        try:
            yield
        finally:
            self.party = before

    def grown(self, unit: str, by: int) -> None:
        """`Grown` of state that lasts."""
        self.lasting.changed(unit, by, self.party)

    def grown_for_now(self, unit: str, by: int) -> None:
        """`Grown` of state that ends with its transaction."""
        self.passing.changed(unit, by, NOBODY if unit == NO_UNIT else self.party)

    def claim(self, unit: str, party: str) -> None:
        self.lasting.claim(unit, party)
        self.passing.claim(unit, party)

    def refusal_of(self, by: int) -> ApiError | None:
        """The coordinator's error if the party may not add `by` bytes that last."""
        return self._memory.refusal_of(self.party, by)

    def passing_refusal_of(self, by: int, party: str | None = None) -> ApiError | None:
        """The coordinator's error if the party may not add `by` bytes that end with a transaction."""
        return self._memory.passing_refusal_of(self.party if party is None else party, by)

    def must_have_room(self, by: int) -> None:
        """Raises `refusal_of`."""
        if (refusal := self.refusal_of(by)) is not None:
            raise refusal

    def has_room_in(self, unit: str, by: int) -> bool:
        """True if the party that holds most of the unit may add `by` bytes that last."""
        return self._memory.lasting.has_room(self.lasting.holder_of(unit), by)

    @property
    def bytes(self) -> int:
        return self.lasting.bytes + self.passing.bytes

    def give_up(self) -> None:
        """The shard's state is used no more."""
        self.lasting.give_up()
        self.passing.give_up()

    def __repr__(self) -> str:
        return f"ShardMemory({self.bytes} bytes)"
