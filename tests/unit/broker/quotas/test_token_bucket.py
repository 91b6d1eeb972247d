"""A bucket gives its burst, and then its rate; what was taken too much is waited for."""

from __future__ import annotations

import pytest

from broker.quotas.sampled_rate import QuotaWindows
from broker.quotas.token_bucket import TokenBucket


def test_a_bucket_gives_its_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(QuotaWindows(10, 1_000))
    assert bucket.take(50, 5, 0) == 0
    assert bucket.take(10, 5, 0) == 2_000
    assert bucket.take(1, 5, 2_000) == 200
    assert bucket.take(50, 5, 60_000) == 0
    assert bucket.take(1, 5, 60_000) == 200


def test_no_more_is_kept_than_the_burst_of_the_rate_of_now() -> None:
    bucket = TokenBucket(QuotaWindows(10, 1_000))
    assert bucket.take(0, 100, 0) == 0
    assert bucket.take(11, 1, 0) == 1_000


@pytest.mark.parametrize("rate", [0.5, 5.0, 500.0])
def test_over_30_s_after_its_burst_a_client_has_its_rate(rate: float) -> None:
    bucket, now_ms, taken = TokenBucket(QuotaWindows()), 0, 0
    bucket.take(rate * 11, rate, 0)
    while now_ms < 30_000:
        now_ms += bucket.take(1, rate, now_ms)
        taken += 1
    assert taken / 30 == pytest.approx(rate, rel=0.05, abs=1 / 30)
