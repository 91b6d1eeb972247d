"""Counts open connections by the name and version of the library that their client uses, where a protocol tells them.

Clients tell what they like and no one checks it, so a limited number of pairs is counted by itself, shared by the
parties that tell them (name_places.py). A pair keeps its place when its last connection has ended, until a new one
needs it. A connection that has still to log in is one of the others until it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.network.name_places import NamePlaces
from broker.network.parties import party_of
from broker.network.request_channel import Caller

SOFTWARE_MAX = 100
"""Pairs with a count of their own: each is a series in a monitoring system. One party alone has half of them."""
SOFTWARE_CHARS_MAX = 64
OTHERS = "(others)"

Software = tuple[str, str]
_THE_OTHERS: Software = (OTHERS, "")


class CountedSoftware:
    """One connection, in the count of its software until it is closed."""

    __slots__ = ("_counted", "_named", "_of")

    def __init__(self, of: ClientSoftware, software: Software, caller: Caller) -> None:
        self._of, self._named = of, software
        self._counted = of.counted(software, caller)

    @property
    def name(self) -> str:
        return self._named[0]

    @property
    def named(self) -> Software:
        """The name and the version, as the client tells them, cut."""
        return self._named

    def identified(self, caller: Caller) -> None:
        """The caller is known by now: it has logged in."""
        self.close()
        self._counted = self._of.counted(self._named, caller)

    def close(self) -> None:
        self._of.left(self._counted)


class ClientSoftware:
    """All of a node. Changed on the event loop."""

    def __init__(self, is_stranger: Callable[[Caller], bool] = lambda caller: False) -> None:
        """`is_stranger`: the caller has still to log in."""
        self._is_stranger = is_stranger
        self._open: dict[Software, int] = {_THE_OTHERS: 0}
        self._places: NamePlaces[Software] = NamePlaces(SOFTWARE_MAX, lambda pair: not self._open[pair])

    def joined(self, name: str, version: str, caller: Caller) -> CountedSoftware:
        """A connection has told the library of its client."""
        return CountedSoftware(self, (name[:SOFTWARE_CHARS_MAX], version[:SOFTWARE_CHARS_MAX]), caller)

    def counted(self, software: Software, caller: Caller) -> Software:
        """One connection more, of the pair that is given back."""
        pair = _THE_OTHERS if self._is_stranger(caller) else software
        if pair not in self._open:
            if self._places.take(pair, party_of(caller), self._open.__delitem__):
                self._open[pair] = 0
            else:
                pair = _THE_OTHERS
        self._open[pair] += 1
        return pair

    def left(self, pair: Software) -> None:
        self._open[pair] -= 1

    def statistics(self) -> Mapping[Software, int]:
        """A snapshot; may be called in any thread."""
        return dict(self._open)

    def __repr__(self) -> str:
        return f"ClientSoftware({len(self._open) - 1} pairs)"
