"""The calls of Admin for the levels of features (KIP-584), as its faces have them.

A change is over when every broker in service has heard of it. All levels of a call are changed, or none is. One whose
answer was lost is asked for again: a level that is there already is no error. Not here: which level may be changed
when, which the active controller decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.admin import changes
from penstock.client.admin.admin_core import AdminCore
from penstock.client.admin.configs import wait_heard
from penstock.client.cluster import arguments
from penstock.client.cluster.cluster import ClusterClient
from penstock.errors import ApiError, UnsupportedVersionError
from penstock.lazy_dataclass import dataclass
from penstock.messages.feature_apis import DESCRIBE_FEATURES, UPDATE_FEATURES
from penstock.messages.features import (
    DescribeFeaturesRequest,
    FeatureHindrance,
    FeaturesInfo,
    FeatureUpdate,
    FeatureUpgradeType,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """One feature, before a call and after it."""

    name: str
    before: int
    level: int


@dataclass(frozen=True, slots=True)
class FeatureChanges:
    """The outcome of a change of levels, or, with `dry_run`, what it would be."""

    changes: tuple[FeatureChange, ...]
    lost: tuple[str, ...] = ()
    """The parts of the metadata that a downgrade gives up, for people."""
    refusal: ApiError | None = None
    """The reason why it would be refused, with `dry_run`. Nothing would be changed then."""
    hindrances: tuple[FeatureHindrance, ...] = ()
    """The nodes for which it would be refused, with `dry_run`."""


class FeatureCalls:
    """The calls about features, over the connections of one admin client."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    async def describe_features(self) -> FeaturesInfo:
        """The features with their finalized levels, and what each node supports, as the active controller knows it.

        Without a controller it is what a broker knows by itself: `only_own_view` is True then. UnsupportedVersionError
        where the nodes are of release 0.2.0 or before.
        """
        return await features_view(self._core.cluster, await self._core.begin())

    async def upgrade_features(self, levels: Mapping[str, int], *, dry_run: bool = False) -> FeatureChanges:
        """Raises features to these levels, once every node knows them; InvalidUpdateVersionError names a node that does
        not, or that is away. `kraft.version` 1 makes the quorum dynamic.

        No older release can be installed from then on unless the levels are lowered first. `dry_run` only looks whether
        it can be done.
        """
        return await self._update(levels, FeatureUpgradeType.UPGRADE, dry_run=dry_run)

    async def downgrade_features(
        self, levels: Mapping[str, int], *, unsafe: bool = False, dry_run: bool = False
    ) -> FeatureChanges:
        """Lowers features to these levels, where no record is lost by it; `unsafe` gives up what would be lost."""
        kind = FeatureUpgradeType.UNSAFE_DOWNGRADE if unsafe else FeatureUpgradeType.SAFE_DOWNGRADE
        return await self._update(levels, kind, dry_run=dry_run)

    async def _update(self, levels: Mapping[str, int], kind: FeatureUpgradeType, *, dry_run: bool) -> FeatureChanges:
        updates = tuple(FeatureUpdate(_name(name), _level(level), kind) for name, level in levels.items())
        if not updates:
            raise ValueError("no feature is named")
        deadline_ms = await self._core.begin()
        cluster, request = self._core.cluster, UpdateFeaturesRequest(updates, dry_run)
        judge = changes.unjudged if dry_run else _refusal
        try:
            answer = await changes.change(cluster, UPDATE_FEATURES, request, deadline_ms, judge)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(
                "a node on the way to the active controller is of release 0.2.0 or before, which has no feature"
                f" levels: install a newer one on every node first ({error.message})"
            ) from None
        if not dry_run:
            await wait_heard(cluster, answer.metadata_offset, deadline_ms)
        before = {result.name: result.level for result in answer.results}
        done = tuple(FeatureChange(one.name, before.get(one.name, one.level), one.level) for one in updates)
        return FeatureChanges(done, answer.lost, answer.error, answer.hindrances)


async def features_view(cluster: ClusterClient, deadline_ms: int) -> FeaturesInfo:
    """The features as the active controller has them, or as a broker knows them by itself."""
    return await changes.ask(cluster, DESCRIBE_FEATURES, DescribeFeaturesRequest(), deadline_ms)


def _refusal(answer: UpdateFeaturesResponse) -> None:
    if answer.error is not None:
        raise answer.error


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a feature must be a str, not {type(name).__name__}")
    if not name:
        raise ValueError("the name of a feature is empty")
    return name


def _level(level: object) -> int:
    return arguments.checked_number("level", level, 0, arguments.MAX_INT32)
