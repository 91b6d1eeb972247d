"""UpdateFeatures 0 to 2 (KIP-584). This cluster has no features whose level a client could change.

Each record and message of the metadata has a version of its own, and a newer one is written once all nodes can read it.
So an update to another level is refused by the error of the request, and before version 2 by its own row, too: clients
look at either. One to the level that a feature has (features.py), and an empty one, succeed.
"""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.features import FEATURES
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Asked, Plan
from broker.kafka.schemas.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.errors import ApiError, InvalidUpdateVersionError
from penstock.messages.security.acls import Operation

API = "UpdateFeatures"
FIRST_WITHOUT_ROWS = 2


def update_features(parts: PlanParts, asked: Asked, body: UpdateFeaturesRequest) -> Plan:
    yield from ()
    parts.rights.check_cluster(asked.caller, API, Operation.ALTER)
    errors = {update.feature: _refusal(update) for update in body.feature_updates}
    whole = next((error for error in errors.values() if error is not None), None)
    rows = [
        UpdatableFeatureResult(
            feature=feature, error_code=code_of(error, API, asked.version), error_message=message_of(error)
        )
        for feature, error in errors.items()
    ]
    return UpdateFeaturesResponse(
        error_code=code_of(whole, API, asked.version), error_message=message_of(whole), results=rows
    )


def _refusal(update: FeatureUpdateKey) -> ApiError | None:
    feature = FEATURES.get(update.feature)
    if feature is None:
        return InvalidUpdateVersionError(
            f"{update.feature[:64]!r} is no feature of this cluster: what it is called elsewhere needs no update here"
        )
    if update.max_version_level != feature.level:
        return InvalidUpdateVersionError(f"{update.feature} is {feature.level} in this release, and cannot be changed")
    return None


SERVED: Final = (serves(UpdateFeaturesRequest, UpdateFeaturesResponse, (0, 2), over(update_features)),)
