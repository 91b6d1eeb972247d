"""Promises of UpdateFeatures and of the features in ApiVersions, in Kafka's protocol."""

from __future__ import annotations

import pytest

from broker.kafka.apis.api_versions import features_of
from broker.kafka.schemas.features import FeatureUpdateKey, UpdateFeaturesRequest
from metadata.records import FeatureLevelRecord
from penstock.errors import InvalidUpdateVersionError, RequestTimedOutError
from penstock.messages import features as messages
from penstock.messages.features import FeatureUpdateResult, FeatureUpgradeType, UpdateFeaturesResponse
from tests.support.voters import voters_on_disks
from tests.unit.broker.kafka.apis.admin_node import AdminNode

FEATURES = 57
REFUSED = InvalidUpdateVersionError("node 3 is too old")
UP, SAFE, UNSAFE = FeatureUpgradeType.UPGRADE, FeatureUpgradeType.SAFE_DOWNGRADE, FeatureUpgradeType.UNSAFE_DOWNGRADE


def request(*updates: FeatureUpdateKey, validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(timeout_ms=3_000, feature_updates=list(updates), validate_only=validate_only)


def wanted(level: int, **fields: int) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature="metadata.version", max_version_level=level, **fields)


def asked_of(node: AdminNode) -> list[messages.FeatureUpdate]:
    return [update for ask in node.asks for update in ask.body.updates]


@pytest.mark.parametrize("version", range(3))
def test_an_update_goes_to_the_controller_and_its_answer_back(version: int) -> None:
    node = AdminNode()
    node.answers["UpdateFeatures"] = lambda body: UpdateFeaturesResponse(
        results=(FeatureUpdateResult("metadata.version", 1),)
    )
    answer = node.call(FEATURES, request(wanted(2)), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [row.error_code for row in answer.results] == ([0] if version < 2 else [])
    assert asked_of(node) == [messages.FeatureUpdate("metadata.version", 2, UP)]
    assert node.asks[0].body.timeout_ms == 3_000


@pytest.mark.parametrize("version", range(3))
def test_a_refusal_is_the_error_of_the_request_and_of_its_row(version: int) -> None:
    node = AdminNode()
    node.answers["UpdateFeatures"] = lambda body: UpdateFeaturesResponse(
        REFUSED, (FeatureUpdateResult("metadata.version", 1, REFUSED),)
    )
    answer = node.call(FEATURES, request(wanted(2)), version)
    assert (answer.error_code, answer.error_message) == (95, "node 3 is too old")
    assert [row.error_code for row in answer.results] == ([95] if version < 2 else [])


def test_kafkas_kinds_of_an_update_are_ours() -> None:
    node = AdminNode()
    node.answers["UpdateFeatures"] = lambda body: UpdateFeaturesResponse()
    for kind in (1, 2, 3):
        node.call(FEATURES, request(wanted(1, upgrade_type=kind), validate_only=True), 2)
    node.call(FEATURES, request(wanted(1, allow_downgrade=True)), 0)
    assert [update.upgrade_type for update in asked_of(node)] == [UP, SAFE, UNSAFE, SAFE]
    assert [ask.body.validate_only for ask in node.asks] == [True, True, True, False]


@pytest.mark.parametrize("kind", [0, 4, -1])
def test_a_kind_that_there_is_not_is_refused(kind: int) -> None:
    node = AdminNode()
    answer = node.call(FEATURES, request(wanted(1, upgrade_type=kind)), 1)
    assert answer.error_code == 95 and [row.error_code for row in answer.results] == [95] and node.asks == []


def test_a_request_that_fails_as_a_whole_says_so_in_every_row() -> None:
    node = AdminNode()

    def silent(body: object) -> None:
        raise RequestTimedOutError("no controller")

    node.answers["UpdateFeatures"] = silent
    answer = node.call(FEATURES, request(wanted(2), wanted(1)), 1)
    assert (answer.error_code, [row.error_code for row in answer.results]) == (7, [7, 7])


def test_features_have_the_levels_of_the_metadata_and_of_the_quorum() -> None:
    node = AdminNode()
    assert {name: one.level for name, one in features_of(node.parts).items()} == {
        "group.version": 1,
        "kraft.version": 0,
        "metadata.version": 1,
        "transaction.version": 2,
    }
    node.cluster.commit_record(FeatureLevelRecord("metadata.version", 2, "0.3.0"))
    node.cluster.commit_record(FeatureLevelRecord("group.version", 0, "0.2.0"))
    node.voters = voters_on_disks(1)
    found = features_of(node.parts)
    assert found["metadata.version"] == (1, 2, 2) and found["group.version"] == (0, 1, 0)
    assert found["kraft.version"] == (0, 1, 1)
