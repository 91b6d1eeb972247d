"""ApiVersions: which APIs this node serves, and in which versions. The first request of a connection.

A version that the node does not know is answered in version 0 with UNSUPPORTED_VERSION and all keys, so that the client
can ask again (KIP-511). From version 3 on clients tell their name and version, in a form that can be a label, and are
told of the features (KIP-584), as of the metadata of this node. Clients read three: `group.version` 1 says that groups
may have the consumer protocol (KIP-848), `transaction.version` 2 that a producer adds no partition to a transaction
(KIP-890), and `kraft.version` 1 that the quorum's voters may be changed (KIP-853). `metadata.version` has our numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from broker.kafka.api_row import ApiRow, ServedRow, over, serves
from broker.kafka.parts import PlanParts
from broker.kafka.plan import Asked, Plan
from broker.kafka.schemas.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from metadata.features import KRAFT_VERSION
from penstock.errors import InvalidRequestError, UnsupportedVersionError

SOFTWARE_FROM = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Kafka's rule for a client's name and version."""


class FeatureLevels(NamedTuple):
    """The levels of a feature that this node supports, and the one that is finalized."""

    first: int
    last: int
    level: int


def features_of(parts: PlanParts) -> Mapping[str, FeatureLevels]:
    """All features, by the metadata of this node."""
    table = parts.features
    levels = {**table.levels(parts.image().levels), KRAFT_VERSION: int(parts.voters().is_dynamic)}
    return {name: FeatureLevels(*one, levels[name]) for name, one in table.ranges.items()}


def api_versions(rows: Sequence[ApiRow]) -> ServedRow:
    """The row of ApiVersions; `rows` are all others."""

    def keys() -> list[ApiVersion]:
        ranges = (
            (row.key, row.advertised or row.versions) for row in sorted([*rows, own.row], key=lambda row: row.key)
        )
        return [ApiVersion(api_key=key, min_version=first, max_version=last) for key, (first, last) in ranges]

    def plan(parts: PlanParts, asked: Asked, body: ApiVersionsRequest) -> Plan:
        yield from ()
        if asked.version >= SOFTWARE_FROM:
            software = body.client_software_name, body.client_software_version
            if not all(map(_SOFTWARE.fullmatch, software)):
                return ApiVersionsResponse(error_code=InvalidRequestError.code)
            if asked.connection.software is None:
                asked.connection.software = parts.software.joined(*software, asked.caller)
        features = features_of(parts)
        return ApiVersionsResponse(
            api_keys=keys(),
            supported_features=[
                SupportedFeatureKey(name=name, min_version=one.first, max_version=one.last)
                for name, one in features.items()
            ],
            finalized_features_epoch=max(parts.image().offset, 0),
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=one.level, min_version_level=one.level)
                for name, one in features.items()
                if one.level > 0  # as in Kafka: a feature of level 0 is not finalized
            ],
        )

    def other_versions(asked: Asked, body: Any) -> Plan:
        yield from ()
        return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=keys())

    own = serves(ApiVersionsRequest, ApiVersionsResponse, (0, 4), over(plan), other_versions=other_versions)
    return own
