"""The features whose levels clients of Kafka's protocol look at (KIP-584): the supported and the finalized ones.

The table is `metadata/features.py`. Clients read three of its features: `group.version` 1 says that groups may have the
consumer protocol (KIP-848), `transaction.version` 2 that a producer adds no partition to a transaction (KIP-890), and
`kraft.version` 1 that the quorum's voters may be changed (KIP-853). The numbers of `metadata.version` are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.kafka.parts import PlanParts
from metadata.features import KRAFT_VERSION


class Feature(NamedTuple):
    """The levels that this node supports, and the one that is finalized."""

    first: int
    last: int
    level: int


def features_of(parts: PlanParts) -> Mapping[str, Feature]:
    """All features, by the metadata of this node."""
    table = parts.features
    levels = {**table.levels(parts.image().levels), KRAFT_VERSION: int(parts.voters().is_dynamic)}
    return {name: Feature(*one, levels[name]) for name, one in table.ranges.items()}
