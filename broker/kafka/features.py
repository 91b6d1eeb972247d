"""The features whose level clients look at (KIP-584). The level is that of this release, the same on every node.

`group.version` 1 says that groups have the consumer protocol (KIP-848). `transaction.version` 2 says that a producer
adds no partition to a transaction, because the leaders do it, and that every end gives it the next epoch (KIP-890); the
older way is served, too. Not here: the versions of APIs (api_rows.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Feature(NamedTuple):
    """The levels that there are, and the one that counts."""

    first: int
    last: int
    level: int


FEATURES: Final[Mapping[str, Feature]] = {
    "group.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}
