"""Clients share what is theirs together, wait as long as Kafka says, and without a quota nobody counts."""

from __future__ import annotations

import tracemalloc

import pytest

from broker.quotas.client_quotas import OWNERS_MAX, ClientQuotas
from broker.quotas.sampled_rate import THROTTLE_MS_MAX, QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import ClientQuotaRecord
from penstock.messages.security.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)


def published(quotas: ClientQuotas, *records: ClientQuotaRecord, below: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(below)
    for record in records:
        delta.replay(record)
    image = delta.apply(below.offset + 1, 0)
    quotas.published(delta, image)
    return image


def test_nobody_is_counted_without_a_quota_and_after_the_last_one_went() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = published(quotas)
    assert not quotas.is_active
    image = published(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=1_000.0), below=image)
    assert quotas.is_active
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 3_000, 0) == 2_000
    published(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna"), below=image)
    assert not quotas.is_active and quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 3_000, 0) == 0


def test_a_users_clients_share_its_quota_and_other_users_and_keys_do_not() -> None:
    quotas = ClientQuotas(QuotaWindows())
    published(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "", value=1_000.0))
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "one", 1_000, 0) == 0
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "two", 1_000, 0) == 1_000
    assert quotas.take(PRODUCER_BYTE_RATE, "ben", "one", 1_000, 0) == 0
    assert quotas.take(CONSUMER_BYTE_RATE, "anna", "one", 1_000_000, 0) == 0
    counts = quotas.statistics()
    assert (counts[PRODUCER_BYTE_RATE].throttled, counts[PRODUCER_BYTE_RATE].throttle_ms) == (1, 1_000)
    assert counts[CONSUMER_BYTE_RATE].throttled == 0


def test_time_makes_nobody_wait_longer_than_a_window() -> None:
    quotas = ClientQuotas(QuotaWindows())
    published(quotas, ClientQuotaRecord(REQUEST_PERCENTAGE, client_id="app", value=1.0))
    assert quotas.take(REQUEST_PERCENTAGE, "anna", "app", 500.0, 0) == 1_000


def test_who_waited_as_told_owes_nothing_even_above_its_quota() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = published(quotas, ClientQuotaRecord(REQUEST_PERCENTAGE, "anna", value=1.0))
    assert quotas.owed(REQUEST_PERCENTAGE, "anna", "app", 0) == 0
    assert quotas.take(REQUEST_PERCENTAGE, "anna", "app", 500.0, 100) == 1_000
    owed = [quotas.owed(REQUEST_PERCENTAGE, "anna", "another", now_ms) for now_ms in (100, 700, 1_100, 1_101)]
    assert owed == [1_000, 400, 0, 0], "it is the user's quota, and its clients share it"
    assert (
        quotas.owed(PRODUCER_BYTE_RATE, "anna", "app", 100) == quotas.owed(REQUEST_PERCENTAGE, "ben", "app", 100) == 0
    )
    published(quotas, ClientQuotaRecord(REQUEST_PERCENTAGE, "anna"), below=image)
    assert quotas.owed(REQUEST_PERCENTAGE, "anna", "app", 100) == 0, "without a quota nobody waits"


def test_a_changed_quota_counts_at_once_for_what_was_taken_before() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = published(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=1_000.0))
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 4_000, 0) == 3_000
    published(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=4_000.0), below=image)
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 1_000, 0) == 250


def test_a_corrected_quota_ends_the_waits_that_the_wrong_one_made() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = published(quotas, ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "anna", value=0.001))
    assert quotas.take(CONTROLLER_MUTATION_RATE, "anna", "app", 10, 0) == THROTTLE_MS_MAX
    assert quotas.owed(CONTROLLER_MUTATION_RATE, "anna", "app", 0) == THROTTLE_MS_MAX
    published(quotas, ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "anna", value=100.0), below=image)
    assert quotas.owed(CONTROLLER_MUTATION_RATE, "anna", "app", 0) == 0
    assert quotas.take(CONTROLLER_MUTATION_RATE, "anna", "app", 10, 1_000) == 0


@pytest.mark.parametrize(
    "change",
    [
        ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "ben", value=5.0),
        ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=5.0),
        ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "anna", value=0.5),
        ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "anna", value=1.0),
    ],
    ids=["another user's", "another key", "lower", "the same again"],
)
def test_no_other_change_of_quotas_forgets_what_a_client_owes(change: ClientQuotaRecord) -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = published(quotas, ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "anna", value=1.0))
    waits = quotas.take(CONTROLLER_MUTATION_RATE, "anna", "app", 1_000, 0)
    assert waits > 900_000
    published(quotas, change, below=image)
    assert quotas.owed(CONTROLLER_MUTATION_RATE, "anna", "app", 1) == waits - 1


def test_a_wait_for_a_raised_quota_is_not_the_old_one() -> None:
    quotas = ClientQuotas(QuotaWindows())
    image = published(quotas, ClientQuotaRecord(REQUEST_PERCENTAGE, "anna", value=0.1))
    assert quotas.take(REQUEST_PERCENTAGE, "anna", "app", 500.0, 0) == 1_000
    published(quotas, ClientQuotaRecord(REQUEST_PERCENTAGE, "anna", value=499.0), below=image)
    assert 0 < quotas.take(REQUEST_PERCENTAGE, "anna", "app", 1.0, 0) < 10
    assert quotas.owed(REQUEST_PERCENTAGE, "anna", "app", 0) < 10


def test_who_makes_up_names_does_not_get_rid_of_its_users_wait() -> None:
    quotas = ClientQuotas(QuotaWindows())
    of_user = ClientQuotaRecord(PRODUCER_BYTE_RATE, "anna", value=1_000.0)
    published(quotas, of_user, ClientQuotaRecord(REQUEST_PERCENTAGE, client_id="", value=50.0))
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 100_000, 0) == 99_000
    for number in range(OWNERS_MAX + 10):
        quotas.take(REQUEST_PERCENTAGE, "anna", str(number), 1, 0)
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "app", 1_000, 0) == 100_000


def test_a_long_name_is_cut_and_finds_its_own_quota_all_the_same() -> None:
    quotas, long = ClientQuotas(QuotaWindows()), "x" * 1_000_000
    quota = ClientQuotaRecord(PRODUCER_BYTE_RATE, client_id="x" * 1_024, value=1_000.0)
    published(quotas, quota, ClientQuotaRecord(PRODUCER_BYTE_RATE, client_id="", value=2_000.0))
    assert quotas.take(PRODUCER_BYTE_RATE, "anna", "x" * 1_024, 3_000, 0) == 2_000
    tracemalloc.start()
    try:
        for number in range(100):
            quotas.take(PRODUCER_BYTE_RATE, "anna", f"{number}{long}", 1, 0)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000, "100 MB of names came"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-9, 1.0, 1e308])
@pytest.mark.parametrize("key", [PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE])
def test_a_wait_is_bounded_whatever_the_quota_and_whatever_was_taken(key: str, value: float) -> None:
    """Every value that may be set. Kafka's protocol has 32 bits for the time, and clients wait as long as it says."""
    quotas = ClientQuotas(QuotaWindows())
    published(quotas, ClientQuotaRecord(key, "anna", value=value))
    waits = [quotas.take(key, "anna", "app", amount, 0) for amount in (100_000_000, 2**31, 1)]
    longest_ms = 1_000 if key == REQUEST_PERCENTAGE else THROTTLE_MS_MAX
    assert waits == [0 if value == 1e308 else longest_ms] * 3


def test_an_hour_after_it_has_taken_far_too_much_a_client_may_change_topics_again() -> None:
    quotas = ClientQuotas(QuotaWindows())
    published(quotas, ClientQuotaRecord(CONTROLLER_MUTATION_RATE, "anna", value=1.0))
    assert quotas.take(CONTROLLER_MUTATION_RATE, "anna", "app", 2**31, 0) == THROTTLE_MS_MAX
    assert quotas.take(CONTROLLER_MUTATION_RATE, "anna", "app", 0, THROTTLE_MS_MAX) == 0


def test_names_that_clients_make_up_are_bounded() -> None:
    quotas = ClientQuotas(QuotaWindows())
    published(quotas, ClientQuotaRecord(PRODUCER_BYTE_RATE, client_id="", value=1_000.0))
    for number in range(OWNERS_MAX + 10):
        quotas.take(PRODUCER_BYTE_RATE, "anna", str(number), 1, 0)
    assert repr(quotas) == f"ClientQuotas({OWNERS_MAX} rates, 0 buckets)"
