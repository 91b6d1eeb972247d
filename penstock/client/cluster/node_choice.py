"""Chooses the address that a client asks next, so that each address it knows is asked within a bounded number of tries.

Pure. A client stays with an address that answers. After a miss (no answer, or an error that another node may not give)
the next one is the address that was passed over longest ago. The bootstrap addresses belong to the choice as soon as
the brokers in service were missed once each, without an answer in between or since a bootstrap address was asked last:
the brokers may all have moved, and behind the bootstrap address may be a forwarder or a name that follows them
(KIP-899). The order is by turns and not by a count modulo the number of addresses: two such counts that advance
together may leave one address out for ever. Not here: asking (any_node.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.types import Endpoint


class NodeChoice:
    """The order in which one client asks the addresses that it knows."""

    __slots__ = ("_answered", "_bootstrap", "_misses", "_misses_in_a_row", "_passed", "_turn")

    def __init__(self, bootstrap: tuple[Endpoint, ...]) -> None:
        self._bootstrap = bootstrap
        self._turn = 0
        self._passed: dict[Endpoint, int] = {}  # the turn in which each was passed over last
        self._misses = 0  # since a bootstrap address was asked that is no broker's
        self._misses_in_a_row = 0
        self._answered: Endpoint | None = None  # the last address that was asked, if it answered

    def candidates(self, live: Collection[Endpoint]) -> tuple[Endpoint, ...]:
        """The addresses to choose from: `live` are those of the brokers in service."""
        brokers = tuple(dict.fromkeys(live))
        if brokers and max(self._misses, self._misses_in_a_row) < len(brokers):
            return brokers
        return brokers + tuple(endpoint for endpoint in self._bootstrap if endpoint not in brokers)

    def next(
        self, live: Collection[Endpoint], asked: Collection[Endpoint], avoid: Collection[Endpoint]
    ) -> Endpoint | None:
        """The address to ask next, of those that are not being asked; None when all are.

        An address in `avoid` is chosen only if there is no other.
        """
        left = [endpoint for endpoint in self.candidates(live) if endpoint not in asked]
        best = [endpoint for endpoint in left if endpoint not in avoid] or left
        if not best:
            return None
        chosen = min(best, key=lambda endpoint: self._passed.get(endpoint, 0))
        if chosen not in live:
            self._misses = 0
        return chosen

    def turn(self, live: Collection[Endpoint]) -> None:
        """Another address is chosen next than the one that answered last: it may be cut off from the others.

        After a miss that is so already; one more turn could leave an address out.
        """
        if self._answered is not None:
            self._pass_over(self._answered, live)
            self._answered = None

    def _pass_over(self, endpoint: Endpoint, live: Iterable[Endpoint]) -> None:
        """Passes over an address, and forgets the addresses that no longer belong to the cluster."""
        self._turn += 1
        known = {endpoint, *self._bootstrap, *live}
        self._passed = {at: turn for at, turn in self._passed.items() if at in known}
        self._passed[endpoint] = self._turn

    def missed(self, endpoint: Endpoint, live: Iterable[Endpoint]) -> None:
        """The address gave no answer, or an error that another node may not give."""
        self._misses += 1
        self._misses_in_a_row += 1
        self._answered = None
        self._pass_over(endpoint, live)

    def answered(self, endpoint: Endpoint) -> None:
        """The address answered: it is asked again."""
        self._misses_in_a_row = 0
        self._answered = endpoint

    def __repr__(self) -> str:
        return f"NodeChoice(bootstrap={len(self._bootstrap)}, misses in a row={self._misses_in_a_row})"
