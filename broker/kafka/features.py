"""The features whose level clients look at (KIP-584). All but one have the level of this release on every node.

`group.version` 1 says that groups have the consumer protocol (KIP-848). `transaction.version` 2 says that a producer
adds no partition to a transaction, because the leaders do it, and that every end gives it the next epoch (KIP-890); the
older way is served, too. `kraft.version` is 1 once the quorum is dynamic: its voters may be changed (KIP-853). It alone
can be raised (apis/admin/features.py). Not here: the versions of APIs (api_rows.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from raft.voters import VoterSet


class Feature(NamedTuple):
    """The levels that there are, and the one that counts."""

    first: int
    last: int
    level: int


FEATURES: Final[Mapping[str, Feature]] = {
    "group.version": Feature(0, 1, 1),
    "transaction.version": Feature(0, 2, 2),
}
"""The features of this release."""
KRAFT_VERSION: Final = "kraft.version"


def features_with(voters: VoterSet) -> Mapping[str, Feature]:
    """All features, while the quorum has these voters."""
    return {**FEATURES, KRAFT_VERSION: Feature(0, 1, int(voters.is_dynamic))}
