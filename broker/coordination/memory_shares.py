"""The memory that the state of one coordinator takes, estimated, and the share of it that each party may have.

    a party may add n bytes while   held by it + n  <=  limit - held by all - n

One party alone gets half of the limit, two greedy ones a third each, n of them 1/(n+1) each, and as much as each of
these has stays free for a party that comes next. So nobody is refused because another party took everything, and there
is no share to configure. The rule is that of Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
packet switches", IEEE/ACM Transactions on Networking, 1998, with a factor of one.

State that lasts and state that ends with its transaction are counted apart, each with the whole limit: a transaction
that is open must not be refused because many others keep state for days. A party is a principal, or the network of an
anonymous caller (network/parties.py). Bytes that no request brought belong to NOBODY. Not here: which shard holds what,
and for whom (held_memory.py).
"""

from __future__ import annotations

from heapq import nlargest
from typing import Final, NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass

NOBODY: Final = ""
"""The holder of state that no request brought: it was loaded from the log, or the node made it."""
SHOWN_MAX: Final = 5
"""Parties that the metrics name: each is a series in a monitoring system."""


class PartyMemory(NamedTuple):
    """A row of the metrics: one of the parties that hold most."""

    party: str
    bytes: int


class PartyShares:
    """How much each party holds of one thing: bytes of state over all shards of a coordinator, or requests that wait.
    Changed on the event loop."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.refusals = 0
        """Requests, or parts of them, that were refused for want of memory."""
        self._held: dict[str, int] = {}

    def changed(self, party: str, by: int) -> None:
        """Some state of the party came (`by` is positive) or went."""
        self.used += by
        held = self._held.get(party, 0) + by
        if held:
            self._held[party] = held
        else:
            self._held.pop(party, None)

    def held_by(self, party: str) -> int:
        return self._held.get(party, 0)

    def has_room(self, party: str, by: int) -> bool:
        """True if the party may add `by` bytes. To add nothing, or to give some back, is always allowed."""
        return by <= 0 or self.held_by(party) + by <= self.bytes_max - self.used - by

    def largest(self, count: int = SHOWN_MAX) -> list[PartyMemory]:
        """The parties that hold most; may be called in any thread."""
        rows = (PartyMemory(party, held) for party, held in self._held.copy().items() if party != NOBODY)
        return nlargest(count, rows, key=lambda row: row.bytes)

    def __repr__(self) -> str:
        return f"PartyShares({self.used} of {self.bytes_max}, {len(self._held)} parties)"


@dataclass(frozen=True, slots=True)
class MemoryWords:
    """How a coordinator refuses: its errors, and the words in them."""

    state: str
    """The state that is held: "the groups"."""
    key: str
    """The configuration key of the limit."""
    lasting_error: type[ApiError]
    """The error of state that lasts. It is not retriable: the room may not come back for days."""
    lasting_remedy: str
    passing_error: type[ApiError]
    """Retriable: room comes when transactions end."""
    passing_remedy: str


class CoordinatorMemory:
    """The memory of one coordinator: one per broker, shared by its shards."""

    def __init__(self, bytes_max: int, words: MemoryWords) -> None:
        self._words = words
        self.lasting, self.passing = PartyShares(bytes_max), PartyShares(bytes_max)

    @property
    def bytes_max(self) -> int:
        return self.lasting.bytes_max

    @bytes_max.setter
    def bytes_max(self, bytes_max: int) -> None:
        self.lasting.bytes_max = self.passing.bytes_max = bytes_max

    @property
    def used(self) -> int:
        """The bytes of both kinds of state."""
        return self.lasting.used + self.passing.used

    @property
    def refusals(self) -> int:
        """The refusals of both kinds, since the start."""
        return self.lasting.refusals + self.passing.refusals

    def refusal_of(self, party: str, by: int) -> ApiError | None:
        """The error if the party may not add `by` bytes of state that lasts."""
        if self.lasting.has_room(party, by):
            return None
        return self._words.lasting_error(self._fact(self.lasting, party, by) + self._words.lasting_remedy)

    def passing_refusal_of(self, party: str, by: int) -> ApiError | None:
        """The error if the party may not add `by` bytes of state that ends with its transaction."""
        if self.passing.has_room(party, by):
            return None
        return self._words.passing_error(self._fact(self.passing, party, by) + self._words.passing_remedy)

    def _fact(self, shares: PartyShares, party: str, by: int) -> str:
        shares.refusals += 1
        words = self._words
        return (
            f"{party or 'state that belongs to no principal'} holds about {shares.held_by(party)} bytes of the memory"
            f" for {words.state} of this broker, and may not add {by}: a principal, or the network of anonymous"
            f" clients, holds at most as much as stays free for others. In use are {shares.used} bytes of"
            f" {shares.bytes_max} ({words.key}): "
        )

    def __repr__(self) -> str:
        return f"CoordinatorMemory({self.used} of {self.bytes_max})"
