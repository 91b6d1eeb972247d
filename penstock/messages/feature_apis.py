"""The APIs of feature levels, at a broker's listeners. Not here: what a row has (api.py)."""

from __future__ import annotations

from typing import Final

from penstock.messages import features
from penstock.messages.api import KIB, SMALL, Api, ApiKind, ApiLimits, Operation

UPDATES_MAX: Final = 100
"""Features of one request; there are a handful."""

DESCRIBE_FEATURES: Final = Api(
    "DescribeFeatures",
    features.DescribeFeaturesRequest,
    features.FeaturesInfo,
    ApiKind.ASKED,
    SMALL,
    Operation.DESCRIBE,
)
UPDATE_FEATURES: Final = Api(
    "UpdateFeatures",
    features.UpdateFeaturesRequest,
    features.UpdateFeaturesResponse,
    ApiKind.FORWARDED,
    ApiLimits(16 * KIB, {"updates": UPDATES_MAX}, "there are a handful of features"),
    Operation.ALTER,
    lambda answer: answer.results,
    tells_offset=True,
)
