"""Clients share what is theirs together, wait as long as Kafka says, and without a quota nobody counts."""

from __future__ import annotations

from broker.quotas.client_quotas import OWNERS_MAX, ClientQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import ClientQuotaRecord
from penstock.messages.security.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE


def told(quotas: ClientQuotas, *records: ClientQuotaRecord, below: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(below)
    for record in records:
        delta.replay(record)
    image = delta.apply(below.offset + 1, 0)
    quotas.published(delta, image)
    return image


def test_nobody_is_counted_without_a_quota_and_after_the_last_one_went() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = told(quotas)
    assert not quotas.is_active
    image = told(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=1_000.0), below=image)
    assert quotas.is_active
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 3_000, 0) == 2_000
    told(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna"), below=image)
    assert not quotas.is_active and quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 3_000, 0) == 0


def test_a_users_clients_share_its_quota_and_other_users_and_keys_do_not() -> None:
    quotas = ClientQuotas(QuotaWindows())
    told(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "", value=1_000.0))
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "one", 1_000, 0) == 0
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "two", 1_000, 0) == 1_000
    assert quotas.take(PRODUCER_BYTE_RATE, "ben", "one", 1_000, 0) == 0
    assert quotas.take(CONSUMER_BYTE_RATE, "anna", "one", 1_000_000, 0) == 0
    counts = quotas.statistics()
    assert (counts[PRODUCER_BYTE_RATE].throttled, counts[PRODUCER_BYTE_RATE].throttle_ms) == (1, 1_000)
    assert counts[CONSUMER_BYTE_RATE].throttled == 0


def test_time_makes_nobody_wait_longer_than_a_window() -> None:
    quotas = ClientQuotas(QuotaWindows())
    told(quotas, ClientQuotaRecord(REQUEST_PERCENTAGE, client_id="app", value=1.0))
    assert quotas.take(REQUEST_PERCENTAGE, "anna", "app", 500.0, 0) == 1_000


def test_a_changed_quota_counts_at_once_for_what_was_taken_before() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = told(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=1_000.0))
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 4_000, 0) == 3_000
    told(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=4_000.0), below=image)
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 1_000, 0) == 250


def test_names_that_clients_make_up_are_bounded() -> None:
    quotas = ClientQuotas(QuotaWindows())
    told(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, client_id="", value=1_000.0))
    for number in range(OWNERS_MAX + 10):
        quotas.take(PRODUCER_BYTE_RATE, "anna", str(number), 1, 0)
    assert repr(quotas) == f"ClientQuotas({OWNERS_MAX} rates, 0 buckets)"
