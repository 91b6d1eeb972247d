"""Counts open connections by the name and version of the library that their client uses, where a protocol tells them.

Clients tell what they like and no one checks it, so a limited number of pairs is counted by itself. A pair keeps its
place when its last connection has ended, until a new one needs it.
"""

from __future__ import annotations

from collections.abc import Mapping

SOFTWARE_MAX = 50
"""Pairs with a count of their own: each is a series in a monitoring system."""
SOFTWARE_CHARS_MAX = 64
OTHERS = "(others)"

Software = tuple[str, str]
_THE_OTHERS: Software = (OTHERS, "")


class CountedSoftware:
    """One connection, in the count of its software until it is closed."""

    __slots__ = ("_counts", "_software")

    def __init__(self, counts: dict[Software, int], software: Software) -> None:
        self._counts, self._software = counts, software
        counts[software] += 1

    def close(self) -> None:
        self._counts[self._software] -= 1


class ClientSoftware:
    """All of a node. Changed on the event loop."""

    def __init__(self) -> None:
        self._open: dict[Software, int] = {_THE_OTHERS: 0}

    def joined(self, name: str, version: str) -> CountedSoftware:
        """A connection has told the library of its client."""
        software = name[:SOFTWARE_CHARS_MAX], version[:SOFTWARE_CHARS_MAX]
        if software not in self._open:
            if len(self._open) <= SOFTWARE_MAX or self._one_leaves():
                self._open[software] = 0
            else:
                software = _THE_OTHERS
        return CountedSoftware(self._open, software)

    def _one_leaves(self) -> bool:
        """Makes room by the oldest pair without a connection, if there is one."""
        gone = next((pair for pair, count in self._open.items() if not count and pair != _THE_OTHERS), None)
        if gone is None:
            return False
        del self._open[gone]
        return True

    def statistics(self) -> Mapping[Software, int]:
        """A snapshot; may be called in any thread."""
        return dict(self._open)

    def __repr__(self) -> str:
        return f"ClientSoftware({len(self._open) - 1} pairs)"
