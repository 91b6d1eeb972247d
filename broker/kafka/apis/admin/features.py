"""UpdateFeatures 0 to 2 (KIP-584): levels of features are raised and lowered by the active controller, all or none.

Before version 1 a client can only say that an update may be a downgrade, and means a safe one. A refused update is the
error of the request, and before version 2 of its own row, too: clients look at either. `kraft.version` 1 makes the
quorum dynamic (KIP-853). Not here: which level may be changed when (metadata/controller/features.py).
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import alone, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.errors import ApiError, InvalidUpdateVersionError
from penstock.messages import features as messages
from penstock.messages.feature_apis import UPDATE_FEATURES
from penstock.messages.features import FeatureUpgradeType

API: Final = "UpdateFeatures"
FIRST_WITHOUT_ROWS: Final = 2
ELEMENTS_MAX: Final = 200
_TYPES: Final = {
    1: FeatureUpgradeType.UPGRADE,
    2: FeatureUpgradeType.SAFE_DOWNGRADE,
    3: FeatureUpgradeType.UNSAFE_DOWNGRADE,
}
"""Kafka's numbers."""


def update_features(asked: Asked, body: UpdateFeaturesRequest) -> Plan:
    updates = tuple(_update(asked, update) for update in body.feature_updates)
    request = messages.UpdateFeaturesRequest(updates, body.validate_only, max(body.timeout_ms, 0))
    answer: messages.UpdateFeaturesResponse = yield Ask(UPDATE_FEATURES.name, request)
    rows = [
        UpdatableFeatureResult(
            feature=one.name, error_code=code_of(one.error, API, asked.version), error_message=message_of(one.error)
        )
        for one in answer.results
    ]
    return UpdateFeaturesResponse(
        error_code=code_of(answer.error, API, asked.version), error_message=message_of(answer.error), results=rows
    )


def _update(asked: Asked, update: FeatureUpdateKey) -> messages.FeatureUpdate:
    if asked.version == 0:
        kind = FeatureUpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else FeatureUpgradeType.UPGRADE
        return messages.FeatureUpdate(update.feature, update.max_version_level, kind)
    found = _TYPES.get(update.upgrade_type)
    if found is None:
        raise InvalidUpdateVersionError(
            f"{update.feature[:64]!r}: there is no upgrade type {update.upgrade_type}; 1 is an upgrade, 2 a safe"
            " downgrade, 3 an unsafe one"
        )
    return messages.FeatureUpdate(update.feature, update.max_version_level, found)


def _failed(asked: Asked, body: UpdateFeaturesRequest, error: ApiError) -> UpdateFeaturesResponse:
    """The answer where the request as a whole is refused."""
    code, message = code_of(error, API, asked.version), message_of(error)
    rows = [
        UpdatableFeatureResult(feature=update.feature, error_code=code, error_message=message)
        for update in body.feature_updates
    ]
    return UpdateFeaturesResponse(error_code=code, error_message=message, results=rows)


SERVED: Final = (
    serves(
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
        (0, 2),
        alone(update_features),
        failed=_failed,
        elements_max=ELEMENTS_MAX,
    ),
)
