"""Feature levels, and what each node supports, as `penstock features describe` has them."""

from __future__ import annotations

from penstock.console.page import PageAsked
from penstock.lazy_dataclass import dataclass
from penstock.messages.features import FeatureNode, FeaturesInfo


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """One feature."""

    feature: str
    supported_min: int
    supported_max: int
    finalized_level: int
    since: str
    """The release that knows the level first."""
    allows: str


@dataclass(frozen=True, slots=True)
class FeaturesView:
    """Every feature, and every node."""

    features: tuple[FeatureRow, ...]
    nodes: tuple[FeatureNode, ...]
    only_own_view: bool


async def show_features(asked: PageAsked) -> FeaturesView:
    """Asks the controller, by way of a broker."""
    info = await asked.admin.describe_features()
    return FeaturesView(tuple(_rows(info)), info.nodes, info.only_own_view)


def _rows(info: FeaturesInfo) -> list[FeatureRow]:
    rows = []
    for one in info.features:
        level = next((each for each in one.levels if each.level == one.level), None)
        since, allows = ("", "") if level is None else (level.since, level.allows)
        rows.append(FeatureRow(one.name, one.first, one.last, one.level, since, allows))
    return rows
