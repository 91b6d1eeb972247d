"""UpdateFeatures 0 to 2 (KIP-584). A client can raise one level: `kraft.version` 1 makes the quorum dynamic (KIP-853).

Each record and message of the metadata has a version of its own, and a newer one is written once all nodes can read it.
So an update to any other level is refused by the error of the request, and before version 2 by its own row, too:
clients look at either. One to the level that a feature has (features.py), and an empty one, succeed. Where one update
is refused, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.kafka.api_row import over, serves
from broker.kafka.errors import code_of, message_of
from broker.kafka.features import KRAFT_VERSION, Feature, features_with
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Ask, Asked, Plan
from broker.kafka.schemas.features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.errors import ApiError, InvalidUpdateVersionError
from penstock.messages import voters
from penstock.messages.security.acls import Operation
from penstock.messages.voter_apis import MAKE_QUORUM_DYNAMIC

API = "UpdateFeatures"
FIRST_WITHOUT_ROWS = 2


def update_features(parts: PlanParts, asked: Asked, body: UpdateFeaturesRequest) -> Plan:
    parts.rights.check_cluster(asked.caller, API, Operation.ALTER)
    features = features_with(parts.voters())
    errors = {update.feature: _refusal(features, update) for update in body.feature_updates}
    wanted = {update.feature: update.max_version_level for update in body.feature_updates}
    raises = wanted.get(KRAFT_VERSION, 0) > features[KRAFT_VERSION].level
    if raises and not body.validate_only and not any(errors.values()):
        request = voters.MakeQuorumDynamicRequest(timeout_ms=max(body.timeout_ms, 0))
        answer: voters.VoterChangeResponse = yield Ask(MAKE_QUORUM_DYNAMIC.name, request)
        errors[KRAFT_VERSION] = None if answer.is_so_already else answer.error
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


def _refusal(features: Mapping[str, Feature], update: FeatureUpdateKey) -> ApiError | None:
    feature = features.get(update.feature)
    if feature is None:
        return InvalidUpdateVersionError(
            f"{update.feature[:64]!r} is no feature of this cluster: what it is called elsewhere needs no update here"
        )
    if update.feature == KRAFT_VERSION and feature.level <= update.max_version_level <= feature.last:
        return None
    if update.max_version_level != feature.level:
        return InvalidUpdateVersionError(f"{update.feature} is {feature.level} in this release, and cannot be changed")
    return None


SERVED: Final = (serves(UpdateFeaturesRequest, UpdateFeaturesResponse, (0, 2), over(update_features)),)
