"""DescribeFeatures and UpdateFeatures: the levels of features (KIP-584), and who supports which.

Not here: what a level allows (the server's table, which comes with the answer), and which change is possible when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from penstock.errors import ApiError
from penstock.lazy_dataclass import dataclass
from penstock.types import NO_OFFSET

METADATA_VERSION: Final = "metadata.version"
"""The feature whose levels say which records the metadata may have."""
KRAFT_VERSION: Final = "kraft.version"
"""The feature whose level is no record: it follows from the quorum's voters."""


def release_number(release: str) -> tuple[int, ...]:
    """A release as a value that can be compared; what follows its three numbers is left out. ValueError."""
    matched = re.match(r"(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?![0-9])", release)
    if matched is None:
        raise ValueError(f"{release[:32]!r} is not a release, such as 0.3.0")
    return tuple(map(int, matched.groups()))


class FeatureUpgradeType(StrEnum):
    """The direction of an update, and whether it may lose records. Kafka's words."""

    UPGRADE = "upgrade"
    SAFE_DOWNGRADE = "safe downgrade"
    UNSAFE_DOWNGRADE = "unsafe downgrade"


@dataclass(frozen=True, slots=True)
class DescribeFeaturesRequest:
    """Asks for all features. Only the active controller knows what the nodes support."""


@dataclass(frozen=True, slots=True)
class FeatureLevelInfo:
    """One level that the node that answered knows."""

    level: int
    since: str
    """The first release that knows it."""
    allows: str
    """The use of the level, for people."""


@dataclass(frozen=True, slots=True)
class FeatureInfo:
    """One feature: the levels from `first` to `last` are supported by the node that answered; `level` is finalized."""

    name: str
    first: int
    last: int
    level: int
    levels: tuple[FeatureLevelInfo, ...] = ()


class FeatureRange(NamedTuple):
    """The levels of one feature that a node supports."""

    name: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FeatureNode:
    """A voter, a registered broker, or another node that fetches the metadata."""

    node_id: int
    is_voter: bool
    is_broker: bool
    ranges: tuple[FeatureRange, ...] = ()
    """Empty for a node of release 0.2.0 or before, or of which nothing was heard."""
    last_heard_ms_ago: int = -1
    """-1: the node that answered has not heard of it."""


@dataclass(frozen=True, slots=True)
class FeaturesInfo:
    """The features of the cluster, and what its nodes support."""

    features: tuple[FeatureInfo, ...]
    nodes: tuple[FeatureNode, ...] = ()
    metadata_offset: int = NO_OFFSET
    only_own_view: bool = False
    """No controller answered: this is what the broker that answered knows by itself."""

    def feature(self, name: str) -> FeatureInfo | None:
        return next((one for one in self.features if one.name == name), None)

    def nodes_ahead(self, release: str) -> tuple[int, ...]:
        """The nodes that know levels which the node that answered does not, if the release is newer than all levels
        that this one knows: which levels the release has must be asked a newer node. ValueError as `levels_of`."""
        known = {one.name: one.last for one in self.features}
        if any(release_number(each.since) >= release_number(release) for one in self.features for each in one.levels):
            return ()
        return tuple(
            node.node_id for node in self.nodes if any(one.last > known.get(one.name, 0) for one in node.ranges)
        )

    def levels_of(self, release: str) -> Mapping[str, int]:
        """The highest level that a release knows, of each feature whose level is a record. ValueError for a release of
        which nothing is known."""
        wanted = release_number(release)
        known = {
            one.name: [each.level for each in one.levels if release_number(each.since) <= wanted]
            for one in self.features
            if one.name != KRAFT_VERSION
        }
        if not all(known.values()):
            raise ValueError("feature levels are known from release 0.2.0 on")
        return {name: max(levels) for name, levels in known.items()}


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature is to have this level."""

    name: str
    level: int
    upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class UpdateFeaturesRequest:
    """All updates are made, or none is."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class FeatureUpdateResult:
    """The outcome of one update; `level` is the feature's before the request."""

    name: str
    level: int
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class FeatureHindrance:
    """A node for which an update is refused, and what can be done."""

    node_id: int
    feature: str
    reason: str


@dataclass(frozen=True, slots=True)
class UpdateFeaturesResponse:
    """The outcome; `error` is that of the first update that was refused, and nothing was changed then."""

    error: ApiError | None = None
    results: tuple[FeatureUpdateResult, ...] = ()
    hindrances: tuple[FeatureHindrance, ...] = ()
    lost: tuple[str, ...] = ()
    """The parts of the metadata that a downgrade gives up, or would give up."""
    metadata_offset: int = NO_OFFSET
