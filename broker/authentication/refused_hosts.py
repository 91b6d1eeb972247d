"""Counts refusals by the network that they were for, and says which of them are worth a line in the log: the first, the
second, the fourth, the eighth … of a network. A client that is refused without end cannot fill a disk with it, from as
many addresses of IPv6 as a machine has. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

from penstock.addresses import network_of

HOSTS_MAX: Final = 1_024
"""Networks that are counted apart; the next one begins all counts anew."""


class RefusedHosts:
    """The refusals of one listener, or of a node."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def note(self, host: str) -> int:
        """One more; its number if it is worth a line, else 0."""
        network = network_of(host)
        if len(self._times) >= HOSTS_MAX and network not in self._times:
            self._times.clear()
        self._times[network] += 1
        times = self._times[network]
        return times if times & (times - 1) == 0 else 0

    def __len__(self) -> int:
        return len(self._times)

    def __repr__(self) -> str:
        return f"RefusedHosts({len(self._times)})"
