"""The memory that the state of one coordinator takes, estimated, and its errors when a party may not add to it.

Each party has a share by the rule of load/party_shares.py. State that lasts and state that ends with its transaction
are counted apart, each with the whole limit: a transaction that is open must not be refused because many others keep
state for days. Not here: which shard holds what, and for whom (held_memory.py).
"""

from __future__ import annotations

from broker.load.party_shares import PartyShares
from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass


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
        return self.lasting.limit

    @bytes_max.setter
    def bytes_max(self, bytes_max: int) -> None:
        self.lasting.limit = self.passing.limit = bytes_max

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
            f" {shares.limit} ({words.key}): "
        )

    def __repr__(self) -> str:
        return f"CoordinatorMemory({self.used} of {self.bytes_max})"
