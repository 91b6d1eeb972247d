"""The nearest quota counts, in Kafka's order, and says with whom it is shared."""

from __future__ import annotations

import pytest

from broker.quotas.quota_limits import QuotaOwner, limits_of
from penstock.messages.security.quotas import PRODUCER_BYTE_RATE, QuotaEntity

ORDER = [
    (QuotaEntity("anna", "app"), QuotaOwner("anna", "app")),
    (QuotaEntity("anna", ""), QuotaOwner("anna", "app")),
    (QuotaEntity("anna"), QuotaOwner("anna", None)),
    (QuotaEntity("", "app"), QuotaOwner("anna", "app")),
    (QuotaEntity("", ""), QuotaOwner("anna", "app")),
    (QuotaEntity(""), QuotaOwner("anna", None)),
    (QuotaEntity(None, "app"), QuotaOwner(None, "app")),
    (QuotaEntity(None, ""), QuotaOwner(None, "app")),
]
"""The nearest first, with whose quota it is where user anna comes as app."""


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_nearest_entity_counts(first: int) -> None:
    quotas = {entity: {PRODUCER_BYTE_RATE: float(at)} for at, (entity, _) in enumerate(ORDER) if at >= first}
    limit = limits_of(quotas)[PRODUCER_BYTE_RATE].find("anna", "app")
    assert limit is not None and limit == (float(first), ORDER[first][1])


def test_an_entity_without_the_key_is_passed_over_and_one_of_others_does_not_count() -> None:
    quotas = {
        QuotaEntity("anna", "app"): {"consumer_byte_rate": 1.0},
        QuotaEntity(None, "app"): {PRODUCER_BYTE_RATE: 2.0},
        QuotaEntity("ben"): {PRODUCER_BYTE_RATE: 3.0},
    }
    limits = limits_of(quotas)
    found = limits[PRODUCER_BYTE_RATE].find("anna", "app")
    assert found is not None and found.per_second == 2
    assert limits[PRODUCER_BYTE_RATE].find("anna", "other") is None
    assert "request_percentage" not in limits


def test_a_client_without_a_name_has_the_quota_of_every_client() -> None:
    limits = limits_of({QuotaEntity(None, ""): {PRODUCER_BYTE_RATE: 2.0}})
    found = limits[PRODUCER_BYTE_RATE].find("anna", "")
    assert found is not None and found.owner == QuotaOwner(None, "")
