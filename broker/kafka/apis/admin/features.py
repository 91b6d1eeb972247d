"""UpdateFeatures 0 to 2 (KIP-584). This cluster has no features whose level a client could change.

Each record and message of the metadata has a version of its own, and a newer one is written once all nodes can read it.
So ApiVersions tells no features either, and every update is refused: by its own row, from version 2 on by the error of
the request. An empty update succeeds.
"""

from __future__ import annotations

from broker.kafka.errors import code_of, message_of
from broker.kafka.plan import Asked, Plan
from broker.kafka.schemas.features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.errors import ApiError, InvalidUpdateVersionError

API = "UpdateFeatures"
FIRST_WITHOUT_ROWS = 2


def update_features(asked: Asked, body: UpdateFeaturesRequest) -> Plan:
    yield from ()
    errors = {update.feature: _unknown(update.feature) for update in body.feature_updates}
    first = next(iter(errors.values()), None)
    whole = first if asked.version >= FIRST_WITHOUT_ROWS else None
    rows = [
        UpdatableFeatureResult(
            feature=feature, error_code=code_of(error, API, asked.version), error_message=message_of(error)
        )
        for feature, error in errors.items()
    ]
    return UpdateFeaturesResponse(
        error_code=code_of(whole, API, asked.version), error_message=message_of(whole), results=rows
    )


def _unknown(feature: str) -> ApiError:
    return InvalidUpdateVersionError(
        f"{feature[:64]!r} is no feature of this cluster: it has none with a level, and needs no update"
    )
