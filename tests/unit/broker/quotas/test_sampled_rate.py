"""The rate is Kafka's, and who waits as long as it says has its quota: within 5 % over 30 s."""

from __future__ import annotations

import pytest

from broker.quotas.sampled_rate import QuotaWindows, SampledRate
from tests.support.amount import at_night

WINDOWS = QuotaWindows()


def test_a_rate_is_that_since_the_oldest_window_and_of_one_window_at_least() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(5_000, 1_000_000)
    assert rate.per_second(1_000_000) == rate.per_second(1_001_000) == 5_000
    assert rate.per_second(1_010_000) == 500
    assert rate.per_second(1_010_999) == pytest.approx(5_000 / 10.999)
    assert rate.per_second(1_011_000) == 0


def test_who_takes_no_more_than_the_quota_never_waits() -> None:
    rate = SampledRate(WINDOWS)
    for now_ms in range(0, 60_000, 100):
        rate.record(90, now_ms)
        assert rate.throttle_ms(1_000, now_ms) == 0


def test_a_wait_is_the_excess_over_the_quota() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(15_000, 0)
    assert rate.throttle_ms(1_000, 0) == 14_000
    assert rate.throttle_ms(1_000, 5_000) == 10_000
    assert rate.throttle_ms(20_000, 0) == 0


def test_a_single_window_divides_by_no_zero() -> None:
    rate = SampledRate(QuotaWindows(1, 1_000))
    rate.record(3_000, 0)
    assert rate.throttle_ms(1_000, 0) == 2_000


@pytest.mark.parametrize("request_bytes", at_night([500, 16_384, 100_000, 1_000_000], [500]))
@pytest.mark.parametrize("limit", [200_000, 1_000_000, 7_500_000])
@pytest.mark.parametrize("start_ms", [0, 123_457])
def test_over_30_s_a_client_has_its_quota_within_5_percent(request_bytes: int, limit: int, start_ms: int) -> None:
    """A client that sends as fast as it can, 100 MB/s, and waits as long as it is told."""
    rate, now_ms, taken, stop_ms = SampledRate(WINDOWS), float(start_ms), 0, start_ms + 60_000
    at_30_s = 0
    while now_ms < stop_ms:
        rate.record(request_bytes, int(now_ms))
        taken += request_bytes
        now_ms += request_bytes / 100_000 + rate.throttle_ms(limit, int(now_ms))
        if now_ms < start_ms + 30_000:
            at_30_s = taken
    assert (taken - at_30_s) / 30 == pytest.approx(limit, rel=0.05, abs=2 * request_bytes / 30)
    assert at_30_s / 30 == pytest.approx(limit, rel=0.05, abs=2 * request_bytes / 30)
