"""Quotas of clients: what may be set, all of an entity together, and what outlives the log."""

from __future__ import annotations

import pytest

from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, image_records
from metadata.records import ClientQuotaRecord
from penstock.errors import InvalidRequestError, InvariantViolation
from penstock.messages.security.quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaChange,
    QuotaEntity,
)
from tests.unit.metadata.harness import Cluster

ANNA = QuotaEntity("anna")
EVERY_APP = QuotaEntity("", "app")


def alteration(entity: QuotaEntity, **values: float | None) -> QuotaAlteration:
    return QuotaAlteration(entity, tuple(QuotaChange(*one) for one in values.items()))


def test_quotas_are_set_changed_and_taken_away() -> None:
    cluster = Cluster()
    assert cluster.alter_quotas(
        alteration(ANNA, producer_byte_rate=1000, request_percentage=0.5), alteration(EVERY_APP, consumer_byte_rate=1)
    ) == [None, None]
    assert cluster.image.quotas == {
        ANNA: {"producer_byte_rate": 1000.0, "request_percentage": 0.5},
        EVERY_APP: {"consumer_byte_rate": 1.0},
    }
    assert cluster.alter_quotas(alteration(ANNA, producer_byte_rate=None), alteration(EVERY_APP)) == [None, None]
    cluster.fail_over()
    assert cluster.alter_quotas(alteration(EVERY_APP, consumer_byte_rate=None)) == [None]
    assert cluster.image.quotas == {ANNA: {"request_percentage": 0.5}}


def test_what_is_so_already_makes_no_record() -> None:
    cluster = Cluster()
    cluster.alter_quotas(alteration(ANNA, producer_byte_rate=1000))
    request = AlterClientQuotasRequest(
        (alteration(ANNA, producer_byte_rate=1000, consumer_byte_rate=None), alteration(EVERY_APP))
    )
    result = cluster.controller.alter_client_quotas(request, cluster.now_ms)
    assert result.records == () and [one.error for one in result.response.results] == [None, None]


def test_a_trial_changes_nothing() -> None:
    cluster = Cluster()
    request = AlterClientQuotasRequest((alteration(ANNA, producer_byte_rate=1000),), validate_only=True)
    assert cluster.controller.alter_client_quotas(request, cluster.now_ms).records == ()


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (alteration(QuotaEntity(), producer_byte_rate=1), "names a user"),
        (alteration(QuotaEntity("anna", None, "10.0.0.1"), producer_byte_rate=1), "is of nobody else"),
        (alteration(QuotaEntity("a" * 1_025), producer_byte_rate=1), "at most 1024 characters"),
        (alteration(QuotaEntity("a\n"), producer_byte_rate=1), "control characters"),
        (alteration(ANNA, producer_bite_rate=1), "producer_byte_rate"),
        (alteration(ANNA, controller_mutation_rate=0), "above 0"),
        (alteration(ANNA, connection_creation_rate=1), "is of an ip"),
        (alteration(ANNA, nonsense=None), "there is no quota"),
        (alteration(ANNA, producer_byte_rate=0), "above 0"),
        (alteration(ANNA, producer_byte_rate=-1), "above 0"),
        (alteration(ANNA, producer_byte_rate=1.5), "no fraction"),
        (alteration(ANNA, request_percentage=float("nan")), "above 0"),
        (alteration(ANNA, request_percentage=float("inf")), "above 0"),
        (QuotaAlteration(ANNA, (QuotaChange("producer_byte_rate", 1.0),) * 2), "named twice"),
    ],
)
def test_a_wrong_change_leaves_the_others_of_its_entity_undone(bad: QuotaAlteration, text: str) -> None:
    cluster = Cluster()
    whole = QuotaAlteration(bad.entity, (QuotaChange("consumer_byte_rate", 7.0), *bad.changes))
    refused, done = cluster.alter_quotas(whole, alteration(EVERY_APP, consumer_byte_rate=1))
    assert isinstance(refused, InvalidRequestError) and text in str(refused) and done is None
    assert set(cluster.image.quotas) == {EVERY_APP}


@pytest.mark.parametrize(
    ("ip", "values", "text"),
    [
        ("10.0.0.1", {"producer_byte_rate": 1}, "an ip has no producer_byte_rate"),
        ("10.0.0.1", {"connection_creation_rate": 0}, "above 0"),
        ("10.0.0.1", {"connection_creation_rate": -1}, "above 0"),
        ("10.0.0.1", {"connection_creation_rate": 1.5}, "counts connections"),
        ("10.0.0.1", {"connection_creation_rate": float("nan")}, "above 0"),
        ("10.0.0.1", {"connection_creation_rat": 1}, "connection_creation_rate"),
        ("web-1.example", {"connection_creation_rate": 1}, "is no address"),
        ("10.0.0.0/8", {"connection_creation_rate": 1}, "is no address"),
        ("::ffff:a00:7", {"connection_creation_rate": 1}, "as '10.0.0.7'"),
        ("*", {"connection_creation_rate": 1}, "is no address"),
        ("::0001", {"connection_creation_rate": 1}, "as '::1'"),
        ("1" * 2_000, {"connection_creation_rate": 1}, "is no address"),
    ],
)
def test_a_wrong_quota_of_an_address_is_refused_with_its_remedy(ip: str, values: dict[str, float], text: str) -> None:
    cluster = Cluster()
    (refused,) = cluster.alter_quotas(alteration(QuotaEntity(ip=ip), **values))
    assert isinstance(refused, InvalidRequestError) and text in str(refused) and len(str(refused)) < 300
    assert not cluster.image.quotas


def test_addresses_have_quotas_of_their_own_and_one_for_each_other() -> None:
    cluster = Cluster()
    each, own = QuotaEntity(ip=""), QuotaEntity(ip="2001:db8::1")
    done = cluster.alter_quotas(
        alteration(each, connection_creation_rate=5), alteration(own, connection_creation_rate=50)
    )
    assert done == [None, None]
    assert cluster.image.quotas == {each: {"connection_creation_rate": 5}, own: {"connection_creation_rate": 50}}
    assert cluster.alter_quotas(alteration(own, connection_creation_rate=None)) == [None]
    cluster.fail_over()
    assert set(cluster.image.quotas) == {each}


def test_an_entity_that_is_named_twice_is_changed_once() -> None:
    cluster = Cluster()
    first, second = cluster.alter_quotas(alteration(ANNA, producer_byte_rate=1), alteration(ANNA, producer_byte_rate=2))
    assert first is None and "changed twice" in str(second)
    assert cluster.image.quotas == {ANNA: {"producer_byte_rate": 1.0}}


def test_an_image_of_its_own_records_is_equal() -> None:
    cluster = Cluster()
    cluster.alter_quotas(
        alteration(QuotaEntity(None, "b"), producer_byte_rate=1),
        alteration(EVERY_APP, consumer_byte_rate=1),
        alteration(QuotaEntity("anna", "app"), request_percentage=12.25),
    )
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in image_records(cluster.image):
        delta.replay(record)
    again = delta.apply(cluster.image.offset, cluster.image.epoch)
    assert again.quotas == cluster.image.quotas and again.digest() == cluster.image.digest()
    assert not MetadataDelta.between(EMPTY_IMAGE, cluster.image).is_empty


def test_a_quota_that_there_is_not_cannot_go() -> None:
    with pytest.raises(InvariantViolation, match="no such quota"):
        MetadataDelta(EMPTY_IMAGE).replay(ClientQuotaRecord("producer_byte_rate", "anna"))
