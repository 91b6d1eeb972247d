"""Feature levels, also of a level that the answering node does not describe."""

from __future__ import annotations

from penstock.console.pages.features import show_features
from penstock.messages.features import FeatureInfo, FeatureLevelInfo, FeaturesInfo
from tests.support.console_pages import view_of


class FakeAdmin:
    async def describe_features(self) -> FeaturesInfo:
        levels = (FeatureLevelInfo(1, "0.2.0", "nothing new"), FeatureLevelInfo(2, "0.3.0", "more"))
        known, newer = FeatureInfo("metadata.version", 1, 2, 2, levels), FeatureInfo("other", 0, 9, 9, ())
        return FeaturesInfo((known, newer), only_own_view=True)


def test_a_level_says_what_it_allows_and_an_unknown_one_says_nothing() -> None:
    view = view_of(show_features, FakeAdmin())
    assert [(row.feature, row.finalized_level, row.since, row.allows) for row in view.features] == [
        ("metadata.version", 2, "0.3.0", "more"),
        ("other", 9, "", ""),
    ]
    assert view.only_own_view
